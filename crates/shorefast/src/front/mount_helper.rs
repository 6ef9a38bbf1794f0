//! mount(8)'s helper, `mount.TYPE SPEC DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE.SUBTYPE]`, in any order.
//!
//! Callers should not notice that the client is not installed: its output and its exit code become ours. mount(8) has already done its
//! part: fstab is read, and options meant for mount(8) are not passed on.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use lexopt::Arg::{Short, Value};
use shorefast_engine::configuration::Configuration;
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context};
use shorefast_engine::request::{HelperFlag, Request};
use shorefast_engine::{Error, client};
use shorefast_image::store::Network;

use crate::front::fast_args;
use crate::front::places::{self, Places};
use crate::front::timeout::Timeout;
use crate::report;

#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, args_override_self = true, version)]
struct Words {
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    timeout: Timeout,
    /// Mount options, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// The full type, for a helper of many types
    #[arg(short = 't', value_name = "TYPE")]
    fstype: Option<String>,
    /// Do everything except mounting
    #[arg(short)]
    fake: bool,
    /// Report what was done
    #[arg(short)]
    verbose: bool,
    /// The target's mount namespace, as the path of a descriptor
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// The same as -o ro
    #[arg(short)]
    read_only: bool,
    /// The same as -o rw
    #[arg(short = 'w')]
    read_write: bool,
    /// Tolerate unknown options, if the client supports that
    #[arg(short)]
    sloppy: bool,
    /// Accepted and ignored: there is no mtab
    #[arg(short)]
    no_mtab: bool,
    #[arg(value_name = "SOURCE")]
    source: OsString,
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

#[inline(never)]
pub fn run(named: &str, arguments: &[OsString]) -> ExitCode {
    if let Some(words) = Words::usual(&arguments[1..]) {
        return words.carry_out(named);
    }
    let name = format!("mount.{named}");
    let usage = format!("{name} SOURCE TARGET [-sfnvrw] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]");
    let command = Words::command().name(name.clone()).override_usage(usage);
    let words = command.try_get_matches_from(&arguments[1..]).and_then(|matches| Words::from_arg_matches(&matches));
    match words {
        Ok(words) => words.carry_out(named),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(u8::from(error.use_stderr()))
        }
    }
}

impl Words {
    /// Parses mount(8)'s usual arguments; the rest is left to clap ([`usual`]).
    fn usual(arguments: &[OsString]) -> Option<Self> {
        if fast_args::is_said_elsewhere() {
            return None;
        }
        let (mut words, mut operands) = (Self::default(), Vec::new());
        let mut reader = lexopt::Parser::from_args(arguments);
        while let Some(argument) = reader.next().ok()? {
            match argument {
                Short('o') => words.options.push(fast_args::value(&mut reader)?.into_string().ok()?),
                Short('t') => words.fstype = Some(fast_args::value(&mut reader)?.into_string().ok()?),
                Short('f') => words.fake = true,
                Short('n') => words.no_mtab = true,
                Short('r') => words.read_only = true,
                Short('s') => words.sloppy = true,
                Short('v') => words.verbose = true,
                Short('w') => words.read_write = true,
                Value(operand) if !operand.is_empty() => operands.push(operand),
                _ => return None,
            }
        }
        let [source, target] = <[OsString; 2]>::try_from(operands).ok()?;
        Some(Self { source, target: target.into(), ..words })
    }

    fn carry_out(self, named: &str) -> ExitCode {
        self.mount(named).map_or_else(|error| report::failure_of_client(&error), |()| ExitCode::SUCCESS)
    }

    fn mount(self, named: &str) -> Result<(), Error> {
        let mounter = (!self.fake).then(Mounter::prepare);
        let configuration = self.places.configuration()?;
        let (fstype, source) = meant(self.fstype.as_deref().unwrap_or(named), &self.source);
        let flags = [self.read_only.then_some("ro"), self.read_write.then_some("rw")].into_iter().flatten().map(str::to_owned);
        let request = Request {
            fstype: Some(listed(fstype, &configuration)),
            options: self.options.into_iter().chain(flags).collect::<Vec<_>>().join(","),
            flags: [self.sloppy.then_some(HelperFlag::Sloppy), self.verbose.then_some(HelperFlag::Verbose)].into_iter().flatten().collect(),
            namespace: self.namespace,
            timeout: self.timeout.limit(),
            ..Request::new(source, &self.target)
        };
        let plan = plan::make(&request, &Context { configuration, owner: places::owner() })?;
        if let Some(mounter) = mounter {
            mounter.mount(&plan, &self.places.host(Network::Allowed))?;
        }
        if self.verbose {
            report::print(&format!("mount.{named}: {} mounted on {}.\n", Path::new(source).display(), self.target.display()));
        }
        Ok(())
    }
}

/// mount.fuse is one helper for all FUSE types: the subtype is in the type (`-t fuse.sshfs`) or before the source (`sshfs#host:`).
fn meant<'a>(fstype: &str, source: &'a OsStr) -> (String, &'a OsStr) {
    let split = source.as_bytes().iter().position(|byte| *byte == b'#').map(|at| (&source.as_bytes()[..at], &source.as_bytes()[at + 1..]));
    match split {
        Some((subtype, rest)) if matches!(fstype, "fuse" | "fuse3") => {
            (format!("fuse.{}", String::from_utf8_lossy(subtype)), OsStr::from_bytes(rest))
        }
        _ => (fstype.to_owned(), source),
    }
}

/// A client need not list its type twice: `fuse.x` means `x` unless a client lists `fuse.x`.
fn listed(fstype: String, configuration: &Configuration) -> String {
    let is_listed = |fstype: &str| !matches!(client::by_type(fstype, configuration), Err(Error::UnknownType { .. }));
    match fstype.strip_prefix("fuse.") {
        Some(subtype) if !is_listed(&fstype) && is_listed(subtype) => subtype.to_owned(),
        _ => fstype,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_in_the_name_or_before_the_source() {
        let rows = [
            ("glusterfs", "host:/v0", ("glusterfs", "host:/v0")),
            ("fuse.sshfs", "me@host:/x", ("fuse.sshfs", "me@host:/x")),
            ("fuse", "sshfs#me@host:/x#y", ("fuse.sshfs", "me@host:/x#y")),
            ("davfs", "http://host/#x", ("davfs", "http://host/#x")),
        ];
        for (fstype, source, (meant_type, meant_source)) in rows {
            assert_eq!(meant(fstype, OsStr::new(source)), (meant_type.to_owned(), OsStr::new(meant_source)), "{fstype} {source}");
        }
    }

    #[test]
    fn words_come_in_any_order() {
        for line in ["host:/v /mnt -s -n -o a=b,c -v", "-sn -oa=b,c -v host:/v /mnt", "-v host:/v -o a=b -o c -n /mnt -s"] {
            let words = Words::try_parse_from(line.split(' ')).unwrap();
            assert_eq!((words.options.join(","), words.source, words.target), ("a=b,c".into(), "host:/v".into(), "/mnt".into()), "{line}");
            assert!(words.verbose && words.sloppy && words.no_mtab && !words.fake);
        }
        for line in ["", "host:/v", "-o", "a b c", "a b -x"] {
            assert!(Words::try_parse_from(line.split(' ').filter(|word| !word.is_empty())).is_err(), "{line}");
        }
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        let rows = [
            (true, "host:/v /mnt -o rw"),
            (true, "host:/v /mnt -s -n -o a=b,c -v"),
            (true, "-sn -oa=b,c -vv host:/v -w /mnt"),
            (true, "-o a -o b -f -r -- -a /mnt"),
            (true, "x /mnt -t fuse.x -t fuse.y"),
            (false, "host:/v /mnt -N /proc/self/fd/3"),
            (false, "--root /r host:/v /mnt"),
            (false, "host:/v /mnt -V"),
            (false, "host:/v /mnt -o -v"),
            (false, "host:/v"),
            (false, "a b c"),
            (false, ""),
        ];
        fast_args::reads_what_clap_reads(Words::usual, &rows);
    }
}

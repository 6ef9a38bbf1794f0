//! mount(8)'s helper, `mount.TYPE SPEC DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE.SUBTYPE]`, in any order.
//!
//! Callers should not notice that the client is not installed: its output and its exit code become ours. mount(8) has already done its
//! part: fstab is read, and options meant for mount(8) are not passed on.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use shorefast_engine::configuration::Configuration;
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context};
use shorefast_engine::request::{HelperFlag, Request};
use shorefast_engine::{Error, client};
use shorefast_image::store::Network;

use crate::front::places::{self, Places};
use crate::front::spelling::{Problem, Spelling};
use crate::front::timeout::Timeout;
use crate::front::words::{Reader, Repeated, Word};
use crate::report;

// clap's definition is for help; `Words::read` parses.
#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, version)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperOption {
    Options,
    Type,
    Fake,
    Verbose,
    Namespace,
    ReadOnly,
    ReadWrite,
    Sloppy,
    NoMtab,
}

const OPTIONS: &[Spelling<HelperOption>] = &[
    Spelling::values(HelperOption::Options, Some('o'), None),
    Spelling::value(HelperOption::Type, Some('t'), None),
    Spelling::flag(HelperOption::Fake, Some('f'), None),
    Spelling::flag(HelperOption::Verbose, Some('v'), None),
    Spelling::value(HelperOption::Namespace, Some('N'), None),
    Spelling::flag(HelperOption::ReadOnly, Some('r'), None),
    Spelling::flag(HelperOption::ReadWrite, Some('w'), None),
    Spelling::flag(HelperOption::Sloppy, Some('s'), None),
    Spelling::flag(HelperOption::NoMtab, Some('n'), None),
];

#[inline(never)]
pub fn run(named: &str, arguments: &[OsString]) -> ExitCode {
    match Words::read(&arguments[1..]) {
        Ok(words) => words.carry_out(named),
        Err(problem) => {
            let name = format!("mount.{named}");
            let usage = format!("{name} SOURCE TARGET [-sfnvrw] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]");
            problem.report(Words::command().name(name).override_usage(usage))
        }
    }
}

impl Words {
    fn read(arguments: &[OsString]) -> Result<Self, Problem> {
        let (mut words, mut operands) = (Self::default(), Vec::new());
        let mut reader = Reader::new(arguments, OPTIONS, Repeated::LastCounts);
        while let Some(word) = reader.next_word()? {
            match word {
                Word::Operand(operand) => operands.push(operand),
                Word::Valued(HelperOption::Options, value) => words.options.push(value.text()?),
                Word::Valued(HelperOption::Type, value) => words.fstype = Some(value.text()?),
                Word::Valued(HelperOption::Namespace, value) => words.namespace = Some(value.path()?),
                Word::Flag(HelperOption::Fake) => words.fake = true,
                Word::Flag(HelperOption::NoMtab) => words.no_mtab = true,
                Word::Flag(HelperOption::ReadOnly) => words.read_only = true,
                Word::Flag(HelperOption::Sloppy) => words.sloppy = true,
                Word::Flag(HelperOption::Verbose) => words.verbose = true,
                Word::Flag(HelperOption::ReadWrite) => words.read_write = true,
                Word::Flag(option) | Word::Valued(option, _) => unreachable!("{option:?} is in the table as it is matched"),
            }
        }
        let operands = <[OsString; 2]>::try_from(operands);
        let [source, target] = operands.map_err(|_| Problem::Wrong("one source and one target are needed".to_owned()))?;
        if target.is_empty() {
            return Err(Problem::Wrong("the target is empty".to_owned()));
        }
        let (places, timeout) = reader.finish()?;
        Ok(Self { places, timeout, source, target: target.into(), ..words })
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

    fn read(line: &str) -> Result<Words, Problem> {
        Words::read(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_come_in_any_order() {
        for line in ["host:/v /mnt -s -n -o a=b,c -v", "-sn -oa=b,c -v host:/v /mnt", "-v host:/v -o a=b -o c -n /mnt -s"] {
            let words = read(line).unwrap();
            assert_eq!((words.options.join(","), words.source, words.target), ("a=b,c".into(), "host:/v".into(), "/mnt".into()), "{line}");
            assert!(words.verbose && words.sloppy && words.no_mtab && !words.fake);
        }
        let words = read("-t fuse.x -N /proc/self/fd/3 -vv -rwf -- -a /mnt -t fuse.y --root").unwrap_err();
        assert_eq!(words, Problem::Wrong("one source and one target are needed".to_owned()));
        let words = read("-t fuse.x -N /proc/self/fd/3 -vv -rwf -t fuse.y --root /r -- -a /mnt").unwrap();
        assert_eq!(
            (words.fstype.as_deref(), words.namespace, words.places.root),
            (Some("fuse.y"), Some("/proc/self/fd/3".into()), "/r".into())
        );
        assert!(words.read_only && words.read_write && words.fake);
        for line in ["", "host:/v", "-o", "a b c", "a b -x", "a b -o -v"] {
            assert!(matches!(read(line), Err(Problem::Wrong(_))), "{line}");
        }
    }

    #[test]
    fn help_and_parser_know_the_same_options() {
        crate::front::words::knows_what_clap_knows(OPTIONS, &Words::command());
    }
}

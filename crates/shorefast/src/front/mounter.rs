//! kubelet's `--experimental-mounter-path`: `mounter mount [-t TYPE] [-o OPTIONS] [SOURCE] TARGET`.
//!
//! kubelet reads our output until EOF and shows all of it as the pod's event; it unmounts with umount(8) and never calls us for that. Types
//! that no client lists, and calls that do not mount a filesystem, go to mount(8).

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{CommandFactory as _, Parser};
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context};
use shorefast_engine::request::Request;
use shorefast_engine::{Error, Kind, client};
use shorefast_image::store::Network;
use shorefast_sandbox::cgroup;

use crate::front::places::{self, Places};
use crate::front::spelling::{Problem, Spelling};
use crate::front::timeout::Timeout;
use crate::front::words::{Reader, Repeated, Word};
use crate::report;

/// kubelet's arguments after the word `mount`.
// clap's definition is for help; `Words::read` parses.
#[derive(Debug, Default, Parser)]
#[command(name = "mounter mount", no_binary_name = true, override_usage = USAGE)]
struct Words {
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    timeout: Timeout,
    /// The filesystem type
    #[arg(short = 't', long = "types", value_name = "TYPE")]
    fstype: Option<String>,
    /// Mount options, separated by commas
    #[arg(short, long, value_name = "OPTIONS")]
    options: Vec<String>,
    /// The same as -o ro
    #[arg(short, long)]
    read_only: bool,
    /// Accepted and ignored: paths are used as given
    #[arg(short = 'c', long)]
    no_canonicalize: bool,
    /// Accepted and ignored: there is no mtab
    #[arg(short, long)]
    no_mtab: bool,
    operands: Vec<OsString>,
}

const USAGE: &str = "mounter mount -t TYPE [-o OPTIONS] SOURCE TARGET";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MounterOption {
    Type,
    Options,
    ReadOnly,
    NoCanonicalize,
    NoMtab,
}

const OPTIONS: &[Spelling<MounterOption>] = &[
    Spelling::value(MounterOption::Type, Some('t'), Some("types")),
    Spelling::values(MounterOption::Options, Some('o'), Some("options")),
    Spelling::flag(MounterOption::ReadOnly, Some('r'), Some("read-only")),
    Spelling::flag(MounterOption::NoCanonicalize, Some('c'), Some("no-canonicalize")),
    Spelling::flag(MounterOption::NoMtab, Some('n'), Some("no-mtab")),
];

#[inline(never)]
pub fn run(arguments: &[OsString]) -> ExitCode {
    let (called, words) = arguments.split_first().expect("the program was called by this name, so there is a first argument");
    // Kubernetes 1.5, and mounters of that time, did not pass the word.
    let words = words.strip_prefix(&[OsString::from("mount")]).unwrap_or(words);
    if moves_what_is_there(words) {
        return ExitCode::from(plain_mount(words));
    }
    match Words::read(words) {
        // The client must outlive kubelet's next restart, which kills everything in its cgroups.
        Ok(parsed) if parsed.says_all() => ExitCode::from(cgroup::run_outside_callers(|| parsed.conclude(called, words))),
        Ok(parsed) => ExitCode::from(parsed.conclude(called, words)),
        Err(problem) => problem.report(Words::command()),
    }
}

enum Outcome {
    Mounted,
    /// Left to mount(8).
    NotOurs,
    Incomplete {
        operands: usize,
    },
}

impl Words {
    fn read(arguments: &[OsString]) -> Result<Self, Problem> {
        let mut words = Self::default();
        let mut reader = Reader::new(arguments, OPTIONS, Repeated::LastCounts);
        while let Some(word) = reader.next_word()? {
            match word {
                Word::Operand(operand) => words.operands.push(operand),
                Word::Valued(MounterOption::Type, value) => words.fstype = Some(value.text()?),
                Word::Valued(MounterOption::Options, value) => words.options.push(value.text()?),
                Word::Flag(MounterOption::ReadOnly) => words.read_only = true,
                Word::Flag(MounterOption::NoCanonicalize) => words.no_canonicalize = true,
                Word::Flag(MounterOption::NoMtab) => words.no_mtab = true,
                Word::Flag(option) | Word::Valued(option, _) => unreachable!("{option:?} is in the table as it is matched"),
            }
        }
        (words.places, words.timeout) = reader.finish()?;
        Ok(words)
    }

    /// Whether the call has all that a mount needs.
    fn says_all(&self) -> bool {
        self.operands.len() == 2 && self.fstype.is_some()
    }

    /// Returns the exit code.
    fn conclude(self, called: &OsStr, words: &[OsString]) -> u8 {
        match self.carry_out(called) {
            Ok(Outcome::Mounted) => 0,
            Ok(Outcome::NotOurs) => plain_mount(words),
            Ok(Outcome::Incomplete { operands }) => {
                report::say(&format!("shorefast: a source and a target are needed, but the call has {operands} of them\nusage: {USAGE}"));
                report::exit_code(Kind::Usage)
            }
            Err(error) => {
                report::say(&report::text(&error));
                report::exit_code(error.kind())
            }
        }
    }

    fn carry_out(mut self, called: &OsStr) -> Result<Outcome, Error> {
        let mounter = self.says_all().then(Mounter::prepare);
        let beside = beside(called);
        // Definitions that came with the mounter take precedence over the node's.
        self.places.clients.push(beside.join("clients.d"));
        let configuration = self.places.configuration()?;
        // A definition that cannot be used is an error, not a reason to fall back to mount(8).
        let has_client = |fstype: &String| !matches!(client::by_type(fstype, &configuration), Err(Error::UnknownType { .. }));
        let (source, target) = match (&self.operands[..], &self.fstype) {
            ([source, target], Some(_)) => (source, target),
            // The source is in fstab, or the type is left to the kernel.
            ([_], fstype) if !fstype.as_ref().is_some_and(has_client) => return Ok(Outcome::NotOurs),
            ([_, _], None) => return Ok(Outcome::NotOurs),
            (operands, _) => return Ok(Outcome::Incomplete { operands: operands.len() }),
        };
        let read_only = self.read_only.then(|| "ro".to_owned());
        let request = Request {
            fstype: self.fstype.clone(),
            options: self.options.into_iter().chain(read_only).collect::<Vec<_>>().join(","),
            name_servers: Some(beside.join("rootfs/etc/resolv.conf")).filter(|file| file.is_file()),
            timeout: self.timeout.limit(),
            ..Request::new(source, target)
        };
        let plan = plan::make(&request, &Context { configuration, owner: places::owner() })?;
        mounter.unwrap_or_else(Mounter::prepare).mount(&plan, &self.places.host(Network::Allowed))?;
        Ok(Outcome::Mounted)
    }
}

/// The directory that kubelet takes for ours: that of the path it calls, not of the file behind a link.
fn beside(called: &OsStr) -> PathBuf {
    let own = || std::env::current_exe().ok()?.parent().map(Path::to_owned);
    let named = Path::new(called).parent().filter(|directory| !directory.as_os_str().is_empty()).map(Path::to_owned);
    named.or_else(own).unwrap_or_default()
}

/// Binds, moves, remounts and changes of propagation: none of them needs a client.
fn moves_what_is_there(words: &[OsString]) -> bool {
    const LONG: [&str; 6] = ["--bind", "--rbind", "--move", "--make-", "-B", "-R"];
    const OPTIONS: [&str; 4] = ["bind", "rbind", "move", "remount"];
    let texts = words.iter().filter_map(|word| word.to_str());
    texts.clone().any(|word| LONG.iter().any(|start| word.starts_with(start)))
        || texts.clone().zip(texts.skip(1)).any(|(flag, value)| flag == "-o" && value.split(',').any(|option| OPTIONS.contains(&option)))
}

/// Executes mount(8) in our place.
fn plain_mount(words: &[OsString]) -> u8 {
    let error = Command::new("mount").args(words).exec();
    report::say(&format!("shorefast: this call needs mount(8), which cannot be run: {error}"));
    report::exit_code(Kind::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_directory_is_that_of_the_path_it_calls() {
        assert_eq!(beside(OsStr::new("/home/kubernetes/mounter")), Path::new("/home/kubernetes"));
        assert!(beside(OsStr::new("mounter")).is_absolute());
    }

    #[test]
    fn what_needs_no_client_is_recognized() {
        let rows = [
            ("-t nfs -o ro,vers=4 a:/b /c", false),
            ("-t nfs -o ro,remount a:/b /c", true),
            ("-t none -o bind,ro /a /b", true),
            ("--bind /a /b", true),
            ("--make-rshared /a", true),
            ("-t glusterfs bind:/remount /move", false),
        ];
        for (line, expected) in rows {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            assert_eq!(moves_what_is_there(&words), expected, "{line}");
        }
    }

    #[test]
    fn words_are_kubelets() {
        let read = |line: &str| Words::read(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>());
        let rows = [
            ("-t glusterfs -o log-level=ERROR,ro host:/v /mnt", Some("glusterfs"), "log-level=ERROR,ro", 2),
            ("-t nfs -o a -ob -t cifs host:/v /mnt", Some("cifs"), "a,b", 2),
            ("host:/v --types nfs -rcn --no-mtab -- -x", Some("nfs"), "", 2),
            ("/mnt", None, "", 1),
            ("", None, "", 0),
        ];
        for (line, fstype, options, operands) in rows {
            let words = read(line).unwrap();
            assert_eq!(
                (words.fstype.as_deref(), words.options.join(","), words.operands.len()),
                (fstype, options.to_owned(), operands),
                "{line}"
            );
        }
        assert!(matches!(read("-t"), Err(Problem::Wrong(_))));
        assert!(matches!(read("--nosuch a b"), Err(Problem::Wrong(_))));
        assert_eq!(read("--help").unwrap_err(), Problem::Asked("--help".to_owned()));
    }

    #[test]
    fn help_and_parser_know_the_same_options() {
        crate::front::words::knows_what_clap_knows(OPTIONS, &Words::command());
    }
}

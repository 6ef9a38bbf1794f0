//! `cargo xtask e2e-kernels`: the end-to-end tests on each guest kernel, and one table: a row per scenario, a column per kernel.
//!
//! A test that needs more than this machine's kernel has (NFS, CIFS) is ignored here and runs there. Of those, a module called
//! `thorough` is left out of `cargo xtask test`, which has no time for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use shorefast_tests::{Host, client};

use crate::guest::Guest;
use crate::kernels::{self, KERNELS};
use crate::parallel::in_parallel;
use crate::scenarios::{self, Scenario, Scenarios};
use crate::tally::Tally;
use crate::{clock, process, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these kernels, such as 6.12; can be given several times
    #[arg(short, long)]
    kernel: Vec<String>,
    /// Only what `cargo xtask test` runs there, too
    #[arg(long)]
    quick: bool,
    /// Only these test programs, such as nfs; can be given several times
    #[arg(short, long)]
    program: Vec<String>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Which tests a guest runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) extent: Extent,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Neither programs that meet the kernel only indirectly, nor modules called `thorough`, nor the hostile client's rows that have to
    /// be run alone: minutes in a guest.
    Quick,
    Thorough,
}

impl Extent {
    /// How long a guest may take for everything together, whatever it has to begin again: it runs the tests one after the other on one
    /// slow core, and `cargo xtask test` has to end.
    fn time(self) -> Duration {
        Duration::from_secs(match self {
            Self::Quick => 25 * 60,
            Self::Thorough => 90 * 60,
        })
    }
}

/// No program may take the time of those after it.
const PROGRAM_SECONDS: u32 = 600;
const GUEST_MEMORY: &str = "1536M";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    kernels::run()?;
    process::show(process::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    let extent = if args.quick { Extent::Quick } else { Extent::Thorough };
    let programs = match args.program.as_slice() {
        [] => extent.programs()?,
        wanted => programs(|name| wanted.iter().any(|wanted| wanted == name))?,
    };
    let versions: Vec<_> = KERNELS.iter().map(|kernel| kernel.version).filter(|version| is_wanted(&args.kernel, version)).collect();
    let columns = run_on(&versions, &programs, Selection { extent, filter: args.filter.as_deref() })?;
    Ok(report(columns))
}

/// The table, the counts, and whether all is well.
pub(crate) fn report(columns: Vec<Column>) -> ExitCode {
    print!("{}", scenarios::table(&columns.iter().map(|column| (column.version, &column.scenarios)).collect::<Vec<_>>()));
    let mut tally = Tally::default();
    let mut is_whole = true;
    for column in columns {
        tally += column.tally;
        if let Some(failure) = column.failure {
            eprintln!("failed: {}: {failure:#}", column.version);
            is_whole = false;
        }
    }
    println!("{tally}");
    if is_whole && tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn is_wanted(wanted: &[String], version: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| one == version)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfTheCommand,
    /// A crash, or its time was over.
    OfTheGuest,
}

/// What became of the tests on one kernel.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) version: &'static str,
    pub(crate) scenarios: Scenarios,
    pub(crate) tally: Tally,
    /// Set if the tests did not get to the end.
    pub(crate) failure: Option<anyhow::Error>,
}

impl Column {
    pub(crate) fn new(version: &'static str) -> Self {
        Self { version, scenarios: Scenarios::default(), tally: Tally::default(), failure: None }
    }

    fn run_until(&mut self, until: Instant, command: &[String]) -> End {
        let left = until.saturating_duration_since(Instant::now()).as_secs();
        self.run(GUEST_MEMORY, u32::try_from(left).unwrap_or(u32::MAX).max(1), command)
    }

    /// Adds what becomes of this command in a guest of its own.
    fn run(&mut self, memory: &str, timeout_seconds: u32, command: &[String]) -> End {
        let guest = Guest { kernel: self.version, memory, timeout_seconds };
        let status = guest.run(command, |line| self.read(&String::from_utf8_lossy(line)));
        let (end, failure) = match status.context("cannot run the guest") {
            Ok(Some(_)) => (End::OfTheCommand, self.scenarios.without_result().map(|programs| anyhow!("no result of {programs}"))),
            Ok(None) => (End::OfTheGuest, Some(anyhow!("the guest died in {}, {} before that", self.scenarios.program(), self.tally))),
            Err(error) => (End::OfTheCommand, Some(error)),
        };
        self.failure = failure;
        end
    }

    /// What a test program prints.
    pub(crate) fn read(&mut self, line: &str) {
        print!("[{} {}] {line}", self.version, clock::since_start());
        self.tally += Tally::of_program(line);
        self.scenarios.read(line);
    }
}

/// Images that only guests use. Made here, once: there, each guest would make them anew, on one slow processor.
const IMAGES: [&str; 2] = ["packages:debian/trixie?cifs-utils", "packages:debian/trixie?nfs-common"];

/// Several kernels at the same time: a guest has one processor.
pub(crate) fn run_on(versions: &[&'static str], programs: &[String], selection: Selection<'_>) -> Result<Vec<Column>> {
    make_images()?;
    Ok(in_parallel(versions, |version| run_in_guest(version, programs, selection)))
}

pub(crate) fn make_images() -> Result<()> {
    pull(client::current_packages(), &IMAGES)
}

/// Into the store that all tests share, from this archive.
pub(crate) fn pull(packages: PathBuf, images: &'static [&'static str]) -> Result<()> {
    // In a thread of its own, which stays on a host of its own.
    let filling = std::thread::spawn(move || fill_store(&packages, images));
    filling.join().map_err(|_| anyhow!("cannot make the images {}", images.join(" ")))
}

fn fill_store(packages: &Path, images: &[&str]) {
    let Some(host) = Host::new() else { return };
    host.offer_packages_of(packages);
    let store = client::store().into_os_string();
    let image = |command: &str, name: &str| {
        host.shorefast(&["--root".as_ref(), store.as_os_str(), "image".as_ref(), command.as_ref(), name.as_ref()])
    };
    for name in images {
        if image("inspect", name).code != Some(0) {
            image("pull", name).succeeds();
        }
    }
}

impl Extent {
    pub(crate) fn programs(self) -> Result<Vec<String>> {
        /// These meet the kernel only through what the others look at more closely. `cargo xtask e2e-kernels` has the time for them.
        const INDIRECT: [&str; 8] = ["ask", "bare", "catalogue", "cli", "crash", "csi", "trust", "truth"];
        /// Loads, hangs and crashes on one slow processor: what the kernels have in common is in the others, and the differences are in docs/HEALING.md.
        const UNDER_LOAD: [&str; 4] = ["execve", "heal", "replace", "upgrade"];
        programs(|name| self == Self::Thorough || !(INDIRECT.contains(&name) || UNDER_LOAD.contains(&name)))
    }
}

/// The end-to-end programs that have to do with the kernel, of those that are wanted.
pub(crate) fn programs(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    /// What these look at is the same on every kernel, and slow where there is one processor.
    const SAME_EVERYWHERE: [&str; 7] = ["containers", "house", "install", "layers", "packages", "registry", "secrets"];
    /// These need more than `cargo xtask setup` installs.
    const OF_OTHER_CHORES: [&str; 1] = ["ceph"];
    built(|name| !SAME_EVERYWHERE.contains(&name) && !OF_OTHER_CHORES.contains(&name) && is_wanted(name))
}

/// Cargo puts a hash into a file name, so it has to be asked.
pub(crate) fn built(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let arguments = ["test", "--quiet", "--workspace", "--all-targets", "--no-run", "--message-format=json"];
    let messages = process::output(process::cargo().args(arguments))?;
    let programs: Vec<_> = messages.lines().filter_map(|message| test_program(message, &is_wanted)).collect();
    if programs.is_empty() {
        return Err(anyhow!("cargo built no such end-to-end tests"));
    }
    Ok(programs)
}

fn test_program(message: &str, is_wanted: &impl Fn(&str) -> bool) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let target = message.get("target")?;
    let is_end_to_end = target.get("src_path")?.as_str()?.contains("/tests/e2e/");
    let name = target.get("name")?.as_str()?;
    message.get("executable")?.as_str().filter(|_| is_end_to_end && is_wanted(name)).map(str::to_owned)
}

/// What fails is run once more, as on this machine (tests/nextest.toml), and shown as such: real servers in a guest on a busy machine
/// are late now and then. A hostile client that succeeds once has succeeded.
fn run_in_guest(version: &'static str, programs: &[String], selection: Selection<'_>) -> Column {
    eprintln!("guest kernel {version}");
    let until = Instant::now() + selection.extent.time();
    let mut column = Column::new(version);
    let mut rest = programs;
    // Guest kernels are processes of this machine, and now and then one ends by a fault of its own: 6.12, when a process is killed
    // in the middle of its fork. Then another one goes on where it was. Not when a client attacks it.
    const DEATHS: usize = 3;
    for _ in 0..=DEATHS {
        let end = column.run_until(until, &command(rest, selection));
        let died_in = column.scenarios.program();
        if end == End::OfTheCommand || died_in == "hostile" || Instant::now() >= until {
            break;
        }
        eprintln!("guest kernel {version} died in {died_in}; another one goes on from there");
        let finished = rest.iter().position(|path| program_name(path) == died_in).unwrap_or_default();
        rest = rest.get(finished..).unwrap_or_default();
    }
    let failed: Vec<_> = column.scenarios.failed().filter(|scenario| scenario.program != "hostile").collect();
    if column.failure.is_some() || failed.is_empty() {
        return column;
    }
    eprintln!("guest kernel {version}: {} failed, once more", failed.len());
    let mut second = Column::new(version);
    second.run_until(until, &command_for(&failed, programs));
    column.scenarios.correct_by(&second.scenarios);
    column.tally = column.tally.corrected_by(second.tally);
    column
}

pub(crate) fn column_of(version: &'static str, memory: &str, timeout_seconds: u32, command: &[String]) -> Column {
    let mut column = Column::new(version);
    column.run(memory, timeout_seconds, command);
    column
}

/// Each of these alone.
fn command_for(scenarios: &[&Scenario], programs: &[String]) -> Vec<String> {
    let each = format!(
        r#"while [ $# -gt 0 ]; do
        echo "{}$1"; "$2" --include-ignored --test-threads=1 --color=never --exact "$3"; shift 3
    done"#,
        scenarios::PROGRAM
    );
    let path = |name: &str| programs.iter().find(|path| program_name(path) == name).cloned().unwrap_or_default();
    let words = scenarios.iter().flat_map(|scenario| [scenario.program.clone(), path(&scenario.program), scenario.test.clone()]);
    ["sh", "-c", &each, "sh"].into_iter().map(str::to_owned).chain(words).collect()
}

/// Cargo names a test program `NAME-HASH`.
fn program_name(path: &str) -> &str {
    let file = path.rsplit_once('/').map_or(path, |(_, file)| file);
    file.rsplit_once('-').map_or(file, |(name, _)| name)
}

fn command(programs: &[String], selection: Selection<'_>) -> Vec<String> {
    // The native clients proved the scenarios on this machine, and a guest has one processor, where nothing races. A failed
    // program must not hide the others; the counts tell. The soak is ignored for another reason: it takes minutes.
    let each = format!(
        r#"filter=$1 hostile=$2 slow=$3; shift 3; for program; do
        name=${{program##*/}}; echo "{}${{name%-*}}"
        case $name in hostile-*) rows=$hostile;; *) rows=;; esac
        timeout --kill-after=5 {PROGRAM_SECONDS} "$program" --include-ignored --test-threads=1 --color=never --skip ::natively --skip soak $slow $filter $rows
    done"#,
        scenarios::PROGRAM
    );
    let (hostile, slow) = match selection.extent {
        Extent::Quick => ("the_batch", "--skip=thorough"),
        Extent::Thorough => ("", ""),
    };
    let fixed = ["sh", "-c", &each, "sh", selection.filter.unwrap_or_default(), hostile, slow];
    fixed.into_iter().map(str::to_owned).chain(programs.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_found_again() {
        let programs = ["/t/deps/nfs-12ab".to_owned(), "/t/deps/crash-34cd".to_owned()];
        let failed = Scenario { program: "crash".into(), test: "a::b".into() };
        assert_eq!(command_for(&[&failed], &programs)[4..], ["crash", "/t/deps/crash-34cd", "a::b"]);
    }
}

//! SIGKILL at random times, as often as SOAK_KILLS says: `cargo xtask soak`.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shorefast_tests::client::{Request, Way};
use shorefast_tests::command::Running;
use shorefast_tests::{Client, Host};

use crate::LIMITS;
use crate::aftermath::{self, Found, Recovery};

/// Clients that differ in what they can leave behind: name, more keys.
const KINDS: [(&str, &str); 5] = [
    ("bindfs", ""),
    ("tmpfs", ""),
    ("bindfs", LIMITS),
    ("tmpfs", LIMITS),
    ("bindfs", "namespaces = { pid = \"host\" }\nlimits = { pids = 64 }"),
];

/// So many kills share a host; what one leaves behind cannot be blamed on those of the next.
const KILLS_PER_HOST: u32 = 20;
const AT_ONCE: u64 = 4;

#[derive(Debug, Default)]
struct Counts {
    killed: u32,
    complete: u32,
    working: u32,
    nothing: u32,
    /// Left behind, empty: no harm, but not nothing.
    directories: u32,
    failures: Vec<String>,
}

#[test]
#[ignore = "takes minutes: cargo xtask soak"]
fn soak() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("SOAK_KILLS").unwrap_or(100) as u32;
    let seed = number("SOAK_SEED").unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64));
    println!("seed {seed}");
    let mut random = Random(seed);
    let Some(usual) = Host::new().map(|host| KINDS.map(|kind| usual_duration(&host, kind))) else { return };
    println!("usual durations {usual:?}");

    let mut counts = Counts::default();
    while counts.kills() < kills {
        let Some(host) = Host::new() else { return };
        let until = kills.min(counts.kills() + KILLS_PER_HOST);
        let mut round = || {
            while counts.kills() < until {
                batch(&host, &usual, until - counts.kills(), &mut random, &mut counts);
            }
        };
        // What is wrong is counted, and the next host starts clean.
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut round)) {
            let words = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without words".to_owned());
            counts.failures.push(format!("{words}{}", records(&host)));
        }
        println!("{counts}");
    }
    assert!(counts.failures.is_empty() && counts.directories == 0, "{counts}\n{}", counts.failures.join("\n"));
}

/// Records that are left say whose they are.
fn records(host: &Host) -> String {
    let paths = std::fs::read_dir(host.run_directory()).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let read = paths.filter(|path| path.extension().is_some_and(|end| end == "json")).map(std::fs::read_to_string);
    read.filter_map(Result::ok).map(|record| format!("record {record}\n")).collect()
}

/// A mount that is being made, and when it will be killed.
struct Doomed {
    mount: Running,
    target: PathBuf,
    kill_at: Instant,
}

fn batch(host: &Host, usual: &[Duration; KINDS.len()], left: u32, random: &mut Random, counts: &mut Counts) {
    let size = (1 + random.below(AT_ONCE) as u32).min(left);
    let mut doomed: Vec<_> = (0..size).map(|n| start(host, (counts.kills() + n) as usize, usual, random)).collect();
    doomed.sort_by_key(|one| one.kill_at);
    for one in &mut doomed {
        std::thread::sleep(one.kill_at.saturating_duration_since(Instant::now()));
        one.mount.kill();
    }
    let ended: Vec<_> = doomed.into_iter().map(|one| (one.mount.finish(), one.target)).collect();
    for (ran, target) in &ended {
        let found = aftermath::settled(target);
        match ran.code {
            None => counts.killed += 1,
            Some(0) => counts.complete += 1,
            Some(_) => panic!("the mount failed by itself: {}", ran.stderr),
        }
        match found {
            Found::Working => counts.working += 1,
            Found::Nothing => counts.nothing += 1,
        }
        assert!(ran.code.is_none() || found == Found::Working, "the mount was said to be complete");
    }
    let recovery = if random.below(2) == 0 { Recovery::Reconcile } else { Recovery::NextMount };
    recovery.run(host);
    for (ran, target) in &ended {
        let found = aftermath::settled(target);
        assert!(ran.code.is_none() || found == Found::Working, "{recovery:?} took a complete mount away");
        aftermath::unmount_if_working(target);
    }
    host.assert_nothing_left();
    for directory in aftermath::empty_directories(host) {
        counts.directories += 1;
        std::fs::remove_dir(directory).expect("an empty directory can be removed");
    }
}

fn start(host: &Host, number: usize, usual: &[Duration; KINDS.len()], random: &mut Random) -> Doomed {
    let kind = number % KINDS.len();
    let target = host.directory(format!("target-{number}"));
    let client = client(host, KINDS[kind]);
    let request = Request::new(&client, KINDS[kind].0, aftermath::source(host), &target);
    let mount = host.start(&request.arguments(Way::Directory, &[]));
    let after = Duration::from_nanos(random.below(2 * usual[kind].as_nanos() as u64));
    Doomed { mount, target, kill_at: Instant::now() + after }
}

fn client(host: &Host, (name, keys): (&'static str, &str)) -> Client {
    aftermath::client(host, name, keys)
}

/// The median of a few undisturbed mounts.
fn usual_duration(host: &Host, kind: (&'static str, &str)) -> Duration {
    let target = host.directory("target");
    let client = client(host, kind);
    let request = Request::new(&client, kind.0, aftermath::source(host), &target);
    let mut durations = [(); 9].map(|()| {
        let took = request.sandboxed(host).succeeds().took;
        aftermath::unmount_if_working(&target);
        host.assert_nothing_left();
        took
    });
    durations.sort();
    durations[durations.len() / 2]
}

impl Counts {
    fn kills(&self) -> u32 {
        self.killed + self.complete
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, complete, working, nothing, directories, failures } = self;
        let kills = self.kills();
        write!(out, "{kills} kills: {killed} while mounting, {complete} after completion; ")?;
        write!(out, "targets: {working} working, {nothing} without a mount; ")?;
        write!(out, "leaks and other failures: {}, empty directories: {directories}", failures.len())
    }
}

/// Numbers that can be had again from their seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % limit
    }
}

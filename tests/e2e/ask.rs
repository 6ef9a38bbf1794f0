//! A process that lives on, with many threads, asks for mounts: one worker per operation, and nothing is left of any of them.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use shorefast_engine::difference::Difference;
use shorefast_engine::error::{Failure, Kind, Step};
use shorefast_engine::recipe::Recipe;
use shorefast_engine::request::{ClientChoice, Existing};
use shorefast_engine::unmount::Manner;
use shorefast_engine::{Installation, Request};
use shorefast_tests::{Client, Host, mountinfo};
use shorefast_worker::{Answer, Operation, Outcome, Workers};

fn workers(host: &Host) -> Workers {
    let program = File::open(host.binary()).expect("the binary is built");
    Workers::of(program, Installation { run_dir: host.run_directory().into(), ..Installation::default() })
}

fn request(client: &Client, fstype: &str, source: impl AsRef<Path>, target: &Path) -> Request {
    Request {
        fstype: Some(fstype.to_owned()),
        client: ClientChoice::File(client.definition.clone()),
        image: Some(format!("dir:{}", client.image_directory().display())),
        ..Request::new(source.as_ref(), target)
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[track_caller]
fn mounted(outcome: Outcome) -> shorefast_engine::record::Record {
    match outcome.result {
        Ok(Answer::Mounted(Some(record))) => *record,
        other => panic!("not mounted: {other:?}"),
    }
}

#[track_caller]
fn unmount(workers: &Workers, target: &Path) {
    let outcome = workers.ask(Operation::Unmount { target: target.into(), manner: Manner::Polite }, &[], soon());
    assert!(matches!(outcome.result, Ok(Answer::Unmounted(_))), "{outcome:?}");
}

#[test]
fn every_operation_can_be_asked_for() {
    let Some(host) = Host::new() else { return };
    let (workers, source, target) = (workers(&host), host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let wanted = request(&Client::named("bindfs"), "bindfs", &source, &target);
    let existing = |request: &Request| match workers.ask(Operation::Existing(Box::new(request.clone())), &[], soon()).result {
        Ok(Answer::Existing(found)) => found.map(|(_, differences)| differences),
        other => panic!("{other:?}"),
    };
    assert_eq!(existing(&wanted), None);
    let record = mounted(workers.ask(Operation::Mount(Box::new(wanted.clone())), &[], soon()));
    assert_eq!(fs::read(target.join("file")).expect("the mount serves"), b"content");
    assert_eq!(existing(&wanted), Some(Vec::new()));
    assert_eq!(existing(&Request { options: "ro".into(), ..wanted.clone() }), Some(vec![Difference::Options]));
    // Asked for again, it is not stacked.
    let again = workers.ask(Operation::Mount(Box::new(wanted.clone())), &[], soon()).result.expect_err("it is there already");
    assert_eq!((again.kind, again.step), (Kind::AlreadySame, Step::Target), "{again:?}");
    let other = Request { source: host.directory("other").into(), ..wanted.clone() };
    let other = workers.ask(Operation::Mount(Box::new(other)), &[], soon()).result.expect_err("another is there");
    assert_eq!((other.kind, &other.differs[..]), (Kind::AlreadyDifferent, &[Difference::Source][..]), "{other:?}");
    assert_eq!(mountinfo::at(&target).len(), 1);
    match workers.ask(Operation::List, &[], soon()).result {
        Ok(Answer::Listed(listing)) => assert_eq!(listing.mounts.iter().map(|one| &one.record.id).collect::<Vec<_>>(), [&record.id]),
        other => panic!("{other:?}"),
    }
    match workers.ask(Operation::Inspect { target: target.clone() }, &[], soon()).result {
        Ok(Answer::Inspected(one)) => assert_eq!(one.record.id, record.id),
        other => panic!("{other:?}"),
    }
    let over = Request { existing: Existing::Cover, ..wanted };
    mounted(workers.ask(Operation::Mount(Box::new(over)), &[], soon()));
    assert_eq!(mountinfo::at(&target).len(), 2);
    unmount(&workers, &target);
    unmount(&workers, &target);
    host.assert_nothing_left();
}

#[test]
fn a_failure_says_all_that_it_has_to_say_as_values() {
    let Some(host) = Host::new() else { return };
    let (workers, target) = (workers(&host), host.directory("target"));
    let ask = |request: Request| workers.ask(Operation::Mount(Box::new(request)), &[], soon()).result.expect_err("it cannot be mounted");

    let client = Client::script(&host, "echo the reason >&2; exit 3", "");
    let failure = ask(request(&client, "script", "none", &target));
    assert_eq!((failure.kind, failure.step), (Kind::Client, Step::Serve), "{failure:?}");
    assert_eq!(failure.helper, ["the reason"]);
    assert!(failure.message.contains("exit status 3") && failure.hint.is_some(), "{failure:?}");

    let client = Client::script(&host, "mount -t proc none $1", "");
    let failure = ask(request(&client, "script", "none", &target));
    assert!(failure.refused.iter().any(|line| line.contains("may not mount type \"proc\"")), "{failure:?}");
    assert!(failure.hint.is_some_and(|hint| hint.contains("kernel_types")));

    let tmpfs = Client::named("tmpfs");
    assert_eq!(ask(request(&tmpfs, "tmpfs", "none", &host.path("missing"))).kind, Kind::NotFound);
    let nowhere = Request { image: Some("dir:/nosuch".into()), ..request(&tmpfs, "tmpfs", "none", &target) };
    assert_eq!(ask(nowhere).kind, Kind::ImageUnavailable);
    assert_eq!(ask(Request { options: "a=\"".into(), ..request(&tmpfs, "tmpfs", "none", &target) }).kind, Kind::Usage);
    let slow = Client::script(&host, "sleep 60", "");
    let late = Request { timeout: Duration::from_millis(300), ..request(&slow, "script", "none", &target) };
    assert_eq!(ask(late).kind, Kind::Deadline);
    let gone = workers.ask(Operation::Unmount { target: target.clone(), manner: Manner::Polite }, &[], soon());
    assert_eq!(gone.result.expect_err("nothing is mounted").kind, Kind::NotFound);
    host.assert_nothing_left();
}

#[test]
fn a_worker_that_is_killed_or_late_leaves_nothing() {
    let Some(host) = Host::new() else { return };
    let (workers, target) = (workers(&host), host.directory("target"));
    let slow = Client::script(&host, "sleep 60", "");
    let operation = || Operation::Mount(Box::new(request(&slow, "script", "none", &target)));
    // Killed before its keeper was started, it leaves what the next call of ours removes, as a killed `shorefast mount` does.
    let assert_nothing_left = || {
        host.shorefast(&["reconcile"]).succeeds();
        host.assert_nothing_left();
    };
    // By the caller's deadline.
    let started = Instant::now();
    let late = workers.ask(operation(), &[], Instant::now() + Duration::from_millis(300));
    assert_eq!(late.result.expect_err("it is late").kind, Kind::Deadline);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_nothing_left();
    // By somebody who does not wait for it.
    let running = workers.start(operation(), &[]).expect("a worker starts");
    let canceller = running.canceller().expect("it can be cancelled");
    host.wait_for_client("sleep");
    std::thread::scope(|scope| {
        scope.spawn(|| canceller.cancel());
        assert_eq!(running.wait(soon()).result.expect_err("it was killed").kind, Kind::Cancelled);
    });
    assert_nothing_left();
    // By forgetting it.
    let running = workers.start(operation(), &[]).expect("a worker starts");
    host.wait_for_client("sleep");
    drop(running);
    assert_nothing_left();
}

/// A registry that accepts connections and says nothing.
#[test]
fn an_image_that_does_not_arrive_is_given_up_by_the_callers_deadline() {
    let Some(host) = Host::new() else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let registry = silent.local_addr().expect("it has an address");
    let request = Request {
        image: Some(format!("docker://{registry}/client:latest")),
        image_timeout: Some(Duration::from_millis(500)),
        ..request(&Client::named("tmpfs"), "tmpfs", "none", &host.directory("target"))
    };
    let started = Instant::now();
    let failure = workers(&host).ask(Operation::Mount(Box::new(request)), &[], soon()).result.expect_err("there is no image");
    assert_eq!(failure.kind, Kind::Deadline, "{failure:?}");
    assert!(failure.message.contains("the image has not arrived"), "{failure:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // The same by the command line.
    let (client, image) = (Client::named("tmpfs"), format!("docker://{registry}/client:latest"));
    let (definition, target) = (client.definition.display().to_string(), host.path("target").display().to_string());
    let started = Instant::now();
    host.shorefast(&["mount", "--client-file", &definition, "--image", &image, "--image-timeout", "500ms", "none", &target])
        .says("the image has not arrived");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

/// The server's own file may be replaced by a newer version, or be a copy in memory without a name.
#[test]
fn workers_start_whatever_became_of_the_binarys_file() {
    let Some(host) = Host::new() else { return };
    let (copy, target) = (host.path("copy"), host.directory("target"));
    fs::copy(host.binary(), &copy).expect("the binary can be copied");
    let on_disk = File::open(&copy).expect("a copy");
    fs::remove_file(&copy).expect("the copy can be removed");
    let mut memory = File::from(rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd"));
    memory.write_all(&fs::read(host.binary()).expect("the binary can be read")).expect("memory can be written to");
    let in_memory = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory))).expect("it can be opened again");
    drop(memory);
    for program in [on_disk, in_memory] {
        let workers = Workers::of(program, Installation { run_dir: host.run_directory().into(), ..Installation::default() });
        let wanted = request(&Client::named("bindfs"), "bindfs", host.directory("source"), &target);
        mounted(workers.ask(Operation::Mount(Box::new(wanted)), &[], soon()));
        unmount(&workers, &target);
        host.assert_nothing_left();
    }
}

const SECRET: &str = "kJ8-not-on-disk-2xQ";

/// What it takes to make the mount again is with its keeper, the secret included, and nowhere else.
#[test]
fn a_mounts_recipe_lives_in_its_keepers_memory_only() {
    let Some(host) = Host::new() else { return };
    let (workers, target) = (workers(&host), host.directory("target"));
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition");
    let client = Client::defined(&host, "bindfs", &format!("{definition}\nsecret = {{ to_file = \"/etc/secret\" }}\n"));
    let mut secret = File::from(rustix::fs::memfd_create("secret", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd"));
    secret.write_all(SECRET.as_bytes()).and_then(|()| secret.rewind()).expect("memory can be written to");
    let wanted = request(&client, "bindfs", host.directory("source"), &target);
    let record = mounted(workers.ask(Operation::Mount(Box::new(wanted)), &[secret.as_fd()], soon()));
    let recipe = Recipe::of_keeper(&record.keeper.expect("a FUSE mount has a keeper")).expect("it holds a recipe");
    assert_eq!(recipe.files.iter().map(|file| &file.content[..]).collect::<Vec<_>>(), [SECRET.as_bytes()]);
    assert_eq!(recipe.request.target, target);
    let plan = shorefast_engine::plan::again(&recipe).expect("it can be planned again");
    assert_eq!(plan.target, target);
    for file in walk(host.run_directory()) {
        let content = fs::read(&file).expect("root can read it");
        assert!(!content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{file:?}");
    }
    for words in [&["inspect", "--json", "/srv/target"][..], &["logs", "/srv/target"], &["list", "--json"]] {
        assert!(!host.shorefast(words).succeeds().stdout.contains(SECRET), "{words:?}");
    }
    unmount(&workers, &target);
    host.assert_nothing_left();
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

const THREADS: usize = 32;
/// Until everything that is allocated once has been.
const WARM_UP: usize = 96;

/// Also for kernels that reuse the ids of mounts at once.
#[test]
fn a_process_that_lives_on_is_left_as_it_was() {
    ask_for(192);
}

mod thorough {
    /// Minutes on a guest kernel.
    #[test]
    fn a_process_that_lives_on_for_two_thousand_mounts_is_left_as_it_was() {
        crate::ask_for(2000);
    }
}

/// All threads together ask for so many mounts, some of which fail or are cancelled.
fn ask_for(mounts: usize) {
    let Some(host) = Host::new() else { return };
    let workers = workers(&host);
    let source = host.directory("source");
    let targets: Vec<_> = (0..THREADS).map(|number| host.directory(format!("{number}"))).collect();
    let failing = Client::script(&host, "exit 1", "");
    let (bindfs, tmpfs) = (Client::named("bindfs"), Client::named("tmpfs"));
    let (counts, turn) = ([const { AtomicUsize::new(0) }; 3], AtomicUsize::new(0));
    // Collected: a thread that panics would leave the others waiting for it.
    let problems = Mutex::new(Vec::new());
    let unexpected = |failure: Failure| problems.lock().expect("no thread panics").push(failure);
    let one = |target: &Path| {
        let number = turn.fetch_add(1, Ordering::Relaxed);
        let wanted = match number % 8 {
            0 | 2 | 4 | 6 => request(&bindfs, "bindfs", &source, target),
            1 | 3 | 5 => request(&tmpfs, "tmpfs", "none", target),
            _ => request(&failing, "script", "none", target),
        };
        let operation = Operation::Mount(Box::new(wanted));
        let running = workers.start(operation, &[]).expect("a worker starts");
        if number % 10 == 0 {
            // At another moment each time.
            std::thread::sleep(Duration::from_micros((number as u64 * 7919) % 20_000));
            running.canceller().expect("it can be cancelled").cancel();
        }
        match running.wait(soon()).result {
            Ok(_) => {
                counts[0].fetch_add(1, Ordering::Relaxed);
                let outcome = workers.ask(Operation::Unmount { target: target.into(), manner: Manner::Polite }, &[], soon());
                outcome.result.err().into_iter().for_each(&unexpected);
            }
            Err(failure) if failure.kind == Kind::Client => drop(counts[1].fetch_add(1, Ordering::Relaxed)),
            Err(failure) if failure.kind == Kind::Cancelled => {
                counts[2].fetch_add(1, Ordering::Relaxed);
                // It may have been done already; its next visitor would be told so.
                let _ = workers.ask(Operation::Unmount { target: target.into(), manner: Manner::Force }, &[], soon());
            }
            Err(failure) => unexpected(failure),
        }
    };
    let warm = Barrier::new(THREADS + 1);
    let measured = std::thread::scope(|scope| {
        for target in &targets {
            let (one, warm) = (&one, &warm);
            scope.spawn(move || {
                (0..WARM_UP / THREADS).for_each(|_| one(target));
                warm.wait();
                warm.wait();
                (0..(mounts - WARM_UP) / THREADS).for_each(|_| one(target));
                warm.wait();
                warm.wait();
            });
        }
        warm.wait();
        let before = Own::now();
        warm.wait();
        warm.wait();
        let after = Own::now();
        warm.wait();
        (before, after)
    });
    let (before, after) = measured;
    let problems = problems.into_inner().expect("no thread panics");
    assert!(problems.is_empty(), "{problems:?}");
    let [made, failed, cancelled] = counts.map(AtomicUsize::into_inner);
    println!("{made} mounted and unmounted, {failed} failed, {cancelled} cancelled; before {before:?}, after {after:?}");
    assert!(made > mounts / 2 && failed > 0 && cancelled > 0);
    assert_eq!((after.descriptors, after.threads, after.children), (before.descriptors, before.threads, 0), "{before:?} {after:?}");
    assert!(after.memory < before.memory + (1 << 20), "{before:?} {after:?}");
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

/// What the asking process itself uses.
#[derive(Debug)]
struct Own {
    descriptors: usize,
    threads: usize,
    /// Zombies among them.
    children: usize,
    /// Anonymous memory, in bytes.
    memory: u64,
}

impl Own {
    fn now() -> Self {
        let count = |directory: &str| fs::read_dir(directory).map_or(0, Iterator::count);
        let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a documented line").trim().to_owned();
        let own = std::process::id().to_string();
        let is_ours = |pid: &str| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(&own))
        };
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            children: pids.filter(|name| name.parse::<u32>().is_ok() && is_ours(name)).count(),
            memory: line("RssAnon:").trim_end_matches(" kB").parse::<u64>().expect("a number") << 10,
        }
    }
}

//! Volumes of running containers while everybody around them is killed, replaced, or started again.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use shorefast_tests::path::text;
use shorefast_tests::processes::{Process, on_this_network};
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::{Host, command, mountinfo, wait};

use crate::docker::{create, docker, inspect, kill_all, processes, shell, try_docker};
use crate::plugin::{Plugin, STATE, bindfs, mountpoint, terminate};
use crate::work::Worker;

/// As if all its users had come long ago.
fn forget_time(volume: &str) {
    let directories = fs::read_dir(Path::new(STATE).join(volume)).expect("a volume").flatten().map(|entry| entry.path());
    for directory in directories.filter(|path| path.to_string_lossy().contains("users-")) {
        for user in fs::read_dir(directory).expect("users").flatten() {
            let file = fs::OpenOptions::new().write(true).open(user.path()).expect("a user");
            file.set_modified(SystemTime::now() - Duration::from_secs(600)).expect("our own file");
        }
    }
}

#[test]
fn containers_keep_their_volumes_when_the_plugin_or_docker_is_killed() {
    let Some(host) = Host::new() else { return };
    let mut runtime = Runtime::start(&host, Kind::Docker);
    let mut plugin = Plugin::start(&host);
    create("vol", &bindfs(&host.directory("source")));
    let worker = Worker::start(&host, &runtime, "docker", "worker", &["-v", "vol:/data"]);

    plugin.kill();
    worker.assert_unharmed();
    plugin.serve();
    assert_eq!(plugin.status("vol")["users"], 1);
    // Docker finds the new one by itself.
    runtime.run_with(&host, "second", &["-v", "vol:/data"], &["sleep", "1000"]);
    assert_eq!(plugin.status("vol")["users"], 2);
    runtime.remove("second");
    assert_eq!((host.list().len(), &plugin.status("vol")["users"]), (1, &1.into()));
    worker.assert_unharmed();

    // Docker, and its containers with it, of which it never tells us; then started again, with us away.
    kill_all("dockerd");
    runtime.end();
    plugin.kill();
    drop(runtime);
    // Nobody reaps it here, so the next one would take it for alive.
    fs::remove_file("/run/docker/containerd/containerd.pid").expect("Docker's own containerd");
    let runtime = Runtime::start(&host, Kind::Docker);
    plugin.serve();
    docker(&["rm", "--force", "worker"]);
    assert_eq!((host.list().len(), &plugin.status("vol")["users"]), (1, &1.into()), "what nobody has said is not known");
    forget_time("vol");
    runtime.run_with(&host, "third", &["-v", "vol:/data"], &["sleep", "1000"]);
    runtime.run_with(&host, "fourth", &["-v", "vol:/data"], &["sleep", "1000"]);
    runtime.remove("fourth");
    assert_eq!(host.list().len(), 1, "the third still uses it");
    forget_time("vol");
    runtime.remove("third");
    assert!(host.list().is_empty(), "{:?}", host.list());
    docker(&["volume", "rm", "vol"]);
    drop((runtime, plugin));
}

/// Killed with -9: the container's first process, what stands above it, and Docker's own containerd. Docker notices each; so do we.
#[test]
fn a_volume_is_counted_right_when_a_container_dies_with_whoever_held_it() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    create("vol", &bindfs(&host.directory("source")));
    runtime.run_with(&host, "stays", &["-v", "vol:/data"], &["sleep", "1000"]);
    for victim in ["sleep", "containerd-shim", "containerd"] {
        let before = processes(victim);
        runtime.run_with(&host, "victim", &["-v", "vol:/data"], &["sleep", "2000"]);
        assert_eq!((&plugin.status("vol")["users"], host.list().len()), (&2.into(), 1), "{victim}");
        if victim == "containerd" {
            // Both containers live on, and Docker starts another one.
            kill_all("containerd");
            wait::until("another containerd", || (!processes("containerd").is_empty()).then_some(()));
            let removed = || try_docker(&["rm", "--force", "victim"]).code == Some(0);
            wait::until("Docker to be back", || removed().then_some(()));
        } else {
            // A container has started before its first process executes what it is to run.
            let new = || processes(victim).into_iter().filter(|process| !before.contains(process)).collect::<Vec<_>>();
            let new = wait::until(victim, || Some(new()).filter(|new| !new.is_empty()));
            new.into_iter().for_each(|process| process.signal(Signal::KILL));
            let running = || docker(&["inspect", "--format={{.State.Running}}", "victim"]);
            wait::until("Docker to notice", || (running() == "false").then_some(()));
            docker(&["rm", "--force", "victim"]);
        }
        wait::until("its user to go", || (plugin.status("vol")["users"] == 1).then_some(()));
        assert_eq!(
            (host.list().len(), docker(&["exec", "stays", "sh", "-c", "echo x > /data/x; cat /data/x"]).as_str()),
            (1, "x"),
            "{victim}"
        );
    }
    runtime.remove("stays");
    assert!(host.list().is_empty() && mountinfo::at(mountpoint("vol")).is_empty());
    docker(&["volume", "rm", "vol"]);
    drop((runtime, plugin));
}

/// A worker that mounts, and the client itself: the next container has the volume.
#[test]
fn a_killed_worker_or_client_is_replaced_for_the_next_container() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let source = host.directory("source");
    create("vol", &bindfs(&source));
    fs::write(source.join("file"), "content").expect("the test's own file");
    runtime.run_with(&host, "first", &["-v", "vol:/data"], &["sleep", "1000"]);
    host.wait_for_client("bindfs").signal(Signal::KILL);
    wait::until("the death to be known", || (plugin.status("vol")["state"] != "serving").then_some(()));
    assert_eq!(shell("vol", "cat /data/file"), "content");
    runtime.remove("first");
    assert!(mountinfo::at(mountpoint("vol")).is_empty(), "{:?}", mountinfo::at(mountpoint("vol")));

    // Each at its work, a little later every time.
    let is_worker =
        |process: &Process| fs::read(process.file("cmdline")).is_ok_and(|words| String::from_utf8_lossy(&words).contains("__worker"));
    for delay in [0, 2, 4, 8, 16] {
        let mut run = std::process::Command::new("docker");
        run.args(["run", "--rm", "--network=host", "-v", "vol:/data", "clients", "cat", "/data/file"]);
        let running = command::Running::start(run);
        let killed = wait::within(Duration::from_secs(5), || on_this_network().into_iter().find(is_worker));
        std::thread::sleep(Duration::from_millis(delay));
        killed.iter().for_each(|process| process.signal(Signal::KILL));
        let ran = running.finish();
        // It was mounted before, or Docker was told that it is not.
        assert!(ran.stdout == "content" || ran.code == Some(125), "{ran:?}");
        assert_eq!(shell("vol", "cat /data/file"), "content");
        assert_eq!((inspect("vol")["Status"]["users"].clone(), mountinfo::at(mountpoint("vol")).len()), (0.into(), 0));
    }
    docker(&["volume", "rm", "vol"]);
    drop(plugin);
    host.shorefast(&["reconcile"]).succeeds();
    assert!(host.list().is_empty());
    drop(runtime);
}

#[test]
fn a_newer_binary_takes_over_under_io_and_nothing_fails() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Docker);
    let installed = host.directory("bin").join("shorefast");
    let bytes = fs::read(host.binary()).expect("the binary");
    let install = |version: u8| {
        // Another file, as a package brings it: bytes behind the last section change nothing.
        let new = installed.with_extension("new");
        fs::write(&new, [&bytes[..], &[version]].concat()).expect("the test's own file");
        fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("the test's own file");
        fs::rename(&new, &installed).expect("the test's own file");
    };
    install(0);
    let mut plugin = Plugin::of_binary(&installed);
    create("vol", &bindfs(&host.directory("source")));
    let worker = Worker::start(&host, &runtime, "docker", "worker", &["-v", "vol:/data"]);
    for version in 1..=3 {
        install(version);
        let (_, predecessor) = plugin.serve();
        let predecessor = predecessor.expect("one served");
        // Both are there; then one.
        terminate(&predecessor);
        assert_eq!(shell("vol", "echo new > /data/new; cat /data/new"), "new");
        predecessor.finish().exits(0);
        assert_eq!(fs::read_link(format!("/proc/{}/exe", plugin.pid())).expect("it runs"), installed, "an older one serves");
        worker.assert_unharmed();
        assert_eq!((&plugin.status("vol")["users"], host.list().len()), (&1.into(), 1));
    }
    runtime.remove("worker");
    assert!(host.list().is_empty());
    docker(&["volume", "rm", "vol"]);
    drop((runtime, plugin));
}

/// What a power cut does to this host: no process, no mount and nothing in /run survives, and the kernel says another boot.
fn cut_the_power(host: &Host, runtime: &mut Runtime, plugin: &mut Plugin<'_>, boot: &str) {
    let all = on_this_network();
    all.iter().for_each(|process| process.signal(Signal::KILL));
    runtime.end();
    plugin.kill();
    wait::until("everything to end", || {
        on_this_network().iter().all(|process| process.status("State").is_none_or(|state| state.starts_with('Z'))).then_some(())
    });
    let mounted = |place: &str| mountinfo::here().into_iter().filter(|mount| mount.point.starts_with(place)).collect::<Vec<_>>();
    for place in [STATE, "/srv/docker", "/run/docker"] {
        for mount in mounted(place).iter().rev() {
            command::run(&["umount", "--lazy", text(&mount.point)]);
        }
    }
    command::run(&["mount", "-t", "tmpfs", "tmpfs", "/run"]);
    let id = host.file(format!("boot-{boot}"), format!("{boot}\n"));
    command::run(&["mount", "--bind", text(&id), "/proc/sys/kernel/random/boot_id"]);
    host.settle();
}

/// Containers that are to be started again come back with their volumes, whoever is up first: Docker waits for its plugin.
#[test]
fn after_a_reboot_volumes_come_back_whoever_starts_first() {
    let Some(host) = Host::new() else { return };
    let mut runtime = Runtime::start(&host, Kind::Docker);
    let mut plugin = Plugin::start(&host);
    let source = host.directory("source");
    create("vol", &bindfs(&source));
    let script = "touch /data/up-$(cat /proc/sys/kernel/random/uuid); exec sleep 1000";
    for name in ["one", "two"] {
        runtime.run_with(&host, name, &["--restart=always", "-v", "vol:/data"], &["sh", "-c", script]);
    }
    let boots = |expected: usize| {
        let count = || fs::read_dir(&source).expect("the test's own").count();
        wait::until("both containers to be back", || (count() == expected).then_some(()));
    };
    boots(2);
    for (number, boot) in ["11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"].into_iter().enumerate() {
        cut_the_power(&host, &mut runtime, &mut plugin, boot);
        drop(runtime);
        assert!(mountinfo::at(mountpoint("vol")).is_empty());
        runtime = std::thread::scope(|scope| {
            let docker_first = number == 1;
            if !docker_first {
                plugin.serve();
            }
            let plugin = &mut plugin;
            scope.spawn(move || {
                if docker_first {
                    std::thread::sleep(Duration::from_secs(3));
                    plugin.serve();
                }
            });
            Runtime::start(&host, Kind::Docker)
        });
        boots(4 + 2 * number);
        assert_eq!((&plugin.status("vol")["users"], host.list().len()), (&2.into(), 1), "{boot}");
        assert_eq!(docker(&["exec", "one", "ls", "/data"]).lines().count(), 4 + 2 * number);
    }
    for name in ["one", "two"] {
        docker(&["rm", "--force", name]);
    }
    assert!(host.list().is_empty() && mountinfo::at(mountpoint("vol")).is_empty());
    docker(&["volume", "rm", "vol"]);
    assert_eq!(fs::read_dir(STATE).expect("our directory").count(), 0);
    drop((runtime, plugin));
}

//! NFS against the kernel's own server, beside the natively installed mount.nfs in the same run: what that gets is what must come
//! out. They need a kernel with NFS: `cargo xtask e2e-kernels`.

#[path = "nfs/kerberos.rs"]
mod kerberos;

use std::fs;
use std::path::Path;

use shorefast_tests::client::Request;
use shorefast_tests::mountinfo::Mount;
use shorefast_tests::path::text;
use shorefast_tests::servers::{Nfsd, nfsd};
use shorefast_tests::skip::skip;
use shorefast_tests::{Client, Host, Way, command, mountinfo};

const GREETING: &[u8] = b"hello from the server\n";
const ANSWER: &[u8] = b"hello from the client\n";

/// A test's host, its server, and nothing mounted yet.
struct Scene {
    host: Host,
    server: Nfsd,
    client: Client,
}

impl Scene {
    /// None: it said why the test is skipped.
    fn new() -> Option<Self> {
        if !Nfsd::is_possible() {
            skip("this kernel has no NFS");
            return None;
        }
        let host = Host::new()?;
        let server = Nfsd::start(&host);
        Some(Self::with(host, server))
    }

    fn with(host: Host, server: Nfsd) -> Self {
        fs::create_dir(server.share.join("sub")).expect("the share can be written to");
        for place in ["greeting", "sub/greeting"] {
            fs::write(server.share.join(place), GREETING).expect("the share can be written to");
        }
        Self { host, server, client: Client::named("nfs") }
    }

    fn request(&self, fstype: &'static str, source: &str, options: &str) -> Request<'_> {
        Request::new(&self.client, fstype, source, self.host.directory("target")).options(options)
    }

    /// `server:` of version 4, where the export is the root, and of version 3.
    fn source(&self, path: &str) -> String {
        format!("{}:{path}", nfsd::ADDRESS)
    }

    fn source_3(&self, path: &str) -> String {
        self.source(&format!("{}{path}", text(&self.server.share)))
    }
}

/// What both sides show of a mount.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    fstype: String,
    source: String,
    flags: Vec<String>,
    options: Vec<String>,
    connections: usize,
    clients: Vec<String>,
}

impl Shown {
    fn of(mount: &Mount, server: &Nfsd) -> Self {
        // Ours are always nosuid and nodev: what a server says must not become somebody's rights.
        let flags = mount.flags.iter().filter(|flag| !["nosuid", "nodev"].contains(&flag.as_str())).cloned().collect();
        Self {
            fstype: mount.fstype.clone(),
            source: mount.source.to_string_lossy().into_owned(),
            flags,
            options: mount.superblock_options.split(',').map(str::to_owned).collect(),
            connections: server.connections(),
            clients: server.clients(),
        }
    }
}

/// Mounts, uses and unmounts, and says what was seen meanwhile.
fn use_it(scene: &Scene, request: &Request<'_>, way: Way, access: Access) -> Shown {
    request.mount(&scene.host, way).succeeds();
    use_mounted(scene, request, access)
}

fn use_mounted(scene: &Scene, request: &Request<'_>, access: Access) -> Shown {
    let target = request.target.as_path();
    let [mount] = &mountinfo::at(target)[..] else { panic!("not one mount: {:?}", mountinfo::at(target)) };
    assert_eq!(fs::read(target.join("greeting")).expect("the greeting can be read"), GREETING);
    let answer = target.join("answer");
    match access {
        Access::ReadOnly => assert!(fs::write(&answer, ANSWER).is_err(), "a read-only mount was written to"),
        Access::ReadWrite => {
            fs::write(&answer, ANSWER).expect("the mount can be written to");
            let below = if mount.source.to_string_lossy().ends_with("/sub") { "sub/answer" } else { "answer" };
            assert_eq!(fs::read(scene.server.share.join(below)).expect("the server has it"), ANSWER);
            command::run(&["flock", "--exclusive", "--timeout", "30", text(&answer), "true"]);
            fs::remove_file(&answer).expect("a file can be removed");
        }
    }
    let shown = Shown::of(mount, &scene.server);
    command::run(&["umount", text(target)]);
    assert_eq!(mountinfo::at(target), []);
    shown
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

/// The scenario: natively, then sandboxed, and both look the same from everywhere.
fn is_as_native(scene: &Scene, request: &Request<'_>, access: Access) -> Shown {
    let natively = use_it(scene, request, Way::Native, access);
    let sandboxed = use_it(scene, request, Way::Catalogue, access);
    assert_eq!(sandboxed, natively);
    scene.host.assert_nothing_left();
    sandboxed
}

fn version_4(options: &str) {
    let Some(scene) = Scene::new() else { return };
    let shown = is_as_native(&scene, &scene.request("nfs", &scene.source("/"), options), Access::ReadWrite);
    assert_eq!(shown.fstype, "nfs4");
    let version = options.split(',').find(|option| option.starts_with("vers=")).expect("a version").to_owned();
    assert!(shown.options.contains(&version), "{shown:?}");
}

#[test]
#[ignore = "needs a kernel with NFS"]
fn version_4_2() {
    version_4("vers=4.2");
}

#[test]
#[ignore = "needs a kernel with NFS"]
fn version_3_without_locks() {
    let Some(scene) = Scene::new() else { return };
    let shown = is_as_native(&scene, &scene.request("nfs", &scene.source_3("/sub"), "vers=3,proto=tcp,nolock"), Access::ReadWrite);
    assert_eq!(shown.fstype, "nfs");
}

/// Left out of `cargo xtask test`: they differ by an option.
mod thorough {
    use super::*;

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn version_4_1() {
        version_4("vers=4.1,sec=sys,proto=tcp,port=2049");
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn version_4_0() {
        version_4("vers=4.0,soft,timeo=100");
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn the_version_that_both_sides_know_best() {
        let Some(scene) = Scene::new() else { return };
        let shown = is_as_native(&scene, &scene.request("nfs4", &scene.source("/"), ""), Access::ReadWrite);
        assert!(shown.options.contains(&"vers=4.2".to_owned()), "{shown:?}");
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn several_connections_read_only() {
        let Some(scene) = Scene::new() else { return };
        let shown = is_as_native(&scene, &scene.request("nfs", &scene.source("/"), "ro,nconnect=3,hard"), Access::ReadOnly);
        assert_eq!(shown.connections, 3);
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn a_directory_below_the_export_over_ipv6() {
        let Some(scene) = Scene::new() else { return };
        let source = format!("[{}]:/sub", nfsd::ADDRESS_6);
        let shown = is_as_native(&scene, &scene.request("nfs", &source, "vers=4.2"), Access::ReadWrite);
        assert!(shown.options.contains(&"proto=tcp6".to_owned()), "{shown:?}");
    }

    /// Debian's kernels speak no NFS over UDP; ours must then fail as the native one does.
    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn version_3_over_udp_where_the_kernel_has_it() {
        let Some(scene) = Scene::new() else { return };
        let request = scene.request("nfs", &scene.source_3(""), "vers=3,proto=udp,mountproto=udp,nolock,retry=0");
        let natively = request.mount(&scene.host, Way::Native);
        if natively.code == Some(0) {
            command::run(&["umount", text(&request.target)]);
            is_as_native(&scene, &request, Access::ReadWrite);
        } else {
            let last = natively.stderr.trim().lines().last().unwrap_or_default();
            request.mount(&scene.host, Way::Catalogue).exits(32).says(last);
            scene.host.assert_nothing_left();
        }
    }

    /// The server's mountd is asked where it is said to be, and nowhere else.
    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn version_3_with_the_port_of_mountd() {
        let Some(scene) = Scene::new() else { return };
        let port = scene.server.port_of_mountd();
        let options = |port: u16| format!("vers=3,proto=tcp,nolock,mountproto=tcp,mountport={port},retry=0");
        let right = options(port);
        let shown = is_as_native(&scene, &scene.request("nfs", &scene.source_3(""), &right), Access::ReadWrite);
        assert!(shown.options.contains(&format!("mountport={port}")), "{shown:?}");
        // Nobody listens at that one.
        let wrong = options(1);
        let request = scene.request("nfs", &scene.source_3(""), &wrong);
        assert_ne!(request.mount(&scene.host, Way::Native).code, Some(0), "the port does not matter");
        request.mount(&scene.host, Way::Catalogue).exits(32);
        scene.host.assert_nothing_left();
    }
}

/// Locks of version 3: rpcbind and rpc.statd run beside the mounts, from the client's image.
mod locks {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use shorefast_tests::command::Running;
    use shorefast_tests::processes::Process;
    use shorefast_tests::wait;

    const SERVICES: [&str; 2] = ["rpcbind", "rpc.statd"];

    fn services(host: &Host) -> Vec<Process> {
        let is_one = |process: &Process| process.status("Name").is_some_and(|name| SERVICES.contains(&name.as_str()));
        let mut found: Vec<_> = host.sandboxed().into_iter().filter(is_one).collect();
        found.sort();
        found
    }

    fn service(host: &Host, name: &str) -> Option<Process> {
        services(host).into_iter().find(|process| process.status("Name").as_deref() == Some(name))
    }

    fn mount(scene: &Scene, target: &str) -> std::path::PathBuf {
        let target = scene.host.directory(target);
        let request = Request::new(&scene.client, "nfs", scene.source_3(""), &target).options("vers=3");
        request.mount(&scene.host, Way::Catalogue).succeeds();
        target
    }

    /// Dropped: the lock is free.
    struct Held(Option<Running>);

    fn hold(file: &Path) -> Held {
        let mut command = Command::new("flock");
        let sign = file.with_extension("held");
        command.args(["--exclusive", "--timeout", "20", text(file), "sh", "-c", "touch $0; exec sleep 600", text(&sign)]).process_group(0);
        let held = Held(Some(Running::start(command)));
        wait::until("the lock", || sign.exists().then_some(()));
        fs::remove_file(sign).expect("a file can be removed");
        held
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // The program that it runs has the lock, too.
            if let Some(running) = self.0.take() {
                running.interrupt();
                drop(running.finish());
            }
        }
    }

    impl Scene {
        /// Another client, on the server's machine, with what that has installed.
        fn other_client_gets_the_lock(&self) -> bool {
            let share = text(&self.server.share);
            let script = format!(
                "mkdir -p /run/other; mountpoint -q /run/other || mount -t nfs -o vers=3 127.0.0.1:{share} /run/other
                 timeout 15 flock --exclusive --nonblock /run/other/greeting true"
            );
            self.server.inside(&script).code == Some(0)
        }

        fn other_client_leaves(&self) {
            self.server.inside("umount /run/other").succeeds();
        }
    }

    /// The first mount starts them, all share them, the last ends them; and the locks are the server's.
    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn exclude_other_clients_and_services_live_as_long_as_needed() {
        let Some(scene) = Scene::new() else { return };
        let first = mount(&scene, "first");
        let running = services(&scene.host);
        assert_eq!(running.len(), 2, "{running:?}");
        for process in &running {
            for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
                assert_eq!(process.status(set).as_deref(), Some("0000000000000000"), "{}", process.describe());
            }
            assert_eq!(process.status("NoNewPrivs").as_deref(), Some("1"));
        }
        let second = mount(&scene, "second");
        assert_eq!(services(&scene.host), running, "one instance for all");
        command::run(&["umount", text(&second)]);

        let held = hold(&first.join("greeting"));
        assert!(!scene.other_client_gets_the_lock(), "two clients have one lock");
        drop(held);
        wait::until("the other client to get the lock", || scene.other_client_gets_the_lock().then_some(()));
        scene.other_client_leaves();
        assert_eq!(services(&scene.host), running, "somebody needs them still");
        command::run(&["umount", text(&first)]);
        scene.host.assert_nothing_left();
    }

    mod thorough {
        use super::*;
        use std::net::{Ipv4Addr, TcpListener, UdpSocket};

        #[test]
        #[ignore = "needs a kernel with NFS"]
        fn are_refused_where_nothing_can_keep_them() {
            let Some(scene) = Scene::new() else { return };
            // Somebody has the port, and is no rpcbind.
            let squatters = (TcpListener::bind((Ipv4Addr::UNSPECIFIED, 111)), UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 111)));
            let target = scene.host.directory("target");
            let request = Request::new(&scene.client, "nfs", scene.source_3(""), &target).options("vers=3,retry=0");
            let said = request.mount(&scene.host, Way::Catalogue).exits(32);
            for part in ["port 111", "vers=4", "nolock"] {
                assert!(said.stderr.contains(part), "{part} is not in {}", said.stderr);
            }
            assert_eq!(mountinfo::at(&target), []);
            drop(squatters);
            scene.host.assert_nothing_left();
        }

        #[test]
        #[ignore = "needs a kernel with NFS"]
        fn survive_a_restart_of_the_server() {
            let Some(scene) = Scene::new() else { return };
            let target = mount(&scene, "target");
            let held = hold(&target.join("greeting"));
            scene.server.restart();
            // Until then the server gives a lock to those only who had it before.
            std::thread::sleep(std::time::Duration::from_secs(5));
            assert!(!scene.other_client_gets_the_lock(), "the server's restart lost the lock");
            drop(held);
            wait::until("the other client to get the lock", || scene.other_client_gets_the_lock().then_some(()));
            scene.other_client_leaves();
            command::run(&["umount", text(&target)]);
            scene.host.assert_nothing_left();
        }

        #[test]
        #[ignore = "needs a kernel with NFS"]
        fn survive_the_death_of_each_service() {
            let Some(scene) = Scene::new() else { return };
            let target = mount(&scene, "target");
            for name in SERVICES {
                let before = service(&scene.host, name).expect("it runs");
                before.signal(rustix::process::Signal::KILL);
                wait::until("the service to run again", || service(&scene.host, name).filter(|process| *process != before));
                wait::until("all to be registered", || {
                    let mut command = Command::new("rpcinfo");
                    command.args(["-p", "127.0.0.1"]);
                    let list = command::finish(command).stdout;
                    ["100024", "100021"].iter().all(|program| list.contains(program)).then_some(())
                });
                let held = hold(&target.join("greeting"));
                assert!(!scene.other_client_gets_the_lock(), "two clients have one lock");
                scene.other_client_leaves();
                drop(held);
            }
            command::run(&["umount", text(&target)]);
            scene.host.assert_nothing_left();
        }

        #[test]
        #[ignore = "needs a kernel with NFS"]
        fn use_the_services_of_the_host() {
            let Some(scene) = Scene::new() else { return };
            for directory in ["/run/rpcbind", "/var/lib/nfs/sm", "/var/lib/nfs/sm.bak"] {
                fs::create_dir_all(directory).expect("a writable host");
            }
            command::run(&["rpcbind"]);
            command::run(&["rpc.statd", "--no-notify"]);
            scene.host.settle();
            let request = scene.request("nfs", &scene.source_3(""), "vers=3");
            is_as_native(&scene, &request, Access::ReadWrite);
            request.mount(&scene.host, Way::Catalogue).succeeds();
            assert_eq!(services(&scene.host), [], "the host has its own");
            command::run(&["umount", text(&request.target)]);
            scene.host.assert_nothing_left();
        }

        /// A service that starts anew must not tell the world that the host did.
        #[test]
        #[ignore = "needs a kernel with NFS"]
        fn a_restart_is_no_reboot() {
            let Some(scene) = Scene::new() else { return };
            let state = shorefast_tests::client::store().join("services/nfs/rpc.statd/state");
            let mut seen = Vec::new();
            for _ in 0..2 {
                let target = mount(&scene, "target");
                seen.push(fs::read(&state).expect("statd keeps its state"));
                command::run(&["umount", text(&target)]);
                scene.host.assert_nothing_left();
            }
            assert_eq!(seen[0], seen[1]);
        }
    }
}

/// On this machine's kernel the same call ends before anything is asked of the network, or fetched.
#[test]
fn a_kernel_without_nfs_is_named() {
    let Some(host) = Host::new() else { return };
    if Nfsd::is_possible() {
        return;
    }
    let target = host.directory("target");
    // A store that has nothing, and no way to get anything: the image is not even asked for.
    let said = host.shorefast(&["mount", "-t", "nfs", "192.0.2.1:/", text(&target)]).exits(32).says("this kernel has no filesystem nfs");
    assert!(said.took.as_secs() < 5, "{:?}", said.took);
    host.assert_nothing_left();
}

//! `sec=krb5`, `krb5i` and `krb5p`: rpc.gssd runs beside the mounts, from the client's image, and has the host's key to itself.

use std::process::Command;

use shorefast_tests::command::Running;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Realm;
use shorefast_tests::servers::realm::{self, KEYTAB, SERVER};
use shorefast_tests::wait;

use super::*;

struct Member {
    scene: Scene,
    key: Vec<u8>,
}

impl Member {
    /// A host in a realm. None: it said why the test is skipped.
    fn new() -> Option<Self> {
        if !Nfsd::is_possible() {
            skip("this kernel has no NFS");
            return None;
        }
        let host = Host::new()?;
        let realm = Realm::start(&host);
        realm.join();
        let key = realm.key();
        Some(Self { scene: Scene::with(host, realm.server), key })
    }

    fn request(&self, target: &str, options: &str) -> Request<'_> {
        let Scene { host, client, .. } = &self.scene;
        Request::new(client, "nfs", format!("{SERVER}:/"), host.directory(target)).options(options)
    }

    /// Natively with the host's own rpc.gssd, then sandboxed without that.
    fn is_as_native(&self, options: &str) {
        let request = self.request("target", options);
        let natively = {
            let _gssd = self.mount_with_host_gssd(&request, Way::Native);
            use_mounted(&self.scene, &request, Access::ReadWrite)
        };
        let sandboxed = use_it(&self.scene, &request, Way::Catalogue, Access::ReadWrite);
        assert_eq!(sandboxed, natively);
        let flavour = options.split(',').find(|option| option.starts_with("sec=")).expect("a flavour").to_owned();
        assert!(sandboxed.options.contains(&flavour), "{sandboxed:?}");
        self.scene.host.assert_nothing_left();
    }

    fn mount(&self, target: &str, options: &str) -> std::path::PathBuf {
        let request = self.request(target, options);
        request.mount(&self.scene.host, Way::Catalogue).succeeds();
        request.target
    }

    /// A native rpc.gssd that looks into a new directory at the wrong moment opens the pipe of the old protocol there (`krb5`), and can
    /// do nothing until it is started again. Ours cannot: that pipe stays shut for it.
    fn mount_with_host_gssd(&self, request: &Request<'_>, way: Way) -> HostGssd {
        for _ in 0..4 {
            let gssd = HostGssd::start(&self.scene.host);
            let ran = request.mount(&self.scene.host, way);
            if !ran.stderr.contains("access denied") {
                ran.succeeds();
                return gssd;
            }
        }
        panic!("the host's rpc.gssd does not work");
    }

    /// Those of ours.
    fn gssd(&self) -> Vec<Process> {
        let is_one = |process: &Process| process.status("Name").as_deref() == Some("rpc.gssd");
        self.scene.host.sandboxed().into_iter().filter(is_one).collect()
    }

    fn end(&self, target: &Path) {
        command::run(&["umount", text(target)]);
        self.scene.host.assert_nothing_left();
    }
}

/// As its distribution runs it. Dropped: gone, and of a test that fails it tells what it said.
struct HostGssd(Option<Running>);

impl HostGssd {
    const PIPES: &str = "/run/rpc_pipefs";

    fn start(host: &Host) -> Self {
        if mountinfo::at(Path::new(Self::PIPES)).is_empty() {
            fs::create_dir_all(Self::PIPES).expect("/run is the test's own");
            command::run(&["mount", "-t", "rpc_pipefs", "rpc_pipefs", Self::PIPES]);
        }
        let mut command = Command::new("rpc.gssd");
        command.args(["-f", "-vv", "-p", Self::PIPES]);
        let gssd = Self(Some(Running::start(command)));
        wait::until("the host's rpc.gssd to answer", || gssd.has_opened_a_pipe().then_some(()));
        host.settle();
        gssd
    }

    fn has_opened_a_pipe(&self) -> bool {
        let Some(Ok(descriptors)) = self.0.as_ref().map(|gssd| fs::read_dir(format!("/proc/{}/fd", gssd.pid()))) else { return false };
        descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path.ends_with("gssd/clntXX/gssd")))
    }
}

impl Drop for HostGssd {
    fn drop(&mut self) {
        let Some(mut gssd) = self.0.take() else { return };
        gssd.kill();
        let said = gssd.finish().stderr;
        if std::thread::panicking() {
            eprintln!("the host's rpc.gssd said: {said}");
        }
    }
}

fn holds(bytes: &[u8], key: &[u8]) -> bool {
    bytes.windows(key.len()).any(|part| part == key)
}

/// One test: a realm takes its time to be made.
#[test]
#[ignore = "needs a kernel with NFS"]
fn as_natively_by_a_gssd_without_privilege() {
    let Some(member) = Member::new() else { return };
    member.is_as_native("vers=4.2,sec=krb5p");
    gssd_has_no_privilege_and_the_key_to_itself(&member);
}

fn gssd_has_no_privilege_and_the_key_to_itself(member: &Member) {
    let first = member.mount("first", "vers=4.2,sec=krb5");
    let running = member.gssd();
    let [gssd] = &running[..] else { panic!("not one rpc.gssd: {running:?}") };
    for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(gssd.status(set).as_deref(), Some("0000000000000000"), "{}", gssd.describe());
    }
    assert_eq!(gssd.status("NoNewPrivs").as_deref(), Some("1"));
    assert_eq!(gssd.status("Seccomp").as_deref(), Some("2"));
    // It has a copy of its own; nothing else of the host's is there.
    let inside = |path: &str| gssd.file("root").join(path.trim_start_matches('/'));
    assert_eq!(fs::read(inside(KEYTAB)).expect("it has the key"), fs::read(KEYTAB).expect("the host has the key"));
    assert!(!inside("/etc/shadow").exists());

    let second = member.mount("second", "vers=4.2,sec=krb5i");
    assert_eq!(member.gssd(), running, "one for all");
    let mut files = vec![member.scene.host.run_directory().to_path_buf()];
    while let Some(path) = files.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => files.extend(entries.flatten().map(|entry| entry.path())),
            Err(_) => assert!(!holds(&fs::read(&path).unwrap_or_default(), &member.key), "{}", path.display()),
        }
    }
    let request = member.request("third", "vers=4.2,sec=krb5");
    let plan = member.scene.host.shorefast(&request.arguments(Way::Catalogue, &["--dry-run"])).succeeds().stdout;
    assert!(!plan.contains(KEYTAB), "the client itself gets the key: {plan}");

    command::run(&["umount", text(&second)]);
    assert_eq!(fs::read(first.join("greeting")).expect("the first works"), GREETING);
    member.end(&first);
}

#[test]
#[ignore = "needs a kernel with NFS"]
fn a_host_without_a_key_is_told_before_anything_is_sent() {
    if !Nfsd::is_possible() {
        return skip("this kernel has no NFS");
    }
    let Some(host) = Host::new() else { return };
    realm::leave();
    let target = host.directory("target");
    // A store that has nothing, and no way to get anything: the image is not even asked for.
    let call = ["mount", "-t", "nfs", "-o", "sec=krb5", "192.0.2.1:/", text(&target)];
    let said = host.shorefast(&call).exits(32).says("rpc.gssd").says(KEYTAB).says("hint:");
    assert!(said.took.as_secs() < 20, "{:?}", said.took);
    host.assert_nothing_left();
}

mod thorough {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn every_flavour_and_version_as_natively() {
        let Some(member) = Member::new() else { return };
        for options in ["vers=4.2,sec=krb5", "vers=4.1,sec=krb5i", "vers=4.0,sec=krb5p"] {
            member.is_as_native(options);
        }
    }

    /// Who has no ticket gets no further than natively; the mount goes on.
    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn other_users_are_refused() {
        let Some(member) = Member::new() else { return };
        let target = member.mount("target", "vers=4.2,sec=krb5");
        let mut command = Command::new("cat");
        command.arg(target.join("greeting")).uid(1000).gid(1000);
        assert_ne!(command::finish(command).code, Some(0), "somebody without a ticket has read it");
        assert_eq!(fs::read(target.join("greeting")).expect("root can read it"), GREETING);
        member.end(&target);
    }

    /// The kernel keeps the state of a mount that is made meanwhile with Kerberos, whatever its own flavour.
    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn gssd_stays_for_whoever_came_meanwhile() {
        let Some(member) = Member::new() else { return };
        let first = member.mount("first", "vers=4.2,sec=krb5");
        let plain = member.mount("plain", "vers=4.2,sec=sys");
        let running = member.gssd();
        command::run(&["umount", text(&first)]);
        wait::until("the first mount's record to go", || (member.scene.host.list().len() == 1).then_some(()));
        // What nobody needs ends after a second.
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert_eq!(member.gssd(), running, "somebody needs it still");
        assert_eq!(fs::read(plain.join("greeting")).expect("the mount works"), GREETING);
        member.end(&plain);
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn gssd_of_the_host_is_used() {
        let Some(member) = Member::new() else { return };
        let request = member.request("target", "vers=4.2,sec=krb5p");
        let _gssd = member.mount_with_host_gssd(&request, Way::Catalogue);
        assert_eq!(member.gssd(), [], "the host has its own");
        member.end(&request.target);
    }

    #[test]
    #[ignore = "needs a kernel with NFS"]
    fn mounts_survive_the_death_of_gssd_and_of_its_doorman() {
        let Some(member) = Member::new() else { return };
        let first = member.mount("first", "vers=4.2,sec=krb5");
        let [before] = member.gssd()[..] else { panic!("not one rpc.gssd") };
        before.signal(rustix::process::Signal::KILL);
        let after = wait::until("rpc.gssd to run again", || member.gssd().into_iter().find(|process| *process != before));
        assert_eq!(fs::read(first.join("greeting")).expect("the mount works"), GREETING);

        let second = member.mount("second", "vers=4.2,sec=krb5i");
        let is_doorman = |process: &Process| process.describe().contains("__pipes");
        let doorman = || shorefast_tests::processes::on_this_network().into_iter().find(is_doorman);
        doorman().expect("somebody opens its pipes").signal(rustix::process::Signal::KILL);
        wait::until("the doorman to end", || doorman().is_none().then_some(()));
        let third = member.mount("third", "vers=4.2,sec=krb5p");
        assert!(!member.gssd().contains(&after), "it cannot open pipes any more");
        assert_eq!(fs::read(third.join("greeting")).expect("the mount works"), GREETING);
        for target in [&second, &third] {
            command::run(&["umount", text(target)]);
        }
        member.end(&first);
    }
}

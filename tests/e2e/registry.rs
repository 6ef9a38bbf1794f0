//! Images from registries and to them: a real one, images made and pushed by real tools, and a network that misbehaves.

#[path = "registry/current.rs"]
mod current;
#[path = "registry/given.rs"]
mod given;
#[path = "registry/signed.rs"]
mod signed;
#[path = "registry/several.rs"]
mod several;
#[path = "registry/tokens.rs"]
mod tokens;

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_image::Digest;
use shorefast_image::manifest::Platform;
use shorefast_image::registry::{Credentials, Error, Hosts, Name, Registries};
use shorefast_net::{Error as NetError, Progress, Settings, Silent};
use shorefast_tests::layout::noise;
use shorefast_tests::servers::registry::{Access, PASSWORD, Transport, USER};
use shorefast_tests::servers::{Meddler, Mischief, Registry};
use shorefast_tests::{Host, Layout, Ran, command};

const PORT: u16 = 5000;
const LARGE: usize = 6 << 20;

/// What a pull brought.
#[derive(Debug, PartialEq, Eq)]
struct Pulled {
    digest: Digest,
    named: Digest,
    /// The digest of each layer's bytes, as they came, and what they should have been.
    layers: Vec<(Digest, Digest)>,
}

struct Puller<'a> {
    host: &'a Host,
    registries: Registries,
}

impl<'a> Puller<'a> {
    fn new(host: &'a Host, hosts: &str) -> Self {
        let file = host.file("registries.toml", hosts);
        let hosts = Hosts::read(&file).expect("a test's own configuration is right");
        let settings = Settings {
            connect_timeout: Duration::from_secs(2),
            stall_timeout: Duration::from_secs(5),
            first_pause: Duration::from_millis(20),
            ..Settings::default()
        };
        Self { host, registries: Registries { hosts, credentials: Credentials::none(), settings } }
    }

    fn with_login_file(mut self, path: &Path) -> Self {
        self.registries.credentials = Credentials::in_files([path.to_owned()]);
        self
    }

    fn pull(&self, name: &str) -> Result<Pulled, Error> {
        let name: Name = name.parse().expect("a test's own names are right");
        let image = self.registries.find(&name, &Platform::here())?;
        let (digest, named) = (image.digest, image.named);
        let progress: Arc<dyn Progress> = Arc::new(Silent);
        let mut layers = Vec::new();
        for coming in image.fetch(&self.host.path("blobs"), &progress) {
            let expected = coming.layer.digest;
            let mut bytes = Vec::new();
            coming.wait()?.read_to_end(&mut bytes).expect("what arrived can be read");
            layers.push((Digest::of(&bytes), expected));
        }
        Ok(Pulled { digest, named, layers })
    }

    #[track_caller]
    fn pulls(&self, name: &str) -> Pulled {
        let pulled = self.pull(name).unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
        assert!(pulled.layers.iter().all(|(found, expected)| found == expected), "{pulled:?}");
        assert_eq!(self.left_over(), Vec::<String>::new(), "all that was fetched has been used");
        pulled
    }

    fn left_over(&self) -> Vec<String> {
        let entries = fs::read_dir(self.host.path("blobs")).into_iter().flatten();
        entries.map(|entry| entry.expect("a readable directory").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// As people see it.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn here() -> String {
    Platform::here().architecture
}

fn foreign() -> &'static str {
    if here() == "s390x" { "riscv64" } else { "s390x" }
}

/// A layout with the image `tools:1` of two small layers and one large one.
fn tools(host: &Host) -> Layout {
    let layout = Layout::new(host);
    layout.image("tools", &here(), &[("/a", block("one")), ("/big", noise(LARGE, 7)), ("/c", block("three"))]);
    layout
}

/// umoci's insert forgets to pad files, so a file is a whole block.
fn block(text: &str) -> Vec<u8> {
    format!("{text:<512}").into_bytes()
}

fn plain(registry: &Registry) -> String {
    format!("[\"{}\"]\nplain_http = true\n", registry.address)
}

/// What skopeo says the image's digest is.
fn digest_of(registry: &Registry, image: &str) -> Digest {
    let name = format!("docker://{}", registry.name(image));
    let said = command::run(&["skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", &name]).stdout;
    said.trim().parse().expect("skopeo says digests")
}

#[test]
fn an_image_is_pulled_by_tag_and_by_digest() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "team/tools:1");
    let puller = Puller::new(&host, &plain(&registry));
    let by_tag = puller.pulls(&registry.name("team/tools:1"));
    assert_eq!(by_tag.layers.len(), 3);
    assert_eq!(by_tag.digest, digest_of(&registry, "team/tools:1"));
    assert_eq!(by_tag.digest, by_tag.named);
    let by_digest = puller.pulls(&registry.name(&format!("team/tools@{}", by_tag.digest)));
    assert_eq!(by_digest, by_tag);
    let by_both = puller.pulls(&registry.name(&format!("team/tools:no-such-tag@{}", by_tag.digest)));
    assert_eq!(by_both, by_tag, "a digest goes before a tag");
}

#[test]
fn an_index_gives_this_machines_build_and_a_foreign_image_is_an_error() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    let layout = Layout::new(&host);
    layout.image("own", &here(), &[("/own", block("own"))]);
    layout.image("other", foreign(), &[("/other", block("other"))]);
    registry.push(&layout.path, "other", "multi:other");
    registry.push(&layout.path, "own", "multi:own");
    let own = digest_of(&registry, "multi:own");
    for (list, members) in [("multi:both", vec!["multi:other", "multi:own"]), ("multi:foreign", vec!["multi:other"])] {
        make_index(&host, &registry, list, &members);
    }
    let puller = Puller::new(&host, &plain(&registry));
    let both = puller.pulls(&registry.name("multi:both"));
    assert_eq!(both.digest, own);
    assert_ne!(both.named, own, "the name stands for the index");
    let pinned = puller.pulls(&registry.name(&format!("multi@{}", both.named)));
    assert_eq!(pinned, both);
    for image in ["multi:other", "multi:foreign"] {
        let error = puller.pull(&registry.name(image)).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }) && error.hint().is_some(), "{image}: {}", chain(&error));
        assert!(error.to_string().contains(foreign()), "{error}");
    }
}

/// buildah puts an index together and pushes it.
fn make_index(host: &Host, registry: &Registry, list: &str, members: &[&str]) {
    let storage = host.directory("buildah");
    let storage = storage.to_str().expect("our own paths are text");
    let buildah = |words: &[&str]| {
        let mut all = vec!["buildah", "--storage-driver", "vfs", "--root", storage, "--runroot", storage];
        all.extend(words);
        command::run(&all);
    };
    let policy = host.file("policy.json", r#"{"default":[{"type":"insecureAcceptAnything"}]}"#);
    fs::create_dir_all("/etc/containers").expect("/etc is the test's own");
    fs::copy(policy, "/etc/containers/policy.json").expect("/etc is the test's own");
    let local = list.replace(':', "-");
    buildah(&["manifest", "create", &local]);
    for member in members {
        buildah(&["manifest", "add", "--tls-verify=false", &local, &format!("docker://{}", registry.name(member))]);
    }
    buildah(&["manifest", "push", "--all", "--tls-verify=false", &local, &format!("docker://{}", registry.name(list))]);
}

#[test]
fn a_registry_with_a_ca_of_its_own_is_trusted_only_when_configured() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Tls, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let name = registry.name("tools:1");
    let trusting = Puller::new(&host, &format!("[\"{}\"]\nca = {:?}\n", registry.address, registry.ca));
    trusting.pulls(&name);
    let error = Puller::new(&host, "").pull(&name).unwrap_err();
    assert!(matches!(error, Error::Fetch { source: NetError::Tls { .. }, .. }) && error.hint().is_some(), "{}", chain(&error));
}

#[test]
fn plain_http_is_spoken_only_where_configured() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let error = Puller::new(&host, "").pull(&registry.name("tools:1")).unwrap_err();
    assert!(matches!(error, Error::Fetch { source: NetError::NotTls { .. }, .. }), "{}", chain(&error));
    assert!(error.hint().is_some_and(|hint| hint.contains("plain_http = true")), "{:?}", error.hint());
    Puller::new(&host, &plain(&registry)).pulls(&registry.name("tools:1"));
}

#[test]
fn credentials_come_from_docker_podman_and_helpers() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Login);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let name = registry.name("tools:1");
    let puller = || Puller::new(&host, &plain(&registry));

    let error = puller().pull(&name).unwrap_err();
    assert!(matches!(error, Error::NoCredentials { .. }) && error.hint().is_some(), "{}", chain(&error));

    // podman's and docker's own tools write the files.
    let address = registry.address.to_string();
    let podman = host.path("auth.json");
    let podman_file = podman.to_str().expect("our own paths are text");
    command::run(&["skopeo", "login", "--tls-verify=false", "--authfile", podman_file, "-u", USER, "-p", PASSWORD, &address]);
    assert!(fs::read_to_string(&podman).is_ok_and(|text| text.contains("auths")));
    puller().with_login_file(&podman).pulls(&name);

    let wrong = fs::read_to_string(&podman).expect("it is there").replace(&BASE64_OF_LOGIN.to_owned(), BASE64_OF_WRONG_LOGIN);
    let wrong = host.file("wrong.json", wrong);
    let error = puller().with_login_file(&wrong).pull(&name).unwrap_err();
    assert!(matches!(error, Error::WrongCredentials { .. }) && error.hint().is_some(), "{}", chain(&error));
    assert!(!chain(&error).contains("wrong-password"), "{}", chain(&error));

    let script = format!(
        "#!/bin/sh\nread host\n[ \"$1 $host\" = 'get {address}' ] || exit 1\nprintf '{{\"Username\":\"{USER}\",\"Secret\":\"{PASSWORD}\"}}'\n"
    );
    let program = Path::new("/srv/docker-credential-shorefast-test");
    fs::write(program, script).expect("/srv is the test's own");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("/srv is the test's own");
    let path = format!("/srv:{}", std::env::var("PATH").unwrap_or_default());
    for (file, key) in [
        ("helper.json", format!(r#""credHelpers": {{"{address}": "shorefast-test"}}"#)),
        ("store.json", r#""credsStore": "shorefast-test""#.to_owned()),
    ] {
        let file = host.file(file, format!("{{{key}}}"));
        with_path(&path, || puller().with_login_file(&file).pulls(&name));
    }
}

/// `puller:pull:me` and `puller:wrong-password`
const BASE64_OF_LOGIN: &str = "cHVsbGVyOnB1bGw6bWU=";
const BASE64_OF_WRONG_LOGIN: &str = "cHVsbGVyOndyb25nLXBhc3N3b3Jk";

#[expect(unsafe_code, reason = "set_var is unsafe where other threads read the environment: nextest runs each test in its own process")]
fn with_path<T>(path: &str, work: impl FnOnce() -> T) -> T {
    let before = std::env::var("PATH").unwrap_or_default();
    // SAFETY: this test's only thread that reads the environment is this one.
    unsafe { std::env::set_var("PATH", path) };
    let result = work();
    // SAFETY: as above.
    unsafe { std::env::set_var("PATH", before) };
    result
}

/// `shorefast image pull NAME`, in an environment where only `home` holds logins.
fn image_pull(host: &Host, home: &Path, name: &str) -> Ran {
    let mut command = Command::new(host.binary());
    command.args(["image", "pull", name]).env("HOME", home).env_remove("XDG_RUNTIME_DIR").env_remove("DOCKER_CONFIG");
    command::finish(command)
}

fn configure(hosts: &str) {
    fs::create_dir_all("/etc/shorefast").expect("/etc is the test's own");
    fs::write("/etc/shorefast/registries.toml", hosts).expect("/etc is the test's own");
}

/// What is in the store, down to the last name; without it, nothing.
fn store() -> Vec<String> {
    let found = command::run(&[
        "find",
        "/var/lib/shorefast",
        "(",
        "-name",
        "*.lock",
        "-o",
        "-name",
        "lock",
        ")",
        "-prune",
        "-o",
        "-type",
        "f",
        "-print",
    ]);
    found.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn the_command_pulls_with_the_machines_configuration_and_logins() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Tls, Access::Login);
    registry.push(&tools(&host).path, "tools", "team/tools:1");
    let (name, address) = (registry.name("team/tools:1"), registry.address.to_string());
    configure(&format!("[{address:?}]\nca = {:?}\n", registry.ca));
    let nobody = host.directory("nobody");
    image_pull(&host, &nobody, &name).exits(32).says("no credentials").says("hint: ");
    for (home, file) in [("podman", ".config/containers/auth.json"), ("docker", ".docker/config.json")] {
        let home = host.directory(home);
        let file = home.join(file);
        fs::create_dir_all(file.parent().expect("it has a parent")).expect("/srv is the test's own");
        fs::write(&file, format!(r#"{{"auths": {{"{address}": {{"auth": "{BASE64_OF_LOGIN}"}}}}}}"#)).expect("/srv is the test's own");
        let pulled = image_pull(&host, &home, &name).succeeds();
        let digest: Digest = pulled.stdout.trim().parse().expect("it says the digest");
        let rootfs = Path::new("/var/lib/shorefast/rootfs").join(digest.hex());
        assert_eq!(fs::read(rootfs.join("a")).expect("it is unpacked"), block("one"));
        assert_eq!(fs::read(rootfs.join("big")).expect("it is unpacked"), noise(LARGE, 7));
        let listed = host.shorefast(&["image", "list", "--json"]).succeeds().json();
        assert_eq!(listed[0]["digest"], digest.to_string(), "{listed}");
        assert_eq!(fs::read_dir("/var/lib/shorefast/blobs").map(Iterator::count).unwrap_or(0), 0, "nothing else stays");
        host.shorefast(&["image", "remove", &name]).succeeds();
    }
}

#[test]
fn a_pull_that_fails_leaves_the_store_as_it_was() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    let layout = tools(&host);
    layout.image("before", &here(), &[("/before", block("before"))]);
    layout.image("other", foreign(), &[("/other", block("other"))]);
    for image in ["tools", "before", "other"] {
        registry.push(&layout.path, image, &format!("{image}:1"));
    }
    let meddler = Meddler::start(registry.address, Mischief::FlipAt(3 << 20));
    configure(&format!("{}[\"{}\"]\nplain_http = true\n", plain(&registry), meddler.address));
    image_pull(&host, Path::new("/srv"), &registry.name("before:1")).succeeds();
    let before = store();
    let rows = [
        ("wrong bytes", format!("{}/tools:1", meddler.address), "wrong checksum"),
        ("a missing tag", registry.name("tools:2"), "has no tools:2"),
        ("a foreign architecture", registry.name("other:1"), foreign()),
        ("an unreachable registry", "127.0.0.1:1/tools:1".to_owned(), "cannot reach"),
        ("no TLS there", registry.name("tools:1").replace("127.0.0.1", "localhost"), "cannot"),
    ];
    for (what, name, said) in rows {
        let ran = image_pull(&host, Path::new("/srv"), &name).exits(32).says(said).says("hint: ");
        assert!(ran.took < Duration::from_secs(20), "{what}: {:?}", ran.took);
        let kept: Vec<_> = store().into_iter().filter(|path| !path.starts_with("/var/lib/shorefast/blobs/")).collect();
        assert_eq!(kept, before, "{what}");
    }
}

#[test]
fn ten_pulls_at_once_are_one() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let meddler = Meddler::start(registry.address, Mischief::CutAfter(u64::MAX));
    configure(&format!("[\"{}\"]\nplain_http = true\n", meddler.address));
    let name = format!("{}/tools:1", meddler.address);
    let pulls: Vec<_> = (0..10).map(|_| host.start(&["image", "pull", &name])).collect();
    let digests: Vec<_> = pulls.into_iter().map(|pull| pull.finish().succeeds().stdout).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    assert!(meddler.passed() < 2 * LARGE as u64, "its layers came once: {}", meddler.passed());
}

#[test]
fn a_missing_tag_and_an_unreachable_registry_are_told_apart() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let puller = Puller::new(&host, &plain(&registry));
    for image in ["tools:2", "nothing:1", &format!("tools@{}", Digest::of(b"no such image"))] {
        let error = puller.pull(&registry.name(image)).unwrap_err();
        assert!(matches!(error, Error::Missing { .. }) && error.hint().is_some(), "{image}: {}", chain(&error));
    }
    drop(registry);
    let before = Instant::now();
    let error = puller.pull(&format!("127.0.0.1:{PORT}/tools:1")).unwrap_err();
    assert!(matches!(error, Error::Fetch { source: NetError::Connect { .. }, .. }) && error.hint().is_some(), "{}", chain(&error));
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    assert_eq!(puller.left_over(), Vec::<String>::new());
}

#[test]
fn a_cut_connection_is_taken_up_and_not_begun_anew() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let meddler = Meddler::start(registry.address, Mischief::CutAfter(1 << 20));
    let puller = Puller::new(&host, &format!("[\"{}\"]\nplain_http = true\n", meddler.address));
    puller.pulls(&format!("{}/tools:1", meddler.address));
    let passed = meddler.passed();
    assert!(passed > LARGE as u64 && passed < LARGE as u64 + (1 << 20), "every byte travels once: {passed} of {LARGE}");
}

#[test]
fn what_a_failed_pull_left_is_taken_up_by_the_next() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let meddler = Meddler::start(registry.address, Mischief::DieAfter(4 << 20));
    let mut impatient = Puller::new(&host, &format!("[\"{}\"]\nplain_http = true\n", meddler.address));
    impatient.registries.settings.attempts = 2;
    let error = impatient.pull(&format!("{}/tools:1", meddler.address)).unwrap_err();
    assert!(matches!(error, Error::Fetch { source: NetError::Broken { .. }, .. }), "{}", chain(&error));
    assert!(impatient.left_over().iter().any(|name| name.ends_with(".part")), "{:?}", impatient.left_over());
    let straight = Meddler::start(registry.address, Mischief::CutAfter(u64::MAX));
    let patient = Puller::new(&host, &format!("[\"{}\"]\nplain_http = true\n", straight.address));
    patient.pulls(&format!("{}/tools:1", straight.address));
    assert!(straight.passed() < 3 << 20, "most of it was there: {}", straight.passed());
}

#[test]
fn wrong_bytes_are_refused_wherever_they_are() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    registry.push(&tools(&host).path, "tools", "tools:1");
    let digest = digest_of(&registry, "tools:1");
    // In the manifest or the configuration (both are behind some 400 bytes of headers), and in the large layer.
    for (place, in_layers) in [(700, false), (3 << 20, true)] {
        let meddler = Meddler::start(registry.address, Mischief::FlipAt(place));
        let puller = Puller::new(&host, &format!("[\"{}\"]\nplain_http = true\n", meddler.address));
        let error = puller.pull(&format!("{}/tools@{digest}", meddler.address)).unwrap_err();
        let told = match &error {
            Error::WrongDigest { .. } => !in_layers,
            Error::Fetch { source: NetError::WrongHash { .. }, .. } => in_layers,
            _ => false,
        };
        assert!(told && error.hint().is_some(), "flipped at {place}: {}", chain(&error));
        assert!(puller.left_over().iter().all(|name| name.len() == 64 || name.ends_with(".part")), "{:?}", puller.left_over());
        for name in puller.left_over().iter().filter(|name| name.len() == 64) {
            let bytes = fs::read(host.path("blobs").join(name)).expect("it is there");
            assert_eq!(Digest::of(&bytes).hex(), *name, "what has its name is what its name says");
        }
    }
}

#[test]
fn a_dead_or_empty_mirror_gives_way_to_the_registry_itself() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    let mirror = Registry::start(&host, PORT + 1, Transport::Plain, Access::Anybody);
    let layout = tools(&host);
    registry.push(&layout.path, "tools", "team/tools:1");
    mirror.push(&layout.path, "tools", "copies/team/tools:1");
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("there is a free port");
    let pull = |mirrors: &str| {
        let hosts = format!(
            "{}mirrors = [{mirrors}]\n[\"{}\"]\nplain_http = true\n[\"{dead}\"]\nplain_http = true\n",
            plain(&registry),
            mirror.address
        );
        let before = Instant::now();
        let pulled = Puller::new(&host, &hosts).pulls(&registry.name("team/tools:1"));
        assert!(before.elapsed() < Duration::from_secs(5), "{mirrors}: {:?}", before.elapsed());
        pulled
    };
    let dead = dead.to_string();
    let expected = pull("");
    // A dead one, one that lacks the image, and one that has it below a prefix.
    let (empty, copies) = (mirror.address.to_string(), format!("{}/copies", mirror.address));
    assert_eq!(pull(&format!("{dead:?}, {empty:?}")), expected);
    assert_eq!(pull(&format!("{dead:?}, {empty:?}, {copies:?}")), expected);
    let hosts = format!("{}mirrors = [{copies:?}]\n[\"{}\"]\nplain_http = true\n", plain(&registry), mirror.address);
    let name = registry.name("team/tools:1");
    drop(registry);
    assert_eq!(Puller::new(&host, &hosts).pulls(&name), expected, "a mirror does when the registry is gone");
}

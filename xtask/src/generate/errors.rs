//! The table of errors for docs/ERRORS.md. Text and remedy are those of the code: an error of each kind is made here, and asked. What the table
//! adds is the cause. A test holds the list of kinds to the sources.

use std::fmt::Write as _;
use std::io::{Error as IoError, ErrorKind};
use std::time::Duration;

use rustix::io::Errno;
use shorefast::report::exit_code;
use shorefast_engine::Error as E;
use shorefast_engine::error::{Awaited, Diagnostics, Looked, Obstacle};
use shorefast_engine::wait_status::WaitStatus;
use shorefast_image::Error as I;
use shorefast_image::registry::Error as R;
use shorefast_image::signature::Problem;
use shorefast_install::Error as S;
use shorefast_net::Error as N;
use shorefast_runtimes::Error as C;
use shorefast_sandbox::Error as B;
use shorefast_sys::Error as Y;

const HEAD: &str = "\
# Errors

Every error names the step that failed, its cause, and, after `hint:`, what to do. This page is generated from the code (`cargo xtask generate`): words in capitals
stand for a name, a path or a number. The messages of a client or the kernel follow the error, line by line (`helper:`, `broker:`). Exit status 1: the call or the
configuration is wrong, or root rights are missing. 2: this machine prevents it. 32: the mount, the unmount or the image failed.
";

struct Row {
    /// The variant, for the test.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table does not show it"))]
    kind: String,
    text: String,
    cause: &'static str,
    remedy: Option<String>,
    code: u8,
}

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, rows) in [
        ("Mounting and unmounting", mounting()),
        ("Images", images()),
        ("Registries and the network", network()),
        ("Installing", installing()),
    ] {
        let _ = write!(page, "\n## {title}\n\n| error | status | cause | what to do |\n|---|---|---|---|\n");
        for Row { text, code, cause, remedy, .. } in rows {
            let _ = writeln!(page, "| {} | {code} | {cause} | {} |", cell(&text), cell(remedy.as_deref().unwrap_or("–")));
        }
    }
    page
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "\\<")
}

fn kind_of(error: &dyn std::fmt::Debug) -> String {
    let shown = format!("{error:?}");
    shown.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn call(errno: Errno) -> Y {
    Y::new("CALL", errno)
}

fn io(kind: ErrorKind) -> IoError {
    IoError::new(kind, "REASON")
}

fn looked() -> Box<Looked> {
    Box::new(Looked { at: Vec::new(), directory: "/etc/shorefast/clients.d".into() })
}

fn mounting() -> Vec<Row> {
    let row = |error: E, cause: &'static str| Row {
        kind: kind_of(&error),
        text: error.to_string(),
        cause,
        remedy: error.hint(),
        code: exit_code(error.kind()),
    };
    let said = Diagnostics::default;
    let (client, path) = (|| "CLIENT".to_owned(), || "/PATH".into());
    let cannot = |why, cause| row(E::CannotReplace { path: path(), why }, cause);
    let late = |waiting_for| E::Deadline { seconds: 60, waiting_for, said: said() };
    vec![
        row(E::NotRoot, "the caller is not root (the client never is)"),
        row(E::NoType, "neither a type nor a client was given"),
        row(
            E::UnknownType { fstype: "TYPE".into(), near: None, looked: looked() },
            "a typing mistake, or a client of your own without a definition",
        ),
        row(
            E::UnknownClient { name: client(), near: None, looked: looked() },
            "a typing mistake, or the definition is in another directory",
        ),
        row(
            E::DefinitionUnreadable { file: "/FILE".into(), source: io(ErrorKind::PermissionDenied) },
            "its permissions, or a user other than root could change it",
        ),
        row(E::Definition { file: "/FILE".into(), problem: "MISTAKES".into() }, "mistakes in a client file; all of them are listed"),
        row(
            E::LastGoodInForce { directory: "/DIR".into(), problem: Box::new(E::NoType) },
            "a ConfigMap has a mistake: its previous content stays in force",
        ),
        row(E::Options { problem: "PROBLEM" }, "a missing closing quote, or an empty name"),
        row(E::NoImage { client: client() }, "a definition without an image"),
        row(E::NoContainer { client: client() }, "mode exec without a container"),
        row(E::UnsignedContainer { client: client() }, "`signed_by` in the definition of a client, in mode exec"),
        row(E::Container(C::NoRuntime), "mode exec on a host without a runtime, or with one that does not answer"),
        row(E::MountProgram { source: io(ErrorKind::NotFound) }, "mode host, or a type without a client, on a host without mount(8)"),
        row(E::HostMount { code: Some(32), why: "REASON".into(), said: said() }, "no client lists the type, so mount(8) was called"),
        row(
            E::NotInKernel { types: vec!["TYPE".into()], kernel: "6.12".into() },
            "the kernel lacks the filesystem, or its module is not installed",
        ),
        row(E::NoSecretWay { client: client() }, "a secret was given, and the client's definition has no place for one"),
        row(E::SecretInUnit { name: "password".into() }, "`mount --unit` with a password among the options"),
        row(E::TooManySecrets { client: client() }, "a secret was given as an option and as a file"),
        row(
            E::UnknownSecret { client: client(), name: "NAME".into(), known: vec!["OPTION".into()] },
            "a key of a Kubernetes Secret that the client does not use",
        ),
        row(E::SecretsOption { client: client(), name: "NAME".into() }, "a user name contains a comma, a quote or a newline"),
        row(E::NoGroupWay { client: client() }, "a pod sets fsGroup, and the client has no option for it"),
        row(E::OtherGroup { path: path(), asked: 4711 }, "two pods with different fsGroup share a volume, which has one client"),
        row(
            E::SecretFile { path: path(), source: ErrorKind::PermissionDenied.into() },
            "a user other than root could read or change a volume's secret file",
        ),
        row(E::NotForGuests { what: "WHAT".into() }, "a volume defined inside a pod asks for a setting that only an administrator may use"),
        row(E::Target { path: path(), source: call(Errno::NOENT) }, "the directory to mount at does not exist"),
        row(E::SourceWrites { path: path(), client: client() }, "data written to the mount could be lost when it ends"),
        row(
            E::SourceNotReplaceable { directory: "/DIR".into(), client: client() },
            "the client may not write to the directory of its source",
        ),
        row(
            E::HostFile { path: path(), source: io(ErrorKind::PermissionDenied) },
            "a file that the definition gives to the client (`host_files`, `remember`) cannot be read or kept",
        ),
        row(E::Sandbox(B::Execute("REASON".into())), "the image lacks the helper, or it is a script whose interpreter is missing"),
        row(E::Broker(shorefast_broker_error()), "the kernel failed, or the client ended in the middle of a call"),
        row(E::Helper { status: "exit status 1".into(), code: Some(1), said: said() }, "the client gave up; its own messages follow"),
        row(E::NothingMounted { said: said() }, "the helper ended without mounting anything"),
        row(E::NotServing { source: io(ErrorKind::NotConnected), said: said() }, "the daemon ended, or does not speak FUSE"),
        row(E::ClientEnded { said: said() }, "the daemon ended at once"),
        row(late(Awaited::Server), "the server is down, or a firewall drops packets to it"),
        row(late(Awaited::Mount), "the client waits for something, usually for its server"),
        row(late(Awaited::Service), "the client waits for its server before it answers"),
        row(late(Awaited::HelperEnd), "the helper stays in the foreground, and the definition does not say so"),
        row(late(Awaited::Image), "a slow registry or mirror, with --image-timeout set"),
        row(late(Awaited::HostMount), "mode host: mount(8) waits for a server"),
        row(E::Service { name: "NAME".into(), problem: "PROBLEM".into() }, "a daemon beside the mount did not start"),
        row(
            E::NoServices { problem: "PROBLEM".into(), otherwise: Some("WHAT ELSE TO DO".into()) },
            "such as locks of NFS version 3 in a mode where no daemons run",
        ),
        row(
            E::NoHostFile {
                service: "NAME".into(),
                path: path(),
                otherwise: Some("WHAT ELSE TO DO".into()),
                source: io(ErrorKind::NotFound),
            },
            "such as Kerberos without a keytab",
        ),
        row(E::Wait(call(Errno::NOMEM)), "the kernel failed"),
        row(E::Namespace { path: path(), source: call(Errno::NOENT) }, "`mount -N` with the namespace of a process that has ended"),
        row(E::Attach { path: path(), source: call(Errno::BUSY) }, "the target changed while it was being mounted"),
        row(
            E::SubDirectory { path: path(), source: call(Errno::NOENT) },
            "a volume's directory on its base volume is gone, or is a link that leads elsewhere",
        ),
        row(E::Keeper(call(Errno::NOMEM)), "no process can be started"),
        row(E::NoRecipe, "the mount's keeper was killed, and then its client"),
        cannot(Obstacle::NoClient, "`upgrade` of a filesystem that the kernel serves"),
        cannot(Obstacle::Healing, "`upgrade` of a mount whose client has just died"),
        cannot(Obstacle::Dead, "`upgrade` of a mount whose client has died and is no longer restarted"),
        cannot(Obstacle::Unmounted, "`upgrade` of a mount that was unmounted while in use, or is being unmounted now"),
        cannot(Obstacle::Drains, "`upgrade` of an old client that drains, by its id"),
        cannot(Obstacle::InHand { pid: 1 }, "another call is mounting, healing or upgrading there now"),
        cannot(Obstacle::Exclusive { client: client() }, "`upgrade` of a client that must not run twice at the same time"),
        cannot(Obstacle::StillRuns, "such a client crashed, and some of its processes still wait for their server"),
        cannot(Obstacle::Locked { holders: vec!["pid 1 (NAME)".into()] }, "a program has locks (flock, fcntl) on files of the mount"),
        cannot(
            Obstacle::SecretGone { inside: "/PATH".into() },
            "the definition has a new place for the secret, and the secret came through a pipe",
        ),
        cannot(Obstacle::ShowsItself, "for example a bindfs over its own source: the new client would serve the old client's mount"),
        cannot(Obstacle::Silent { within: Duration::from_secs(5) }, "the client hangs, or its server does"),
        cannot(Obstacle::NotWrittenBack { within: Duration::from_secs(30) }, "the server does not accept the written data"),
        cannot(
            Obstacle::Differs { what: "WHAT".into() },
            "the new image or definition serves something else, or cannot read files that the old one reads",
        ),
        cannot(
            Obstacle::NotReplaceable { why: "REASON".into() },
            "another mount on it cannot be moved to the new client, or Linux is older than 6.5",
        ),
        row(E::Record { path: path(), source: IoError::from_raw_os_error(28) }, "/run/shorefast is full, or read-only"),
        row(E::Already { path: path(), differs: Vec::new() }, "Shorefast has already mounted something there"),
        row(E::NotOurs { path: path() }, "nothing is mounted there, or another program mounted it"),
        row(E::Underway { path: path(), pid: 1 }, "another call is mounting there now"),
        row(
            E::Unmount { path: path(), source: IoError::from_raw_os_error(16) },
            "a program has a file open or its working directory there",
        ),
        row(E::Covered { path: path(), by: vec!["/OTHER".into()], client_ended: false }, "another mount was made on top of it"),
        row(
            E::OtherNamespace { path: path(), namespace: 1, id: "ID".into() },
            "it was mounted in a container or a service that has its own mount namespace",
        ),
        row(E::UnmountHangs { path: path() }, "the kernel waits for a server without a limit"),
        row(E::Lingers { path: path(), pid: 1 }, "the client waits for its server, and cannot be killed yet"),
        row(E::EndedBadly { path: path(), status: WaitStatus(1 << 8), said: said() }, "the client could not write back its data"),
        row(E::StillUsed { users: vec!["/PATH".into()] }, "`uninstall --purge` while something is mounted"),
        row(E::Purge { path: path(), source: io(ErrorKind::CrossesDevices) }, "a file cannot be removed, or is on another filesystem"),
        row(E::HostProc { path: path(), source: call(Errno::ACCESS) }, "--host-proc in a container that may not see the host"),
        row(
            E::HostOutOfReach { kind: "pid" },
            "it was called in a container, and the processes that it starts would end with that container",
        ),
    ]
}

fn shorefast_broker_error() -> shorefast_broker::Error {
    shorefast_broker::Error::Receive(call(Errno::IO))
}

fn images() -> Vec<Row> {
    let row = |error: I, cause: &'static str| {
        let kind = kind_of(&error);
        let (text, remedy) = (error.to_string(), error.hint());
        Row { kind, text, cause, remedy, code: exit_code(E::ImageStore(Box::new(error)).kind()) }
    };
    let image = || "IMAGE".to_owned();
    vec![
        row("IMAGE@sha256:12".parse::<shorefast_image::Reference>().expect_err("it is no digest"), "a typing mistake in a reference"),
        row(I::Open { path: "/PATH".into(), source: io(ErrorKind::NotFound) }, "the file or directory does not exist"),
        row(I::NotARoot { path: "/PATH".into(), problem: "PROBLEM" }, "a directory or archive without a root filesystem"),
        row(I::Malformed { image: image(), problem: "PROBLEM".into() }, "an archive or layout that does not follow the standard"),
        row(I::NoSuchTag { image: image(), wanted: Some("TAG".into()), there: vec!["OTHER".into()] }, "an archive with several images"),
        row(I::Absent { reference: image() }, "--offline, and the image was never fetched"),
        row(
            I::Signature { image: image(), keys: "/KEYS".into(), source: Box::new(Problem::Unsigned) },
            "`signed_by` of the client or of the registry requires a signature, and none by such a key fits this image under this name; the lines below say why",
        ),
        row(
            I::Keys { path: "/KEYS".into(), source: io(ErrorKind::InvalidData) },
            "it has no key, another kind of key, or a user other than root could change it",
        ),
        row(I::Unknown { name: image(), near: None }, "a typing mistake, or it was removed"),
        row(I::InUse { name: image(), users: vec!["/PATH".into()] }, "a live mount runs from it"),
        row(I::Store { path: "/PATH".into(), source: io(ErrorKind::ReadOnlyFilesystem) }, "the store is not writable"),
    ]
}

fn network() -> Vec<Row> {
    let of_registry = |error: R, cause: &'static str| {
        let error = I::Registry { image: "IMAGE".into(), source: Box::new(error) };
        let I::Registry { source, .. } = &error else { unreachable!("made above") };
        Row { kind: kind_of(source), text: source.to_string(), cause, remedy: error.hint(), code: 32 }
    };
    let of_net = |error: N, cause: &'static str| Row {
        kind: kind_of(&error),
        text: error.to_string(),
        cause,
        remedy: error.hint().map(str::to_owned),
        code: 32,
    };
    let (host, url) = (|| "HOST".to_owned(), || "URL".to_owned());
    vec![
        of_registry(
            R::Hosts { path: "/etc/shorefast/registries.toml".into(), problem: "PROBLEM".into() },
            "a mistake in it, or a user other than root could change it",
        ),
        of_registry(R::Credentials { path: "/FILE".into(), problem: "PROBLEM".into() }, "a file with logins cannot be read"),
        of_registry(
            R::Helper { program: "docker-credential-NAME".into(), problem: "PROBLEM".into() },
            "a program that stores logins failed",
        ),
        of_registry(
            R::NoCredentials { host: host(), repository: "REPOSITORY".into() },
            "a private image, or there is no image of that name",
        ),
        of_registry(R::WrongCredentials { host: host(), repository: "REPOSITORY".into() }, "an old or wrong login"),
        of_registry(
            R::TokenServer { host: host(), server: "SERVER".into() },
            "the registry asks for its login to be sent to another server",
        ),
        of_registry(R::Missing { host: host(), name: "NAME".into() }, "a typing mistake in the name or tag"),
        of_registry(R::Challenge { host: host() }, "a registry with its own kind of authentication"),
        of_registry(R::Malformed { image: "IMAGE".into(), problem: "PROBLEM".into() }, "a registry that does not follow the standard"),
        of_net(N::NoCertificates, "a host without CA certificates"),
        of_net(N::Certificates { path: "/FILE".into(), source: "REASON".into() }, "`ca` names a file that holds no certificates"),
        of_net(N::Proxy { variable: "https_proxy" }, "a typing mistake in the variable"),
        of_net(N::PlainHttp { host: host() }, "a mirror, redirection or token server over plain HTTP"),
        of_net(N::Name { host: host(), problem: "there is no such name".into() }, "a typing mistake, or no name server"),
        of_net(N::Connect { url: url(), source: "REASON".into() }, "nothing listens there, a firewall is in between, or a proxy is needed"),
        of_net(N::Tls { url: url(), source: "REASON".into() }, "a certificate of an unknown authority, or for another name"),
        of_net(N::NotTls { url: url() }, "a registry that speaks plain HTTP"),
        of_net(N::Broken { url: url(), source: "REASON".into() }, "the network failed; Shorefast has already tried again"),
        of_net(N::Status { url: url(), status: 404, said: String::new() }, "a typing mistake in the address"),
        of_net(
            N::WrongHash { url: url(), expected: "sha256:…".into(), found: "sha256:…".into() },
            "the data was damaged or changed on the way",
        ),
        of_net(N::File { path: "/PATH".into(), source: io(ErrorKind::StorageFull) }, "the disk failed or is full"),
    ]
}

fn installing() -> Vec<Row> {
    let row =
        |error: S, code: u8, cause: &'static str| Row { kind: kind_of(&error), text: error.to_string(), cause, remedy: error.hint(), code };
    vec![
        row(S::Foreign { path: "/PATH".into() }, 2, "another program's file has the name of a file to install"),
        row(S::Changed { path: "/PATH".into() }, 2, "an installed file was edited"),
        row(S::NoPlace { tried: Vec::new() }, 2, "a read-only host"),
        row(S::UnfitPlace { directory: "/DIR".into(), reason: "REASON".into() }, 2, "--to names a read-only or noexec place"),
        row(S::HelpersImpossible { directory: "/sbin".into(), reason: "REASON".into() }, 2, "a host with a read-only /usr"),
        row(S::NotAType { name: "NAME".into() }, 1, "a typing mistake"),
        row(S::NotForUnit { text: "TEXT".into() }, 1, "`mount --unit` with a name that a unit file cannot contain"),
        row(
            S::File { action: "write", path: "/PATH".into(), source: io(ErrorKind::PermissionDenied) },
            2,
            "no root rights, or a full disk",
        ),
        row(S::NotInstalled { looked: Vec::new() }, 1, "it is not installed, or in another directory"),
        row(S::Left { paths: vec!["/PATH".into()] }, 2, "an installed file was edited, so it is not removed"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of variants: each stands in the line below its `#[error(…)]`, at the same depth.
    fn variants(file: &str) -> Vec<String> {
        let path = format!("{}/../crates/{file}", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(path).unwrap();
        let body = source.split("pub enum Error {").nth(1).unwrap().split("\n}").next().unwrap();
        let is_variant = |line: &&str| line.starts_with("    ") && line[4..].starts_with(|letter: char| letter.is_ascii_uppercase());
        body.lines().filter(is_variant).map(kind_of_line).collect()
    }

    fn kind_of_line(line: &str) -> String {
        line.trim().split(|letter: char| !letter.is_alphanumeric()).next().unwrap().to_owned()
    }

    #[test]
    fn every_error_of_a_mount_is_in_the_table() {
        let rows = mounting();
        for variant in variants("engine/src/error.rs") {
            // Those of images have tables of their own.
            if !["Image", "ImageStore"].contains(&variant.as_str()) {
                assert!(rows.iter().any(|row| row.kind == variant), "{variant} has no row in xtask/src/generate/errors.rs");
            }
        }
        let rows = installing();
        for variant in variants("install/src/error.rs") {
            assert!(variant == "Manifest" || rows.iter().any(|row| row.kind == variant), "{variant}");
        }
    }

    #[test]
    fn a_line_of_the_table_has_the_codes_own_words() {
        let page = page();
        assert!(page.contains("| root rights are needed | 1 |") && page.contains("run it as root"), "{page}");
    }
}

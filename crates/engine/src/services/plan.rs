//! In: a client's services and its image. Out: a value that describes how they run, and that is kept to restart them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_broker::Grant;
use shorefast_image::Digest;
use shorefast_sandbox::Spec;
use shorefast_sandbox::spec::{Capabilities, Content, DEFAULT_SCRATCH, File, Identity, ProcessLimits, Processes, Role, Shown, Thing};

use crate::definition::{self, Service, Services};
use crate::services::{pipes, rpc};

/// Where rpc_pipefs is mounted inside.
const RPC_PIPEFS: &str = "/run/rpc_pipefs";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub client: String,
    pub name: String,
    pub rootfs: PathBuf,
    pub digest: Option<Digest>,
    command: Vec<String>,
    again: Vec<String>,
    /// None: it answers the kernel's requests in rpc_pipefs.
    pub program: Option<u32>,
    #[serde(alias = "doors")]
    pub grants: Vec<Grant>,
    pub sockets: Vec<PathBuf>,
    pub state: Option<Kept>,
    provide: Vec<(PathBuf, String)>,
    #[serde(default)]
    copies: Vec<PathBuf>,
    #[serde(default)]
    pub profiles: Vec<PathBuf>,
}

/// A directory that a service keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub outside: PathBuf,
    inside: PathBuf,
    pub directories: Vec<String>,
}

/// Whether the host was rebooted since the service ran last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    Same,
    New,
}

/// `rootfs`: of the image that contains them. `root`: below which services keep their state.
pub fn make(services: &[Services], rootfs: Option<&Path>, client: &str, digest: Option<Digest>, root: &Path) -> Vec<Planned> {
    let planned = |service: &Service, rootfs: &Path| Planned {
        client: client.to_owned(),
        name: service.name.clone(),
        rootfs: rootfs.to_owned(),
        digest,
        command: service.command.clone(),
        again: service.again.clone(),
        program: service.program,
        grants: service.binds.iter().filter_map(|bind| definition::grant(bind)).collect(),
        sockets: service.sockets.clone(),
        state: service.state.as_ref().map(|inside| Kept {
            outside: root.join("services").join(client).join(&service.name),
            inside: inside.clone(),
            directories: service.state_directories.clone(),
        }),
        provide: service.provide.clone().into_iter().collect(),
        copies: service.copies.clone(),
        profiles: service.profiles.clone(),
    };
    rootfs
        .into_iter()
        .flat_map(|rootfs| services.iter().flat_map(|group| &group.run).map(move |service| planned(service, rootfs)))
        .collect()
}

impl Planned {
    /// Whether it runs, ours or the host's.
    pub fn answers(&self) -> bool {
        self.program.map_or_else(pipes::are_answered, rpc::answers)
    }

    /// Whether it needs a broker as long as it lives, to open the kernel's pipes.
    pub fn has_pipes(&self) -> bool {
        self.grants.contains(&Grant::Pipes)
    }

    /// The kernel interprets its answers in the user namespace of the writer: that has to be the host's.
    pub fn identity(&self) -> Identity {
        if self.has_pipes() { Identity::DedicatedUser } else { Identity::UserNamespace }
    }

    /// Where it registers itself.
    pub fn registers(&self) -> impl Iterator<Item = (&Path, u32)> {
        self.sockets.iter().filter_map(|socket| self.program.map(|program| (socket.as_path(), program)))
    }

    /// `profiles`: the content of its Kerberos profiles.
    pub fn spec(&self, boot: Boot, profiles: Vec<String>) -> Spec {
        let more = if boot == Boot::Same { self.again.as_slice() } else { &[] };
        let text = |(path, text): &(PathBuf, String)| File { inside: path.clone(), content: Content::Text(text.clone()) };
        let of_host =
            ["/etc/hosts", "/etc/resolv.conf"].map(|path| File { inside: path.into(), content: Content::HostIfThere(path.into()) });
        let copies = self.copies.iter().map(|path| File { inside: path.clone(), content: Content::Host(path.clone()) });
        let profiles = self.profiles.iter().cloned().zip(profiles).map(|(inside, text)| File { inside, content: Content::Text(text) });
        let state = self.state.iter().map(|kept| Shown { what: Thing::Directory(kept.outside.clone()), inside: kept.inside.clone() });
        let sockets = self.sockets.iter().map(|path| Shown { what: Thing::Socket(path.clone()), inside: path.clone() });
        let pipes = self.has_pipes().then(|| Shown { what: Thing::RpcPipefs, inside: RPC_PIPEFS.into() });
        Spec {
            command: self.command.iter().chain(more).map(OsString::from).collect(),
            arg0: None,
            environment: Vec::new(),
            identity: self.identity(),
            processes: Processes::Own,
            capabilities: Capabilities::None,
            source: None,
            files: self.provide.iter().map(text).chain(of_host).chain(copies).chain(profiles).collect(),
            shown: state.chain(sockets).chain(pipes).collect(),
            stand_ins: Vec::new(),
            role: if self.has_pipes() { Role::Answerer } else { Role::Service },
            process_limits: ProcessLimits::default(),
            scratch_bytes: DEFAULT_SCRATCH,
        }
    }

    /// The socket on this host at which it listens.
    pub fn socket(&self) -> Option<&Path> {
        self.grants.iter().find_map(|grant| match grant {
            Grant::Socket { outside, .. } => Some(outside.as_path()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> [Planned; 3] {
        let definition = crate::catalogue::named("nfs").unwrap().complete().unwrap();
        let planned = make(&definition.services, Some(Path::new("/image")), "nfs", None, Path::new("/root"));
        planned.try_into().expect("three services")
    }

    fn statd() -> Planned {
        let [rpcbind, statd, _] = services();
        assert_eq!(rpcbind.socket(), Some(Path::new("/run/rpcbind.sock")));
        assert_eq!(rpcbind.grants[0], Grant::Port(111));
        statd
    }

    #[test]
    fn who_answers_the_kernel_is_a_user_of_the_host() {
        let [.., gssd] = services();
        let spec = gssd.spec(Boot::New, vec!["[libdefaults]\n".to_owned()]);
        assert_eq!((spec.identity, spec.role), (Identity::DedicatedUser, Role::Answerer));
        assert_eq!(spec.shown, [Shown { what: Thing::RpcPipefs, inside: RPC_PIPEFS.into() }]);
        let content = |path: &str| spec.files.iter().find(|file| file.inside == Path::new(path)).map(|file| &file.content);
        assert!(matches!(content("/etc/krb5.keytab"), Some(Content::Host(path)) if path == Path::new("/etc/krb5.keytab")));
        assert!(matches!(content("/etc/krb5.conf"), Some(Content::Text(text)) if text == "[libdefaults]\n"));
    }

    #[test]
    fn only_a_reboot_is_told_to_others() {
        let command = |boot| statd().spec(boot, Vec::new()).command;
        assert!(!command(Boot::New).iter().any(|word| word == "--no-notify"));
        assert!(command(Boot::Same).iter().any(|word| word == "--no-notify"));
    }

    #[test]
    fn what_is_kept_is_shown_where_it_is_expected() {
        let spec = statd().spec(Boot::New, Vec::new());
        assert_eq!(spec.shown[0].what, Thing::Directory("/root/services/nfs/rpc.statd".into()));
        assert_eq!(spec.shown[0].inside, Path::new("/var/lib/nfs"));
        assert_eq!(spec.role, Role::Service);
    }
}

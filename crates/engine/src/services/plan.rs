//! A client's services as they will run: a value that says everything, and that is kept to start them again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_broker::Door;
use shorefast_image::Digest;
use shorefast_sandbox::Spec;
use shorefast_sandbox::spec::{Capabilities, Content, DEFAULT_SCRATCH, File, Identity, Processes, Role, Shown, ShownKind};

use crate::definition::{self, Service, Services};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub client: String,
    pub name: String,
    pub rootfs: PathBuf,
    pub digest: Option<Digest>,
    command: Vec<String>,
    again: Vec<String>,
    pub program: u32,
    pub doors: Vec<Door>,
    pub sockets: Vec<PathBuf>,
    pub state: Option<Kept>,
    provide: Vec<(PathBuf, String)>,
}

/// What a service keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub outside: PathBuf,
    inside: PathBuf,
    pub directories: Vec<String>,
}

/// Whether the host was started anew since the service ran last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    Same,
    New,
}

/// `services`: with the root of the image that they are in. `root`: below which services keep their things.
pub fn make(services: Option<(&Services, &Path)>, client: &str, digest: Option<Digest>, root: &Path) -> Vec<Planned> {
    let planned = |service: &Service, rootfs: &Path| Planned {
        client: client.to_owned(),
        name: service.name.clone(),
        rootfs: rootfs.to_owned(),
        digest,
        command: service.command.clone(),
        again: service.again.clone(),
        program: service.program,
        doors: service.binds.iter().filter_map(|bind| definition::door(bind)).collect(),
        sockets: service.sockets.clone(),
        state: service.state.as_ref().map(|inside| Kept {
            outside: root.join("services").join(client).join(&service.name),
            inside: inside.clone(),
            directories: service.state_directories.clone(),
        }),
        provide: service.provide.clone().into_iter().collect(),
    };
    services.into_iter().flat_map(|(services, rootfs)| services.run.iter().map(|service| planned(service, rootfs))).collect()
}

impl Planned {
    pub fn spec(&self, boot: Boot) -> Spec {
        let more = if boot == Boot::Same { self.again.as_slice() } else { &[] };
        let text = |(path, text): &(PathBuf, String)| File { inside: path.clone(), content: Content::Text(text.clone()) };
        let of_host =
            ["/etc/hosts", "/etc/resolv.conf"].map(|path| File { inside: path.into(), content: Content::HostIfThere(path.into()) });
        let state =
            self.state.iter().map(|kept| Shown { outside: kept.outside.clone(), inside: kept.inside.clone(), kind: ShownKind::Directory });
        let sockets = self.sockets.iter().map(|path| Shown { outside: path.clone(), inside: path.clone(), kind: ShownKind::Socket });
        Spec {
            command: self.command.iter().chain(more).map(OsString::from).collect(),
            arg0: None,
            environment: Vec::new(),
            identity: Identity::UserNamespace,
            processes: Processes::Own,
            capabilities: Capabilities::None,
            source: None,
            files: self.provide.iter().map(text).chain(of_host).collect(),
            shown: state.chain(sockets).collect(),
            stand_ins: Vec::new(),
            role: Role::Service,
            scratch_bytes: DEFAULT_SCRATCH,
        }
    }

    /// The socket that it listens at for this host.
    pub fn socket(&self) -> Option<&Path> {
        self.doors.iter().find_map(|door| match door {
            Door::Socket { outside, .. } => Some(outside.as_path()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statd() -> Planned {
        let definition = definition::parse(crate::catalogue::named("nfs").unwrap()).unwrap();
        let planned = make(definition.services.as_ref().map(|services| (services, Path::new("/image"))), "nfs", None, Path::new("/root"));
        let [rpcbind, statd] = &planned[..] else { panic!("two services") };
        assert_eq!(rpcbind.socket(), Some(Path::new("/run/rpcbind.sock")));
        assert_eq!(rpcbind.doors[0], Door::Port(111));
        statd.clone()
    }

    #[test]
    fn only_a_reboot_is_told_to_others() {
        let command = |boot| statd().spec(boot).command;
        assert!(!command(Boot::New).iter().any(|word| word == "--no-notify"));
        assert!(command(Boot::Same).iter().any(|word| word == "--no-notify"));
    }

    #[test]
    fn what_is_kept_is_shown_where_it_is_expected() {
        let spec = statd().spec(Boot::New);
        assert_eq!(spec.shown[0].outside, Path::new("/root/services/nfs/rpc.statd"));
        assert_eq!(spec.shown[0].inside, Path::new("/var/lib/nfs"));
        assert_eq!(spec.role, Role::Service);
    }
}

//! The systemd units: at boot, before anything is mounted, one clears away the leftovers of an unclean shutdown; another gives the images a
//! mount of their own. A third one is the CSI driver.

use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub name: &'static str,
    /// The target into which `systemctl enable` links it. A unit that a socket starts has none.
    pub wanted_by: Option<&'static str>,
    pub text: String,
}

pub fn all(binary: &Path) -> [Unit; 2] {
    [
        Unit {
            name: "shorefast.service",
            wanted_by: Some("multi-user.target.wants"),
            text: SERVICE.replace(USUAL, &binary.display().to_string()),
        },
        Unit { name: "var-lib-shorefast.mount", wanted_by: Some("local-fs.target.wants"), text: IMAGES.to_owned() },
    ]
}

/// The volume plugin for Docker and Podman, and the socket that starts it.
pub fn docker(binary: &Path) -> [Unit; 2] {
    [
        Unit { name: "shorefast-docker.socket", wanted_by: Some("sockets.target.wants"), text: DOCKER_SOCKET.to_owned() },
        Unit { name: "shorefast-docker.service", wanted_by: None, text: DOCKER_SERVICE.replace(USUAL, &binary.display().to_string()) },
    ]
}

pub fn csi(binary: &Path) -> Unit {
    Unit {
        name: "shorefast-csi.service",
        wanted_by: Some("multi-user.target.wants"),
        text: CSI.replace(USUAL, &binary.display().to_string()),
    }
}

/// The unit for a program in the usual place.
const SERVICE: &str = include_str!("../../../deploy/systemd/shorefast.service");
const USUAL: &str = "/usr/local/lib/shorefast/shorefast";
const CSI: &str = include_str!("../../../deploy/systemd/shorefast-csi.service");
const DOCKER_SOCKET: &str = include_str!("../../../deploy/systemd/shorefast-docker.socket");
const DOCKER_SERVICE: &str = include_str!("../../../deploy/systemd/shorefast-docker.service");
const IMAGES: &str = include_str!("../../../deploy/systemd/var-lib-shorefast.mount");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount_unit;

    #[test]
    fn the_service_runs_the_installed_binary() {
        let [service, _] = all(Path::new("/opt/shorefast/shorefast"));
        assert!(service.text.contains("\nExecStart=/opt/shorefast/shorefast reconcile\n") && !service.text.contains(USUAL), "{service:?}");
        let driver = csi(Path::new("/opt/shorefast/shorefast"));
        assert!(driver.text.contains("\nExecStart=/opt/shorefast/shorefast serve --csi\n") && !driver.text.contains(USUAL), "{driver:?}");
    }

    #[test]
    fn the_mount_is_named_as_systemd_wants_it() {
        let [_, images] = all(Path::new("/opt/shorefast/shorefast"));
        let place = images.text.lines().find_map(|line| line.strip_prefix("Where=")).unwrap();
        assert_eq!(mount_unit::name(Path::new(place)), images.name);
    }

    #[test]
    fn each_is_enabled_where_it_says() {
        for unit in all(Path::new("/x")).into_iter().chain([csi(Path::new("/x"))]).chain(docker(Path::new("/x"))) {
            let wanted = unit.text.lines().find_map(|line| line.strip_prefix("WantedBy=")).map(|target| format!("{target}.wants"));
            assert_eq!(wanted.as_deref(), unit.wanted_by, "{}", unit.name);
        }
    }

    #[test]
    fn the_plugins_service_runs_the_installed_binary() {
        let [_, service] = docker(Path::new("/opt/x/shorefast"));
        assert!(service.text.contains("\nExecStart=/opt/x/shorefast serve --docker\n") && !service.text.contains(USUAL), "{service:?}");
    }
}

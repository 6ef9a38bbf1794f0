//! kubelet's side: a root directory, a driver that serves there, and its calls.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use shorefast_csi::messages::*;
use shorefast_tests::channel::{Answer, Channel};
use shorefast_tests::command::Running;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Ran, wait};

pub(crate) const DRIVER: &str = "csi.example.test";

pub(crate) struct Kubelet<'a> {
    host: &'a Host,
    pub(crate) root: PathBuf,
    /// More arguments for the driver.
    more: &'static [&'static str],
    driver: Option<Running>,
    channel: Option<Channel>,
}

impl<'a> Kubelet<'a> {
    pub(crate) fn with_driver(host: &'a Host) -> Self {
        // As on hosts where it is on another disk.
        std::os::unix::fs::symlink(host.directory("disk/kubelet"), host.path("kubelet")).expect("the test's own directory");
        Self::with_driver_at(host, host.path("kubelet"))
    }

    pub(crate) fn with_driver_at(host: &'a Host, root: PathBuf) -> Self {
        Self::with_arguments(host, root, &[])
    }

    pub(crate) fn with_arguments(host: &'a Host, root: PathBuf, more: &'static [&'static str]) -> Self {
        let mut kubelet = Self { host, root, more, driver: None, channel: None };
        kubelet.start();
        kubelet
    }

    /// How long it took until the driver could be registered.
    pub(crate) fn start(&mut self) -> Duration {
        let root = self.root.to_str().expect("our own paths are text");
        let (started, before) = (Instant::now(), self.sockets_inode());
        let words = ["serve", "--csi", "--kubelet-root", root, "--driver-name", DRIVER, "--node-id", "node-1"];
        self.driver = Some(self.host.start(&[&words[..], self.more].concat()));
        wait::until("the driver's socket", || (self.sockets_inode() != before && self.registration_socket().exists()).then_some(()));
        let took = started.elapsed();
        self.channel = Some(Channel::open(&self.socket()));
        took
    }

    fn sockets_inode(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(self.registration_socket()).ok().map(|socket| socket.ino())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.driver.as_ref().expect("it runs").pid()
    }

    /// SIGTERM: as systemd and kubelet end it.
    pub(crate) fn stop(&mut self) -> Ran {
        self.channel = None;
        let driver = self.driver.take().expect("it runs");
        kill_process(Pid::from_raw(driver.pid() as i32).expect("a pid"), Signal::TERM).expect("it can be ended");
        driver.finish()
    }

    pub(crate) fn kill(&mut self) {
        self.driver.as_mut().expect("it runs").kill();
        drop(self.driver.take().map(Running::finish));
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("plugins").join(DRIVER).join("csi.sock")
    }

    pub(crate) fn registration_socket(&self) -> PathBuf {
        self.root.join("plugins_registry").join(format!("{DRIVER}-reg.sock"))
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.channel.as_ref().expect("the driver runs")
    }

    pub(crate) fn staging(&self, volume: &str) -> PathBuf {
        let path = self.root.join("plugins/kubernetes.io/csi").join(volume).join("globalmount");
        // A mount that is dead is no directory to who asks.
        let made = fs::create_dir_all(&path);
        assert!(made.is_ok() || made.is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists));
        path
    }

    /// As kubelet does, only the parent exists.
    pub(crate) fn target(&self, pod: &str) -> PathBuf {
        let path = self.root.join("pods").join(pod).join("volumes/kubernetes.io~csi/data");
        fs::create_dir_all(&path).expect("kubelet's own directory");
        path.join("mount")
    }

    pub(crate) fn stage(&self, volume: &Volume) -> Answer<Empty> {
        self.channel().call("/csi.v1.Node/NodeStageVolume", &self.stage_message(volume))
    }

    pub(crate) fn stage_message(&self, volume: &Volume) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&self.staging(&volume.id)),
            volume_capability: Some(volume.capability.clone()),
            secrets: volume.secrets.clone(),
            volume_context: volume.attributes.clone(),
        }
    }

    pub(crate) fn publish(&self, volume: &Volume, pod: &str, readonly: bool) -> Answer<Empty> {
        self.channel().call("/csi.v1.Node/NodePublishVolume", &self.publish_message(volume, pod, readonly))
    }

    pub(crate) fn publish_message(&self, volume: &Volume, pod: &str, readonly: bool) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&self.staging(&volume.id)),
            target_path: text(&self.target(pod)),
            volume_capability: Some(volume.capability.clone()),
            readonly,
            secrets: volume.secrets.clone(),
            volume_context: volume.attributes.clone(),
        }
    }

    /// A volume that is written in the pod.
    pub(crate) fn publish_inline(&self, volume: &Volume, pod: &str) -> Answer<Empty> {
        let mut message = self.publish_message(volume, pod, false);
        message.staging_target_path = String::new();
        message.volume_context.insert("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned());
        self.channel().call("/csi.v1.Node/NodePublishVolume", &message)
    }

    pub(crate) fn unpublish(&self, volume: &Volume, pod: &str) -> Answer<Empty> {
        let message = NodeUnpublishVolumeRequest { volume_id: volume.id.clone(), target_path: text(&self.target(pod)) };
        self.channel().call("/csi.v1.Node/NodeUnpublishVolume", &message)
    }

    pub(crate) fn unstage(&self, volume: &Volume) -> Answer<Empty> {
        let message = NodeUnstageVolumeRequest { volume_id: volume.id.clone(), staging_target_path: text(&self.staging(&volume.id)) };
        self.channel().call("/csi.v1.Node/NodeUnstageVolume", &message)
    }

    pub(crate) fn stats(&self, volume: &str, path: &Path) -> Answer<NodeGetVolumeStatsResponse> {
        let message = NodeGetVolumeStatsRequest { volume_id: volume.to_owned(), volume_path: text(path), ..Default::default() };
        self.channel().call("/csi.v1.Node/NodeGetVolumeStats", &message)
    }
}

impl Drop for Kubelet<'_> {
    fn drop(&mut self) {
        if let Some(driver) = &mut self.driver {
            driver.kill();
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) attributes: HashMap<String, String>,
    pub(crate) secrets: HashMap<String, String>,
    pub(crate) capability: VolumeCapability,
}

impl Volume {
    pub(crate) fn new(id: &str, attributes: &[(&str, &str)]) -> Self {
        Self { id: id.to_owned(), attributes: map(attributes), secrets: HashMap::new(), capability: capability(Mode::MultiNodeMultiWriter) }
    }

    pub(crate) fn bindfs(id: &str, source: &Path) -> Self {
        let image = format!("dir:{}", Client::named("bindfs").image_directory().display());
        Self::new(id, &[("type", "bindfs"), ("source", &text(source)), ("image", &image)])
    }

    /// A share of a server that does not check much.
    pub(crate) fn sshfs(host: &Host, id: &str, server: &Sshd) -> Self {
        host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
        let key = fs::read_to_string(&server.key).expect("a key");
        Self::new(id, &[("type", "sshfs"), ("source", &server.source())])
            .with("mountOptions", "port=2222,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null")
            .with_secrets(&[("IdentityFile", &key)])
    }

    /// kubelet's word for a pod's `fsGroup`.
    pub(crate) fn with_group(mut self, group: &str) -> Self {
        if let Some(AccessType::Mount(mount)) = &mut self.capability.access_type {
            mount.volume_mount_group = group.to_owned();
        }
        self
    }

    pub(crate) fn with_mode(self, mode: Mode) -> Self {
        Self { capability: capability(mode), ..self }
    }

    pub(crate) fn with_secrets(self, secrets: &[(&str, &str)]) -> Self {
        Self { secrets: map(secrets), ..self }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.attributes.insert(name.to_owned(), value.to_owned());
        self
    }
}

pub(crate) fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability { access_type: Some(AccessType::Mount(MountVolume::default())), access_mode: Some(AccessMode { mode: mode.into() }) }
}

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("our own paths are text").to_owned()
}

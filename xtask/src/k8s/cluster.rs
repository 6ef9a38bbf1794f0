//! A cluster of one node on a host of its own: its network, its /run and /var/lib, and so all ports and paths, are its own.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use shorefast_tests::{Host, wait};

use super::kubectl::Kubectl;
use super::programs::Programs;
use super::server::Server;
use crate::process;

pub(crate) const NODE: &str = "node";
/// Where kubelet looks for a mounter; it need not be there when kubelet starts.
pub(crate) const MOUNTER: &str = "/opt/shorefast/mounter";
pub(crate) const STATIC_PODS: &str = "/etc/kubernetes/manifests";
const KUBELET_HEALTH: &str = "127.0.0.1:10248";
const CONTAINERD: &str = "/run/containerd/containerd.sock";
const CLUSTER_DNS: &str = "10.0.0.10";
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) struct Cluster {
    pub(crate) kubectl: Kubectl,
    programs: Programs,
    home: PathBuf,
    // Dropped in this order: a program that would complain about another's end is dropped before it.
    kubelet: Option<Server>,
    containerd: Option<Server>,
    _others: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start(host: &Host, programs: Programs, images: &[PathBuf]) -> Result<Self> {
        let home = host.directory("cluster");
        spare_the_machine(&home)?;
        let kubeconfigs = credentials(&home)?;
        let kubectl = Kubectl::new(programs.path("kubectl")?, kubeconfigs.join("admin"));
        let mut others = vec![etcd(&home, &programs)?, apiserver(&home, &programs)?];
        kubectl.wait_until_ready(PATIENCE)?;
        others.push(controller_manager(&home, &programs, &kubeconfigs)?);
        others.push(scheduler(&home, &programs, &kubeconfigs)?);
        configure_containerd(&home, &programs)?;
        let containerd = Some(start_containerd(&home, &programs)?);
        import(&programs, images)?;
        let mut cluster = Self { kubectl, programs, home, kubelet: None, containerd, _others: others };
        cluster.start_kubelet()?;
        cluster.wait_until("the node to be ready", |kubectl| {
            let ready = kubectl.get(&["node", NODE])?["status"]["conditions"]
                .as_array()?
                .iter()
                .any(|each| each["type"] == "Ready" && each["status"] == "True");
            let accounts = kubectl.get(&["serviceaccount", "default"]).is_some();
            (ready && accounts).then_some(())
        })?;
        Ok(cluster)
    }

    pub(crate) fn start_kubelet(&mut self) -> Result<()> {
        fs::create_dir_all(STATIC_PODS)?;
        let configuration = self.home.join("kubelet.yaml");
        fs::write(&configuration, include_str!("kubelet.yaml").replace("@STATIC_PODS@", STATIC_PODS).replace("@DNS@", CLUSTER_DNS))?;
        let endpoint = format!("unix://{CONTAINERD}");
        let mut command = Command::new(self.programs.path("kubelet")?);
        // As a service has it: no helper of Kubernetes' or ours is on the path.
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        command.arg(format!("--config={}", configuration.display()));
        command.arg(format!("--kubeconfig={}", self.home.join("kubeconfigs/kubelet").display()));
        command.arg(format!("--cert-dir={}", self.home.join("kubelet-pki").display()));
        command.args([
            &format!("--hostname-override={NODE}"),
            "--container-runtime=remote",
            "--pod-infra-container-image=registry.test/pause:1",
        ]);
        command.args([format!("--container-runtime-endpoint={endpoint}"), format!("--image-service-endpoint={endpoint}")]);
        command.arg(format!("--experimental-mounter-path={MOUNTER}"));
        self.kubelet = Some(Server::start_in_group("kubelet", &self.home, command)?);
        Ok(())
    }

    /// As a service manager does it: all that is in its group ends. Done when the new one says that it is healthy: the node's state in
    /// the cluster is for a while what the old one said.
    pub(crate) fn restart_kubelet(&mut self) -> Result<()> {
        drop(self.kubelet.take());
        self.start_kubelet()?;
        self.wait_until("the new kubelet to be healthy", |_| TcpStream::connect(KUBELET_HEALTH).ok().map(drop))
    }

    /// Containers go on: each has a process of its own beside it.
    pub(crate) fn restart_containerd(&mut self) -> Result<()> {
        drop(self.containerd.take());
        self.containerd = Some(start_containerd(&self.home, &self.programs)?);
        Ok(())
    }

    pub(crate) fn kubelet(&self) -> Result<&Server> {
        self.kubelet.as_ref().context("kubelet does not run")
    }

    pub(crate) fn wait_until<T>(&self, what: &str, ask: impl FnMut(&Kubectl) -> Option<T>) -> Result<T> {
        self.wait_within(PATIENCE, what, ask)
    }

    pub(crate) fn wait_within<T>(&self, time: Duration, what: &str, mut ask: impl FnMut(&Kubectl) -> Option<T>) -> Result<T> {
        let answer = wait::within(time, || {
            std::thread::sleep(Duration::from_millis(200));
            ask(&self.kubectl)
        });
        match answer {
            Some(answer) => Ok(answer),
            None => bail!("gave up waiting for {what}\n{}", self.state()),
        }
    }

    /// For finding out why something did not happen.
    fn state(&self) -> String {
        let pods = self.kubectl.show(&["get", "pods", "--all-namespaces"]);
        let events = self.kubectl.show(&["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"]);
        let last =
            |text: &str, lines: usize| text.lines().rev().take(lines).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
        let log = fs::read_to_string(self.home.join("kubelet.log")).unwrap_or_default();
        format!("{pods}{}\nkubelet's log ends with:\n{}", last(&events, 12), last(&log, 15))
    }
}

/// kubelet sets these for the whole machine; here it sets files that have no effect.
fn spare_the_machine(home: &Path) -> Result<()> {
    for name in ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"] {
        let setting = Path::new("/proc/sys").join(name);
        let decoy = home.join(name.replace('/', "."));
        fs::write(&decoy, fs::read(&setting)?)?;
        process::run(Command::new("mount").arg("--bind").arg(&decoy).arg(&setting))?;
    }
    Ok(())
}

/// Tokens for all components, and files with which they find the server.
fn credentials(home: &Path) -> Result<PathBuf> {
    let users = [
        ("admin", "admin", "system:masters"),
        ("kubelet", "system:node:node", "system:nodes"),
        ("controller-manager", "system:kube-controller-manager", ""),
        ("scheduler", "system:kube-scheduler", ""),
    ];
    let directory = home.join("kubeconfigs");
    fs::create_dir(&directory)?;
    let mut tokens = String::new();
    for (file, user, group) in users {
        tokens += &format!("token-of-{file},{user},{file},\"{group}\"\n");
        let config = include_str!("kubeconfig.yaml").replace("@TOKEN@", &format!("token-of-{file}"));
        fs::write(directory.join(file), config)?;
    }
    fs::write(home.join("tokens.csv"), tokens)?;
    process::run(Command::new("openssl").args(["genrsa", "-out"]).arg(home.join("accounts.key")).arg("2048"))?;
    Ok(directory)
}

fn etcd(home: &Path, programs: &Programs) -> Result<Server> {
    let mut command = Command::new(programs.path("etcd")?);
    command.arg("--data-dir").arg(home.join("etcd"));
    Server::start("etcd", home, command)
}

fn apiserver(home: &Path, programs: &Programs) -> Result<Server> {
    let at = |name: &str| home.join(name).display().to_string();
    let mut command = Command::new(programs.path("kube-apiserver")?);
    command.args(["--etcd-servers=http://127.0.0.1:2379", "--insecure-port=0", "--secure-port=6443", "--bind-address=127.0.0.1"]);
    command.args(["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24"]);
    // Republishing and tokens for drivers: alpha in this version.
    command.args([
        "--feature-gates=CSIServiceAccountToken=true",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
    ]);
    command.arg(format!("--cert-dir={}", at("apiserver-pki"))).arg(format!("--token-auth-file={}", at("tokens.csv")));
    command.arg(format!("--service-account-key-file={}", at("accounts.key")));
    command.arg(format!("--service-account-signing-key-file={}", at("accounts.key")));
    Server::start("apiserver", home, command)
}

fn controller_manager(home: &Path, programs: &Programs, kubeconfigs: &Path) -> Result<Server> {
    let mut command = Command::new(programs.path("kube-controller-manager")?);
    command.arg(format!("--kubeconfig={}", kubeconfigs.join("controller-manager").display())).args(["--leader-elect=false", "--port=0"]);
    command.arg(format!("--service-account-private-key-file={}", home.join("accounts.key").display()));
    command.arg("--use-service-account-credentials=true");
    Server::start("controller-manager", home, command)
}

fn scheduler(home: &Path, programs: &Programs, kubeconfigs: &Path) -> Result<Server> {
    let mut command = Command::new(programs.path("kube-scheduler")?);
    command.arg(format!("--kubeconfig={}", kubeconfigs.join("scheduler").display())).args(["--leader-elect=false", "--port=0"]);
    Server::start("scheduler", home, command)
}

fn configure_containerd(home: &Path, programs: &Programs) -> Result<()> {
    let network = home.join("cni");
    fs::create_dir(&network)?;
    // Pods use the host's network; this is only so that the runtime calls the network ready.
    fs::write(network.join("lo.conflist"), r#"{"cniVersion":"0.3.1","name":"lo","plugins":[{"type":"loopback"}]}"#)?;
    let configuration = include_str!("containerd.toml")
        .replace("@PLUGINS@", &programs.network_plugins().display().to_string())
        .replace("@NETWORK@", &network.display().to_string())
        .replace("@RUNC@", &programs.path("runc")?.display().to_string());
    fs::write(home.join("containerd.toml"), configuration).context("cannot configure containerd")
}

fn start_containerd(home: &Path, programs: &Programs) -> Result<Server> {
    let binaries = programs.path("containerd")?.parent().context("a program is in a directory")?.display().to_string();
    let mut command = Command::new(programs.path("containerd")?);
    command.env("PATH", format!("{binaries}:/usr/sbin:/usr/bin:/sbin:/bin")).arg("--config").arg(home.join("containerd.toml"));
    let server = Server::start("containerd", home, command)?;
    let answers = || process::run(Command::new(programs.path("ctr").ok()?).args(["--address", CONTAINERD, "version"])).ok();
    wait::within(PATIENCE, answers).with_context(|| format!("containerd does not answer: {}", server.said()))?;
    Ok(server)
}

fn import(programs: &Programs, images: &[PathBuf]) -> Result<()> {
    let import = |archive: &PathBuf| {
        let words = ["--address", CONTAINERD, "--namespace", "k8s.io", "images", "import"];
        process::run(Command::new(programs.path("ctr")?).args(words).arg(archive))
    };
    images.iter().try_for_each(import)
}

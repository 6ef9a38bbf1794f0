//! `install --follow`, the process in our DaemonSet: what a ConfigMap says is what the host has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use shorefast_tests::command::Running;
use shorefast_tests::processes::Process;
use shorefast_tests::{Host, wait};

/// A directory as kubelet makes it of a ConfigMap: names are links through `..data`, which is swapped as a whole.
struct ConfigMap {
    directory: PathBuf,
    versions: u32,
}

impl ConfigMap {
    fn new(host: &Host) -> Self {
        Self { directory: host.directory("configmap"), versions: 0 }
    }

    fn set(&mut self, files: &[(&str, &str)]) {
        self.versions += 1;
        let version = format!("..version-{}", self.versions);
        fs::create_dir(self.directory.join(&version)).expect("a test's own directory");
        for (name, content) in files {
            fs::write(self.directory.join(&version).join(name), content).expect("a test's own directory");
            // One that is there already leads to the new version by itself.
            let _ = symlink(Path::new("..data").join(name), self.directory.join(name));
        }
        symlink(&version, self.directory.join("..data_tmp")).expect("a test's own directory");
        fs::rename(self.directory.join("..data_tmp"), self.directory.join("..data")).expect("a test's own directory");
        for entry in fs::read_dir(&self.directory).expect("a test's own directory").filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("..") && !files.iter().any(|(kept, _)| *kept == name) {
                fs::remove_file(entry.path()).expect("a test's own directory");
            }
        }
    }
}

fn definitions() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/etc/shorefast/clients.d") else { return Vec::new() };
    let read = |path: PathBuf| {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).unwrap_or_default())
    };
    let mut found: Vec<_> = entries.filter_map(Result::ok).map(|entry| read(entry.path())).collect();
    found.sort();
    found
}

fn wait_for(files: &[(&str, &str)]) {
    let wanted: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    wait::until(&format!("{wanted:?} on the host"), || (definitions() == wanted).then_some(()));
}

#[test]
fn the_host_follows_the_configmap_and_a_mistake_changes_nothing() {
    let Some(host) = Host::new() else { return };
    let one = ("one.toml", "types = [\"one\"]\nimage = \"dir:/one\"\n");
    let two = ("two.toml", "types = [\"two\"]\nimage = \"dir:/two\"\n");
    let mut configmap = ConfigMap::new(&host);
    configmap.set(&[one]);
    // The machine's own, if somebody uses it.
    let configured = Path::new("/etc/shorefast").exists();
    let from = configmap.directory.to_str().expect("our own path").to_owned();
    let mut following = host.start(&["install", "--kubelet", "--to", "/srv/node", "--follow", "--clients-from", &from]);
    wait_for(&[one]);
    configmap.set(&[one, two]);
    wait_for(&[one, two]);
    configmap.set(&[("one.toml", "types = 1"), ("three.toml", "types = [\"three\"]")]);
    // Whoever repairs does it in time; until then the last good set is in force.
    std::thread::sleep(std::time::Duration::from_secs(3));
    wait_for(&[one, two]);
    configmap.set(&[two]);
    wait_for(&[two]);
    end(&mut following);
    let said = following.finish().succeeds().stderr;
    assert_eq!(said.matches("is wrong").count(), 1, "a mistake is said once: {said}");
    assert!(said.contains("one.toml"), "{said}");
    host.shorefast(&["uninstall", "--to", "/srv/node"]).succeeds();
    assert!(Path::new("/etc/shorefast").exists() == configured && !Path::new("/srv/node").exists());
}

/// As kubelet ends a container.
fn end(running: &mut Running) {
    Process { pid: running.pid() }.signal(Signal::TERM);
}

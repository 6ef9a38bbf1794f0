//! `cargo xtask posix`: do pass-through clients keep POSIX's promises as well with us as natively? In: pjdfstest and fsx, from crates.io, run through
//! mounts of ours and through mounts of the same clients, from the same images, that are the host's root themselves (mode chroot). Out: a table of
//! how many tests fail on either side, and each test that fails with us only. Device nodes and set-id bits are what we refuse on purpose.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use shorefast_tests::client::{catalogue_packages, store};
use shorefast_tests::path::text;
use shorefast_tests::{Host, command};

use crate::{process, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only clients whose name contains this
    filter: Option<String>,
    /// How many operations fsx makes on a file, through each mount
    #[arg(long, default_value_t = 5000)]
    operations: u32,
}

const TOOLS: [(&str, &str); 2] = [("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// Two users that every Debian has, for the tests that need somebody else.
const SETTINGS: &str = "[features]\nposix_fallocate = {}\n[settings]\nnaptime = 0.05\nallow_remount = false\n\
                        [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n";

struct Client {
    name: &'static str,
    /// Commands in the client's image, with the empty source as working directory and a password in `/tmp/password`.
    prepare: &'static str,
    needs_password: bool,
    options: &'static str,
}

/// The kernel judges by owners and modes.
const PASSED_THROUGH: &str = "allow_other,default_permissions";

const CLIENTS: [Client; 6] = [
    Client { name: "bindfs", prepare: "", needs_password: false, options: PASSED_THROUGH },
    Client { name: "mergerfs", prepare: "", needs_password: false, options: PASSED_THROUGH },
    Client { name: "disorderfs", prepare: "", needs_password: false, options: PASSED_THROUGH },
    Client { name: "posixovl", prepare: "", needs_password: false, options: PASSED_THROUGH },
    Client { name: "fuse-overlayfs", prepare: "mkdir -m 777 lower upper work", needs_password: false, options: PASSED_THROUGH },
    Client {
        name: "gocryptfs",
        prepare: "gocryptfs -q -init -passfile /tmp/password . && chmod a+r gocryptfs.*",
        needs_password: true,
        options: "allow_other",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The same program of the same image as the host's root, which mounts by itself.
    Native,
    Ours,
}

/// Tests that need what no client may make, by words in their names: devices, and set-user-id and set-group-id bits (`uid_gid_eq` begins with a
/// directory of mode 7777).
const REFUSED: [&str; 5] = ["::block", "::char", "device_files", "clear_isgid_bit", "uid_gid_eq_euid_egid"];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    process::show(process::cargo().args(["build", "--quiet", "--package", "shorefast"]))?;
    let tools = std::env::current_dir().context("no working directory")?.join("target/posix");
    for (name, version) in TOOLS {
        let words = ["install", "--quiet", "--locked", "--version", version, "--root", text(&tools), name];
        process::run(process::cargo().args(words)).with_context(|| format!("cannot get {name}"))?;
    }
    let bench = Bench { host: Host::new().context("it takes root")?, tools };
    bench.host.offer_packages_of(&catalogue_packages());
    let settings = bench.host.file("pjdfstest.toml", SETTINGS);
    let chosen: Vec<_> =
        CLIENTS.iter().filter(|client| args.filter.as_ref().is_none_or(|part| client.name.contains(part.as_str()))).collect();
    ensure!(!chosen.is_empty(), "no client has {:?} in its name", args.filter.as_deref().unwrap_or_default());
    println!("| client | tests | fail natively | fail with us | of these, devices and set-id bits | fsx, {} operations |", args.operations);
    println!("|---|--:|--:|--:|--:|---|");
    let mut worse = Vec::new();
    for client in chosen {
        let native = bench.measure(client, Way::Native, &settings, args.operations)?;
        let ours = bench.measure(client, Way::Ours, &settings, args.operations)?;
        let only_ours: Vec<_> = ours.failed.difference(&native.failed).collect();
        let (refused, unexpected): (Vec<&String>, Vec<&String>) =
            only_ours.into_iter().partition(|test| REFUSED.iter().any(|part| test.contains(part)));
        let fsx = match (native.fsx, ours.fsx) {
            (_, true) => "passes",
            (false, false) => "fails natively, too",
            (true, false) => "**fails**",
        };
        let (of_native, of_ours) = (native.failed.len(), ours.failed.len());
        println!("| {} | {} | {of_native} | {of_ours} | {} | {fsx} |", client.name, ours.run, refused.len());
        worse.extend(unexpected.iter().map(|test| format!("{}: {test}", client.name)));
        if native.fsx && !ours.fsx {
            worse.push(format!("{}: fsx", client.name));
        }
    }
    if worse.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("fails with us, and natively not:\n{}", worse.join("\n"));
    Ok(ExitCode::FAILURE)
}

struct Bench {
    host: Host,
    tools: PathBuf,
}

struct Outcome {
    run: usize,
    failed: BTreeSet<String>,
    fsx: bool,
}

impl Bench {
    fn measure(&self, client: &Client, way: Way, settings: &Path, operations: u32) -> Result<Outcome> {
        let (source, target) = (self.host.directory("source"), self.host.directory("target"));
        mount("tmpfs", &source, "tmpfs", MountFlags::empty(), c"mode=777").context("cannot mount a tmpfs")?;
        let password = self.host.file("password", "correct horse");
        if !client.prepare.is_empty() {
            self.prepare(client, &source, &password);
        }
        let mut words = vec!["--root", "STORE", "mount", "-t", client.name, "-o", client.options];
        let store = store();
        words[1] = text(&store);
        if way == Way::Native {
            words.extend(["--mode", "chroot"]);
        }
        if client.needs_password {
            words.extend(["--secret-file", text(&password)]);
        }
        words.extend([text(&source), text(&target)]);
        self.host.shorefast(&words).succeeds();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o777)).context("the mount refuses a mode")?;
        let place = target.join("tests");
        fs::create_dir(&place).context("the mount takes no directory")?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).context("the mount refuses a mode")?;
        let verdicts = self.pjdfstest(&place, settings)?;
        let fsx = self.fsx(&target.join("file"), operations)?;
        self.host.shorefast(&["umount", text(&target)]).succeeds();
        unmount(&source, UnmountFlags::empty()).context("something holds the source")?;
        let failed = verdicts.iter().filter(|(_, word)| word == "FAILED").map(|(name, _)| name.clone()).collect();
        Ok(Outcome { run: verdicts.iter().filter(|(_, word)| word != "skipped").count(), failed, fsx })
    }

    /// With the client's own programs, in its image.
    fn prepare(&self, client: &Client, source: &Path, password: &Path) {
        let shown = self.host.shorefast(&["client", "show", "--json", client.name]).succeeds().json();
        let reference = shown["keys"]["image"]["value"].as_str().expect("it has an image");
        let store = store();
        self.host.shorefast(&["--root", text(&store), "image", "pull", reference]).succeeds();
        let image = self.host.shorefast(&["--root", text(&store), "image", "inspect", "--json", reference]).succeeds().json();
        let root = image["rootfs"].as_str().expect("it says where it is");
        // An image is never written to: what is made there is on top of it.
        let script = format!(
            "set -e; place=$(mktemp -d /srv/inside.XXXXXX); root=$place/root; mkdir $place/upper $place/work $root
             mount -t overlay overlay -o lowerdir={root},upperdir=$place/upper,workdir=$place/work $root
             mkdir -p $root/source $root/dev $root/tmp; mount --bind {source} $root/source; mount --rbind /dev $root/dev; cp {password} $root/tmp/password
             exec chroot $root /bin/sh -ec 'cd /source; {prepare}'",
            source = text(source),
            password = text(password),
            prepare = client.prepare,
        );
        command::run(&["unshare", "--mount", "sh", "-c", &script]);
    }

    /// Names and verdicts: `ok`, `FAILED` or `skipped`.
    fn pjdfstest(&self, place: &Path, settings: &Path) -> Result<Vec<(String, String)>> {
        let mut command = Command::new(self.tools.join("bin/pjdfstest"));
        command.arg("--configuration-file").arg(settings).arg("--path").arg(place).env("NO_COLOR", "1").stdin(Stdio::null());
        let output = command.output().context("cannot start pjdfstest")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let verdict = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, word) = (words.next()?, words.next()?);
            (name.contains("::") && ["ok", "FAILED", "skipped"].contains(&word)).then(|| (name.to_owned(), word.to_owned()))
        };
        let verdicts: Vec<_> = said.lines().filter_map(verdict).collect();
        let passed = verdicts.iter().filter(|(_, word)| word == "ok").count();
        ensure!(passed > 100, "pjdfstest did not run: {said}{}", String::from_utf8_lossy(&output.stderr));
        Ok(verdicts)
    }

    /// The same operations for both ways.
    fn fsx(&self, file: &Path, operations: u32) -> Result<bool> {
        let mut command = Command::new(self.tools.join("bin/fsx"));
        command.args(["-S", "7", "-N", &operations.to_string(), "-P"]).arg(self.host.directory("fsx")).arg(file).stdin(Stdio::null());
        Ok(command.output().context("cannot start fsx")?.status.success())
    }
}

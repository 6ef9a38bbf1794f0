//! What may be found after a kill, and who cleans up.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use shorefast_tests::client::Request;
use shorefast_tests::{Client, Host, command, mountinfo, wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// What is written to it can be read again.
    Working,
    Nothing,
}

/// Who comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    Reconcile,
    /// An ordinary mount at another place.
    NextMount,
}

/// A mount whose maker was killed may be on its way out: its keeper has noticed, but is not done.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// One of the clients of the set-up, its definition with more keys.
pub(crate) fn client(host: &Host, name: &'static str, keys: &str) -> Client {
    let mut client = Client::named(name);
    let definition = fs::read_to_string(&client.definition).expect("a definition can be read");
    let given = |line: &&str| !keys.lines().any(|key| key.split('=').next() == line.split('=').next());
    let kept: Vec<_> = definition.lines().filter(given).collect();
    client.definition = host.file(format!("{name}-{}.toml", keys.len()), format!("{}\n{keys}\n", kept.join("\n")));
    client
}

/// A directory to pass on, writable for a client that is nobody here.
pub(crate) fn source(host: &Host) -> PathBuf {
    let source = host.directory("source");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("cannot chmod");
    source
}

/// Panics if the target stays dead: neither mounted and served, nor free.
#[track_caller]
pub(crate) fn settled(target: &Path) -> Found {
    let mut last_error = None;
    let look = || {
        if mountinfo::at(target).is_empty() {
            return Some(Found::Nothing);
        }
        last_error = use_it(target).err();
        last_error.is_none().then_some(Found::Working)
    };
    wait::within(SETTLED_WITHIN, look)
        .unwrap_or_else(|| panic!("{} is mounted, but dead: {last_error:?} {:?}", target.display(), mountinfo::at(target)))
}

fn use_it(target: &Path) -> io::Result<()> {
    let file = target.join("alive");
    fs::write(&file, "yes")?;
    let content = fs::read(&file)?;
    fs::remove_file(&file)?;
    if content == b"yes" { Ok(()) } else { Err(io::Error::other(format!("wrote yes, read {content:?}"))) }
}

impl Recovery {
    #[track_caller]
    pub(crate) fn run(self, host: &Host) {
        match self {
            Self::Reconcile => drop(host.shorefast(&["reconcile"]).succeeds()),
            Self::NextMount => {
                let elsewhere = host.directory("elsewhere");
                let client = Client::named("tmpfs");
                Request::new(&client, "tmpfs", "tmpfs", &elsewhere).sandboxed(host).succeeds();
                assert_eq!(settled(&elsewhere), Found::Working);
                unmount_if_working(&elsewhere);
            }
        }
    }
}

/// A keeper whose mounting process was killed may be faster.
#[track_caller]
pub(crate) fn unmount_if_working(target: &Path) {
    if settled(target) == Found::Working {
        let mut umount = Command::new("umount");
        umount.arg(target);
        let ran = command::finish(umount);
        // Busy: then the keeper is at it, and will have it away.
        let is_gone = || mountinfo::at(target).is_empty().then_some(());
        assert!(ran.code == Some(0) || wait::within(SETTLED_WITHIN, is_gone).is_some(), "umount: {}", ran.stderr);
    }
}

#[track_caller]
pub(crate) fn assert_nothing_left(host: &Host) {
    host.assert_nothing_left();
    assert_eq!(empty_directories(host), [""; 0].map(PathBuf::from), "left behind, empty");
}

/// What is left of our own directories once all files are gone.
pub(crate) fn empty_directories(host: &Host) -> Vec<PathBuf> {
    const MOMENT: Duration = Duration::from_secs(1);
    let run = host.run_directory();
    // What became of mounts that are gone is kept on purpose.
    let entries = || fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path());
    let left = || entries().filter(|path| path.is_dir() && !path.ends_with("past")).collect::<Vec<_>>();
    wait::within(MOMENT, || left().is_empty().then_some(()));
    left()
}

//! The arguments of `shorefast mount`. clap's definition of them is for help; [`read`] parses them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use shorefast_engine::mode::Mode;

use crate::front::candidates;
use crate::front::places::Places;
use crate::front::spelling::{Problem, Spelling};
use crate::front::timeout::{self, Timeout};
use crate::front::words::{Reader, Repeated, Word};

#[derive(Debug, Default, Args)]
pub struct MountArguments {
    /// The filesystem type; default: the first type of the chosen client
    #[arg(short = 't', long = "type", value_name = "TYPE", add = candidates::types())]
    pub fstype: Option<String>,
    /// Mount options, separated by commas; may be given more than once
    #[arg(short, long, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Read the secret (a password, a key) from this file, which may be a pipe; `-` reads standard input. The client gets it in a private
    /// file, as its definition says
    #[arg(long, value_name = "FILE", conflicts_with = "secret_fd")]
    pub secret_file: Option<PathBuf>,
    /// Read the secret from an open file descriptor of the caller
    #[arg(long, value_name = "N")]
    pub secret_fd: Option<u32>,
    /// Use the client definition of this name
    #[arg(long, value_name = "NAME", conflicts_with = "client_file", add = candidates::client_names())]
    pub client: Option<String>,
    /// Use this client definition
    #[arg(long, value_name = "FILE")]
    pub client_file: Option<PathBuf>,
    /// Use this image instead of the definition's: NAME[:TAG] of a registry, oci:DIR, oci-archive:FILE,
    /// docker-archive:FILE, packages:DISTRIBUTION/SUITE?PACKAGE, tar:FILE or dir:ROOTFS
    #[arg(long, value_name = "REF", add = candidates::images())]
    pub image: Option<String>,
    /// Run the client in this running container: NAME or LABEL=VALUE, optionally prefixed by docker:, podman: or containerd:
    #[arg(long, value_name = "CONTAINER", conflicts_with = "image")]
    pub container: Option<String>,
    /// Where the client runs: in a sandbox (container), from its image with all rights of root (chroot), in a running container (exec), or
    /// not at all, but mount(8) is used (host); auto: host if this host has a helper for the type. Default: what the client's definition
    /// says, else container
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(Mode::NAMES).try_map(|name| name.parse::<Mode>()))]
    pub mode: Option<Mode>,
    /// Mount on top of an existing mount of Shorefast's
    #[arg(long)]
    pub over: bool,
    /// Never use the network: use only images that are in the store
    #[arg(long)]
    pub offline: bool,
    /// Print the plan as JSON and do nothing; needs no root
    #[arg(long)]
    pub dry_run: bool,
    /// Print a systemd unit that makes this mount, and do nothing; it needs /sbin/mount.TYPE (`install --helpers`)
    #[arg(long, conflicts_with_all = ["client", "client_file", "image", "container", "mode", "dry_run", "secret_file", "secret_fd"])]
    pub unit: bool,
    #[command(flatten)]
    pub timeout: Timeout,
    /// Give up getting the image after this time, such as 5m; default: no limit. --timeout counts from when the image is there
    #[arg(long, value_name = "TIME", value_parser = timeout::parse)]
    pub image_timeout: Option<humantime::Duration>,
    /// What to mount, in the client's syntax: host:/path, //host/share, bucket, a directory
    pub source: OsString,
    /// The directory to mount it at
    pub target: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOption {
    Type,
    Options,
    SecretFile,
    SecretFd,
    Client,
    ClientFile,
    Image,
    Container,
    Mode,
    Over,
    Offline,
    DryRun,
    Unit,
    ImageTimeout,
}

pub const OPTIONS: &[Spelling<MountOption>] = &[
    Spelling::value(MountOption::Type, Some('t'), Some("type")),
    Spelling::values(MountOption::Options, Some('o'), Some("options")),
    Spelling::value(MountOption::SecretFile, None, Some("secret-file")),
    Spelling::value(MountOption::SecretFd, None, Some("secret-fd")),
    Spelling::value(MountOption::Client, None, Some("client")),
    Spelling::value(MountOption::ClientFile, None, Some("client-file")),
    Spelling::value(MountOption::Image, None, Some("image")),
    Spelling::value(MountOption::Container, None, Some("container")),
    Spelling::value(MountOption::Mode, None, Some("mode")),
    Spelling::flag(MountOption::Over, None, Some("over")),
    Spelling::flag(MountOption::Offline, None, Some("offline")),
    Spelling::flag(MountOption::DryRun, None, Some("dry-run")),
    Spelling::flag(MountOption::Unit, None, Some("unit")),
    Spelling::value(MountOption::ImageTimeout, None, Some("image-timeout")),
];

/// `[--root DIR …] mount [OPTIONS] SOURCE TARGET`, without the program's name. Common options may come before the command.
pub fn read(arguments: &[OsString]) -> Result<(Places, MountArguments), Problem> {
    let (mut mount, mut operands) = (MountArguments::default(), Vec::new());
    let mut reader = Reader::new(arguments, OPTIONS, Repeated::Refused);
    while let Some(word) = reader.next_word()? {
        match word {
            Word::Operand(operand) => operands.push(operand),
            Word::Flag(_) | Word::Valued(..) if operands.is_empty() => {
                return Err(Problem::Wrong("options of the mount come after the word `mount`".to_owned()));
            }
            Word::Flag(MountOption::Over) => mount.over = true,
            Word::Flag(MountOption::Offline) => mount.offline = true,
            Word::Flag(MountOption::DryRun) => mount.dry_run = true,
            Word::Flag(MountOption::Unit) => mount.unit = true,
            Word::Valued(MountOption::Type, value) => mount.fstype = Some(value.text()?),
            Word::Valued(MountOption::Options, value) => mount.options.push(value.text()?),
            Word::Valued(MountOption::SecretFile, value) => mount.secret_file = Some(value.path()?),
            Word::Valued(MountOption::SecretFd, value) => mount.secret_fd = Some(value.read(str::parse)?),
            Word::Valued(MountOption::Client, value) => mount.client = Some(value.text()?),
            Word::Valued(MountOption::ClientFile, value) => mount.client_file = Some(value.path()?),
            Word::Valued(MountOption::Image, value) => mount.image = Some(value.text()?),
            Word::Valued(MountOption::Container, value) => mount.container = Some(value.text()?),
            Word::Valued(MountOption::Mode, value) => mount.mode = Some(value.read(str::parse)?),
            Word::Valued(MountOption::ImageTimeout, value) => mount.image_timeout = Some(value.read(timeout::parse)?),
            Word::Flag(option) | Word::Valued(option, _) => unreachable!("{option:?} is in the table as it is matched"),
        }
    }
    (mount.source, mount.target) = match <[OsString; 3]>::try_from(operands) {
        Ok([_, _, target]) if target.is_empty() => return Err(Problem::Wrong("the target is empty".to_owned())),
        Ok([_, source, target]) => (source, target.into()),
        Err(words) if words.len() < 3 => return Err(Problem::Wrong("a source and a target are needed".to_owned())),
        Err(words) => return Err(Problem::Wrong(format!("one source and one target are needed, and {:?} is more", words[3]))),
    };
    let places;
    (places, mount.timeout) = reader.finish()?;
    mount.refuse_conflicts()?;
    Ok((places, mount))
}

impl MountArguments {
    fn given(&self) -> [(&'static str, bool); 9] {
        [
            ("secret-file", self.secret_file.is_some()),
            ("secret-fd", self.secret_fd.is_some()),
            ("client", self.client.is_some()),
            ("client-file", self.client_file.is_some()),
            ("image", self.image.is_some()),
            ("container", self.container.is_some()),
            ("mode", self.mode.is_some()),
            ("dry-run", self.dry_run),
            ("unit", self.unit),
        ]
    }

    fn refuse_conflicts(&self) -> Result<(), Problem> {
        let given = self.given();
        let is_given = |name: &&str| given.iter().any(|(known, is_given)| known == name && *is_given);
        match CONFLICTS.iter().find(|(one, other)| is_given(one) && is_given(other)) {
            Some((one, other)) => Err(Problem::Wrong(format!("--{one} and --{other} cannot be used together"))),
            None => Ok(()),
        }
    }
}

/// As clap's definition says it.
const CONFLICTS: &[(&str, &str)] = &[
    ("secret-file", "secret-fd"),
    ("client", "client-file"),
    ("container", "image"),
    ("unit", "client"),
    ("unit", "client-file"),
    ("unit", "image"),
    ("unit", "container"),
    ("unit", "mode"),
    ("unit", "dry-run"),
    ("unit", "secret-file"),
    ("unit", "secret-fd"),
];

#[cfg(test)]
pub fn compare_with(command: &clap::Command) {
    crate::front::words::knows_what_clap_knows(OPTIONS, command);
    let mut conflicts = Vec::new();
    for argument in command.get_arguments() {
        let others = command.get_arg_conflicts_with(argument).into_iter().filter_map(|other| other.get_long());
        conflicts.extend(others.map(|other| [argument.get_long().unwrap_or_default(), other]));
    }
    let mut ours: Vec<_> = CONFLICTS.iter().map(|(one, other)| [*one, *other]).collect();
    for pairs in [&mut conflicts, &mut ours] {
        pairs.iter_mut().for_each(|pair| pair.sort_unstable());
        pairs.sort_unstable();
        pairs.dedup();
    }
    assert_eq!(ours, conflicts);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<(Places, MountArguments), Problem> {
        read(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn every_option_arrives() {
        let line = "--root /r mount -t nfs -o ro,vers=3 --options=soft --secret-fd 5 --client c --image i --mode chroot --over --offline --dry-run \
                    --image-timeout 5m --timeout 7 h:/ --run-dir=/x /mnt";
        let (places, mount) = parse(&line.split_ascii_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!((places.root.to_str(), places.run_dir.to_str()), (Some("/r"), Some("/x")));
        assert_eq!((mount.fstype.as_deref(), mount.options.join(" ").as_str()), (Some("nfs"), "ro,vers=3 soft"));
        assert_eq!((mount.secret_fd, mount.client.as_deref(), mount.image.as_deref()), (Some(5), Some("c"), Some("i")));
        assert_eq!((mount.mode, mount.over, mount.offline, mount.dry_run, mount.unit), (Some(Mode::Chroot), true, true, true, false));
        assert_eq!(mount.image_timeout.map(|time| time.as_secs()), Some(300));
        assert_eq!((mount.timeout.limit().as_secs(), mount.source.to_str(), mount.target.to_str()), (7, Some("h:/"), Some("/mnt")));
        let (_, mount) = parse(&["mount", "--secret-file", "-", "--client-file=/c", "--container", "x", "-", "b"]).unwrap();
        assert_eq!((mount.secret_file, mount.client_file), (Some("-".into()), Some("/c".into())));
        assert_eq!((mount.container.as_deref(), mount.source.to_str()), (Some("x"), Some("-")));
        assert!(parse(&["mount", "--unit", "a", "b"]).unwrap().1.unit);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let rows: &[(&[&str], &str)] = &[
            (&["mount", "a"], "a source and a target"),
            (&["mount", "a", "b", "c"], "\"c\" is more"),
            (&["mount", "a", ""], "the target is empty"),
            (&["-t", "nfs", "mount", "a", "b"], "after the word `mount`"),
            (&["mount", "-t", "nfs", "-t", "cifs", "a", "b"], "-t is given more than once"),
            (&["mount", "-t", "-o", "a", "b"], "-t needs a value"),
            (&["mount", "--nosuch", "a", "b"], "no option --nosuch"),
            (&["mount", "--timeout", "0", "a", "b"], "--timeout"),
            (&["mount", "--mode", "none", "a", "b"], "--mode"),
            (&["mount", "--secret-fd", "x", "a", "b"], "--secret-fd"),
            (&["mount", "--client-file=/c.toml", "--client", "c", "a", "b"], "--client and --client-file cannot be used together"),
            (&["mount", "--unit", "--dry-run", "a", "b"], "--unit and --dry-run"),
        ];
        for (line, expected) in rows {
            match parse(line) {
                Err(Problem::Wrong(why)) => assert!(why.contains(expected), "{line:?}: {why}"),
                other => panic!("{line:?}: {other:?}"),
            }
        }
    }
}

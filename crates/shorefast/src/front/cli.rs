//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use shorefast_engine::mode::Mode;
use shorefast_engine::plan::{self, Context};
use shorefast_engine::record::Records;
use shorefast_engine::request::{ClientChoice, Request};
use shorefast_engine::unmount::{self, Manner, Way};
use shorefast_engine::{Error, reconcile};
use shorefast_image::store::Network;
use shorefast_sandbox::Nest;

use crate::front::client::{self as client_front, ClientArguments};
use crate::front::demo::{self, DemoArguments, Surroundings};
use crate::front::doctor::{self, DoctorArguments};
use crate::front::image::{self, ImageArguments};
use crate::front::install::{self, InstallArguments, UninstallArguments};
use crate::front::mount_unit;
use crate::front::patience::Patience;
use crate::front::places::{self, Places};
use crate::front::show::{self, print};
use crate::report;

/// Runs any mount client from a container image, without any privilege; the mount appears on the
/// host as if the client were installed there.
#[derive(Debug, Parser)]
#[command(name = "shorefast", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    places: Places,
    #[command(subcommand)]
    command: Command,
}

/// The same for `mount`, without that word: what counts microseconds does not wait until the definitions of all commands are
/// built. Whatever it cannot read, [`Cli`] has the last word on.
#[derive(Debug, Parser)]
#[command(name = "shorefast")]
struct MountOnly {
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    arguments: MountArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mount SOURCE at TARGET through a client from an image
    Mount(MountArguments),
    /// Unmount, end the client, and leave nothing behind
    Umount(UmountArguments),
    /// Show all mounts; never waits for a server
    List {
        /// A JSON array of {id, target, source, fstype, client, image, digest, mode, pid, state, since}
        #[arg(long)]
        json: bool,
    },
    /// Show all that is known about one mount
    Inspect {
        #[arg(long)]
        json: bool,
        target: PathBuf,
    },
    /// Show what a mount's client has printed (the newest 64 KiB)
    Logs {
        /// Go on showing until the mount ends
        #[arg(short, long)]
        follow: bool,
        target: PathBuf,
    },
    /// Get, show and remove client images
    Image(ImageArguments),
    /// Show and check client definitions
    Client(ClientArguments),
    /// Mount a throw-away server, look at what runs, and clean up: a first look at everything
    Demo(DemoArguments),
    /// Clean up after killed processes and ended mounts
    Reconcile {
        #[arg(long)]
        json: bool,
    },
    /// Put Shorefast where kubelet, mount(8) and systemd find it; again, to upgrade
    Install(InstallArguments),
    /// Remove what `install` has made, and nothing else; live mounts go on
    Uninstall(UninstallArguments),
    /// Look for what is missing on this host, and say what to do about it
    Doctor(DoctorArguments),
}

#[derive(Debug, Args)]
struct MountArguments {
    /// The filesystem type; default: the first type of the chosen client
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    fstype: Option<String>,
    /// Mount options, separated by commas; may be given more than once
    #[arg(short, long, value_name = "OPTIONS")]
    options: Vec<String>,
    /// The secret (a password, a key) is in this file; `-` reads standard input, a pipe will do. The client gets it in a file of
    /// its own, as its definition says
    #[arg(long, value_name = "FILE", conflicts_with = "secret_fd")]
    secret_file: Option<PathBuf>,
    /// The same from a descriptor that the caller left open
    #[arg(long, value_name = "N")]
    secret_fd: Option<u32>,
    /// Use the client definition of this name
    #[arg(long, value_name = "NAME", conflicts_with = "client_file")]
    client: Option<String>,
    /// Use this client definition
    #[arg(long, value_name = "FILE")]
    client_file: Option<PathBuf>,
    /// Use this image instead of the definition's: NAME[:TAG] of a registry, oci:DIR, oci-archive:FILE,
    /// docker-archive:FILE, packages:DISTRIBUTION/SUITE?PACKAGE, tar:FILE or dir:ROOTFS
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// Run the client in this container, which runs already: NAME or LABEL=VALUE, and before it, if it matters, docker:,
    /// podman: or containerd:
    #[arg(long, value_name = "CONTAINER", conflicts_with = "image")]
    container: Option<String>,
    /// Where the client runs: in a sandbox (container), from its image with all rights of root (chroot), in a container that runs
    /// already (exec), or not at all but by mount(8)
    /// (host); auto: host if this host has a helper for the type. Default: what the client's definition says, else container
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(Mode::NAMES).try_map(|name| name.parse::<Mode>()))]
    mode: Option<Mode>,
    /// Never ask the network: use only images that are here
    #[arg(long)]
    offline: bool,
    /// Print the plan as JSON and do nothing; needs no root
    #[arg(long)]
    dry_run: bool,
    /// Print a systemd unit that makes this mount, and do nothing; it needs /sbin/mount.TYPE (`install --helpers`)
    #[arg(long, conflicts_with_all = ["client", "client_file", "image", "container", "mode", "dry_run", "secret_file", "secret_fd"])]
    unit: bool,
    #[command(flatten)]
    patience: Patience,
    /// What to mount, as the client wants it: host:/path, //host/share, bucket, a directory
    source: OsString,
    /// The directory to mount it at
    target: PathBuf,
}

#[derive(Debug, Args)]
struct UmountArguments {
    /// Detach now, end when nobody uses it any more
    #[arg(short, long, conflicts_with = "force")]
    lazy: bool,
    /// Whatever it takes: users of the mount get errors
    #[arg(short, long)]
    force: bool,
    #[arg(required = true)]
    targets: Vec<PathBuf>,
}

pub fn run(arguments: Vec<OsString>) -> Result<ExitCode, Error> {
    // Before anything else: the sandbox is set up on another processor while we read on here.
    let word = mount_word(&arguments);
    let nest = word.and_then(|_| shorefast_engine::mount::prepare().ok());
    run_on(arguments, word, nest)
}

/// Apart: until the sandbox is started, not more of the stack is touched than needed.
#[inline(never)]
fn run_on(arguments: Vec<OsString>, word: Option<usize>, nest: Option<Nest>) -> Result<ExitCode, Error> {
    if let (Some(word), Some(_)) = (word, &nest)
        && let Some(MountOnly { places, arguments }) = mount_only(&arguments, word)
    {
        return mount(arguments, &places, nest);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no mistakes; everything else is mount(8)'s usage error.
            let _ = error.print();
            return Ok(ExitCode::from(u8::from(error.use_stderr())));
        }
    };
    let records = Records::at(&cli.places.run_dir);
    let store = cli.places.store();
    match cli.command {
        Command::Mount(arguments) => return mount(arguments, &cli.places, nest),
        Command::Image(arguments) => return image::run(arguments, &store, &records),
        Command::Client(arguments) => return client_front::run(arguments, &cli.places),
        Command::Demo(arguments) => {
            return Ok(demo::run(&arguments, &Surroundings { places: &cli.places, images: store }));
        }
        Command::Install(arguments) => return Ok(install::install(&arguments, &cli.places)),
        Command::Uninstall(arguments) => return Ok(install::uninstall(&arguments)),
        Command::Doctor(arguments) => return Ok(doctor::run(arguments, &cli.places)),
        Command::Umount(arguments) => return Ok(umount(&arguments, &records)),
        Command::List { json } => print(&show::list(&records, json)?),
        Command::Inspect { json, target } => print(&show::inspect(&records, &target, json)?),
        Command::Logs { follow, target } => show::logs(&records, &target, follow)?,
        Command::Reconcile { json } => {
            require_root()?;
            print(&show::reconciled(&reconcile::all(&records, &store)?, json));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the command is named, if it is `mount`, and not one that only says something. A good guess is enough: a nest that nobody
/// needs is thrown away.
fn mount_word(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(option) = arguments.get(at)?.as_encoded_bytes().strip_prefix(b"--") {
        // What may stand before a command has a value.
        at += if option.contains(&b'=') { 1 } else { 2 };
    }
    let says = |word: &OsString| ["--dry-run", "--unit", "--help", "-h"].iter().any(|only| word == only);
    (arguments.get(at)? == "mount" && !arguments.iter().any(says)).then_some(at)
}

fn mount_only(arguments: &[OsString], word: usize) -> Option<MountOnly> {
    // Left behind: to take a definition of a command line apart takes as long as to make it.
    let command = Box::leak(Box::new(MountOnly::command()));
    let mut matches = command.try_get_matches_from_mut(arguments[..word].iter().chain(&arguments[word + 1..])).ok()?;
    MountOnly::from_arg_matches_mut(&mut matches).ok()
}

fn mount(arguments: MountArguments, places: &Places, nest: Option<Nest>) -> Result<ExitCode, Error> {
    let request = Request {
        fstype: arguments.fstype,
        source: arguments.source,
        target: arguments.target,
        options: arguments.options.join(","),
        secret: secret_place(arguments.secret_file, arguments.secret_fd),
        flags: Vec::new(),
        client: match (arguments.client, arguments.client_file) {
            (_, Some(file)) => ClientChoice::File(file),
            (Some(name), None) => ClientChoice::Named(name),
            (None, None) => ClientChoice::ByType,
        },
        image: arguments.image,
        container: arguments.container,
        mode: arguments.mode,
        name_servers: None,
        namespace: None,
        timeout: arguments.patience.limit(),
    };
    if arguments.unit {
        return mount_unit::write(&request);
    }
    let plan = plan::make(&request, &Context { configuration: places.configuration()?, owner: places::owner() })?;
    if arguments.dry_run {
        print(&format!("{:#}\n", plan.to_json()));
        return Ok(ExitCode::SUCCESS);
    }
    let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
    let nest = nest.map_or_else(shorefast_engine::mount::prepare, Ok)?;
    shorefast_engine::mount::mount(&plan, &places.host(network), nest)?;
    Ok(ExitCode::SUCCESS)
}

/// Read where the client is launched, and only there: a plan holds no secret.
fn secret_place(file: Option<PathBuf>, descriptor: Option<u32>) -> Option<PathBuf> {
    let descriptor = if file.as_deref() == Some(Path::new("-")) { Some(0) } else { descriptor };
    descriptor.map(|number| format!("/proc/self/fd/{number}").into()).or(file)
}

fn umount(arguments: &UmountArguments, records: &Records) -> ExitCode {
    let manner = match (arguments.lazy, arguments.force) {
        (true, _) => Manner::Lazy,
        (_, true) => Manner::Force,
        _ => Manner::Polite,
    };
    // Each target is tried; the first failure decides the exit code.
    let mut result = ExitCode::SUCCESS;
    for target in &arguments.targets {
        match require_root().and_then(|()| unmount::unmount(records, target, manner)) {
            Ok(way) => say_how(target, manner, way),
            Err(error) => {
                let code = report::failure(&error);
                result = if result == ExitCode::SUCCESS { code } else { result };
            }
        }
    }
    result
}

/// Silent when it went as asked.
fn say_how(target: &Path, manner: Manner, way: Way) {
    let how = match way {
        Way::Polite => return,
        Way::Forced => "by force: what was not written yet is lost",
        Way::Lazy if manner == Manner::Lazy => return,
        Way::Lazy => "lazily: the kernel ends it when its server answers or is given up",
    };
    eprintln!("shorefast: {} did not end in time and was unmounted {how}", target.display());
}

fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_is_found_where_a_command_can_be() {
        let rows: &[(&[&str], Option<usize>)] = &[
            (&["shorefast", "mount", "a", "b"], Some(1)),
            (&["shorefast", "--root", "/r", "mount", "a", "b"], Some(3)),
            (&["shorefast", "--root=/r", "mount", "a", "b"], Some(2)),
            (&["shorefast", "--root", "mount", "mount", "a", "b"], Some(3)),
            (&["shorefast", "--root", "mount", "list"], None),
            (&["shorefast", "umount", "mount", "b"], None),
            (&["shorefast", "-h", "mount"], None),
            (&["shorefast", "mount", "--dry-run", "a", "b"], None),
            (&["shorefast", "--root"], None),
            (&["shorefast"], None),
        ];
        for (words, expected) in rows {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert_eq!(mount_word(&words), *expected, "{words:?}");
        }
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        let rows: &[&[&str]] = &[
            &["shorefast", "mount", "a", "b"],
            &["shorefast", "--root", "/r", "mount", "-t", "nfs", "-o", "ro,vers=3", "--run-dir=/x", "h:/", "/mnt"],
            &["shorefast", "mount", "--client-image", "nfs=dir:/i", "--timeout", "5s", "--", "-a", "mount"],
            &["shorefast", "mount", "a"],
            &["shorefast", "mount", "--nosuch", "a", "b"],
        ];
        for words in rows {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            let short = mount_only(&words, mount_word(&words).unwrap());
            let long = Cli::try_parse_from(&words).ok();
            let short = short.map(|MountOnly { places, arguments }| format!("{places:?} {arguments:?}"));
            let long = long.map(|cli| match cli.command {
                Command::Mount(arguments) => format!("{:?} {arguments:?}", cli.places),
                other => panic!("{other:?}"),
            });
            assert_eq!(short, long, "{words:?}");
        }
    }
}

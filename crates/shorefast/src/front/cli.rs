//! In: a command line. Out: an exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context};
use shorefast_engine::records::Records;
use shorefast_engine::request::{ClientChoice, Existing, Request};
use shorefast_engine::unmount::{self, Manner, Way};
use shorefast_engine::{Error, reconcile};
use shorefast_image::store::Network;

use crate::front::client::{self as client_front, ClientArguments};
use crate::front::demo::{self, DemoArguments, Surroundings};
use crate::front::doctor::{self, DoctorArguments};
use crate::front::fast_args;
use crate::front::image::{self, ImageArguments};
use crate::front::install::{self, InstallArguments, UninstallArguments};
use crate::front::mount_unit;
use crate::front::mount_words::MountArguments;
use crate::front::places::{self, Places};
use crate::front::show;
use crate::report;
use crate::report::print;

/// Runs any mount client from a container image, without any privilege; the mount appears on the host as if the client were installed
/// there.
#[derive(Debug, Parser)]
#[command(name = "shorefast", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    places: Places,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mount SOURCE at TARGET through a client from an image
    Mount(MountArguments),
    /// Unmount, end the client, and leave nothing behind
    Umount(UmountArguments),
    /// Show all mounts; never waits for a server
    List {
        /// A JSON array of {id, target, source, fstype, client, image, digest, mode, pid, state, covered, namespace, since}
        #[arg(long)]
        json: bool,
    },
    /// Show everything that is known about one mount
    Inspect {
        #[arg(long)]
        json: bool,
        target: PathBuf,
    },
    /// Show what a mount's client has printed (the newest 64 KiB)
    Logs {
        /// Continue until the mount ends
        #[arg(short, long)]
        follow: bool,
        target: PathBuf,
    },
    /// Get, show and remove client images
    Image(ImageArguments),
    /// Show and check client definitions
    Client(ClientArguments),
    /// Mount from a temporary server, show what runs, and clean up: an introduction
    Demo(DemoArguments),
    /// Clean up after killed processes and ended mounts
    Reconcile {
        #[arg(long)]
        json: bool,
    },
    /// Install Shorefast for kubelet, mount(8) and systemd; run it again to upgrade
    Install(InstallArguments),
    /// Remove what `install` has installed, and nothing else; live mounts continue
    Uninstall(UninstallArguments),
    /// Check what is missing on this host, and show what to do about it
    Doctor(DoctorArguments),
}

#[derive(Debug, Args)]
struct UmountArguments {
    /// Detach now; the mount ends when it is no longer in use
    #[arg(short, long, conflicts_with = "force")]
    lazy: bool,
    /// Unmount in any case: users of the mount get errors
    #[arg(short, long)]
    force: bool,
    #[arg(required = true)]
    targets: Vec<PathBuf>,
}

pub fn run(arguments: Vec<OsString>) -> Result<ExitCode, Error> {
    // First of all: the sandbox is set up on another CPU while arguments are parsed here.
    let mounter = mounts(&arguments).then(Mounter::prepare);
    run_on(arguments, mounter)
}

/// Separate from `run`: until the sandbox is started, touch no more of the stack than needed.
#[inline(never)]
fn run_on(arguments: Vec<OsString>, mounter: Option<Mounter>) -> Result<ExitCode, Error> {
    if mounter.is_some()
        && let Some((places, arguments)) = fast_args::mount(&arguments)
    {
        return mount(arguments, &places, mounter);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; everything else is mount(8)'s usage error.
            let _ = error.print();
            return Ok(ExitCode::from(u8::from(error.use_stderr())));
        }
    };
    let records = Records::at(&cli.places.run_dir);
    let store = cli.places.store();
    match cli.command {
        Command::Mount(arguments) => return mount(arguments, &cli.places, mounter),
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

/// Whether the command is `mount`, and one that really mounts. A good guess is enough: a sandbox that is not needed is discarded.
fn mounts(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1);
    let command = loop {
        let Some(word) = words.next() else { return false };
        match word.as_encoded_bytes().strip_prefix(b"--") {
            // Options before the command all take a value.
            Some(option) if option.contains(&b'=') => {}
            Some(_) => drop(words.next()),
            None => break word,
        }
    };
    let says = |word: &OsString| ["--dry-run", "--unit", "--help", "-h"].iter().any(|only| word == only);
    command == "mount" && !arguments.iter().any(says)
}

fn mount(arguments: MountArguments, places: &Places, mounter: Option<Mounter>) -> Result<ExitCode, Error> {
    let request = Request {
        fstype: arguments.fstype,
        options: arguments.options.join(","),
        secret: secret_place(arguments.secret_file, arguments.secret_fd),
        client: match (arguments.client, arguments.client_file) {
            (_, Some(file)) => ClientChoice::File(file),
            (Some(name), None) => ClientChoice::Named(name),
            (None, None) => ClientChoice::ByType,
        },
        image: arguments.image,
        container: arguments.container,
        mode: arguments.mode,
        existing: if arguments.over { Existing::Cover } else { Existing::Refuse },
        timeout: arguments.timeout.limit(),
        ..Request::new(arguments.source, arguments.target)
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
    mounter.unwrap_or_else(Mounter::prepare).mount(&plan, &places.host(network))?;
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

/// Silent when the unmount went as requested.
fn say_how(target: &Path, manner: Manner, way: Way) {
    let how = match way {
        Way::Polite => return,
        Way::Forced => "by force: what was not written yet is lost",
        Way::Lazy if manner == Manner::Lazy => return,
        Way::Lazy => "lazily: the kernel ends it when its server answers or is given up",
    };
    report::say(&format!("shorefast: {} did not end in time and was unmounted {how}", target.display()));
}

fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn mount_is_found_where_a_command_can_be() {
        let rows: &[(&[&str], bool)] = &[
            (&["shorefast", "mount", "a", "b"], true),
            (&["shorefast", "--root", "/r", "mount", "a", "b"], true),
            (&["shorefast", "--root=/r", "mount", "a", "b"], true),
            (&["shorefast", "--root", "mount", "mount", "a", "b"], true),
            (&["shorefast", "--root", "mount", "list"], false),
            (&["shorefast", "umount", "mount", "b"], false),
            (&["shorefast", "-h", "mount"], false),
            (&["shorefast", "mount", "--dry-run", "a", "b"], false),
            (&["shorefast", "--root"], false),
            (&["shorefast"], false),
        ];
        for (words, expected) in rows {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert_eq!(mounts(&words), *expected, "{words:?}");
        }
    }

    #[test]
    fn the_short_way_knows_every_variable() {
        let mut cli = Cli::command();
        cli.build();
        let mount = cli.find_subcommand("mount").unwrap();
        let mut variables: Vec<_> = mount.get_arguments().filter_map(|argument| argument.get_env()).collect();
        // This one is removed before anything is parsed.
        variables.retain(|name| *name != crate::front::enter_host::VARIABLE);
        variables.sort();
        assert_eq!(variables, fast_args::VARIABLES);
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        // Whether the fast parser accepts it, and the arguments.
        let rows: &[(bool, &[&str])] = &[
            (true, &["mount", "a", "b"]),
            (true, &["mount", "-t", "nfs", "-o", "ro,vers=3", "-o", "soft", "h:/", "/mnt"]),
            (true, &["--root", "/r", "--run-dir=/x", "mount", "-tnfs", "-oro", "h:/", "/mnt"]),
            (true, &["mount", "-t=nfs", "a", "--options=ro", "--", "-b"]),
            (true, &["mount", "--type=nfs", "--", "-a", "b"]),
            (true, &["mount", "-o", "a=b", "-", "b"]),
            (true, &["mount", "--timeout", "5s", "--", "-a", "mount"]),
            (true, &["mount", "--image", "dir:/i", "--client-file=/c.toml", "a", "b"]),
            (false, &["mount", "--client-file=/c.toml", "--client", "c", "a", "b"]),
            (false, &["mount", "--client-image", "nfs=dir:/i", "--", "-a", "mount"]),
            (false, &["mount", "--timeout", "0", "a", "b"]),
            (false, &["mount", "--timeout=1s", "--timeout=1s", "a", "b"]),
            (false, &["mount", "a"]),
            (false, &["mount", "a", "b", "c"]),
            (false, &["mount", "a", ""]),
            (false, &["mount", "-t", "nfs", "-t", "cifs", "a", "b"]),
            (false, &["mount", "-t", "-o", "a", "b"]),
            (false, &["mount", "-t", "", "a", "b"]),
            (false, &["mount", "-xo", "a", "b"]),
            (false, &["mount", "--offline", "a", "b"]),
            (false, &["mount", "--nosuch", "a", "b"]),
            (true, &["mount", "--root", "/r", "a", "b"]),
            (false, &["--root", "", "mount", "a", "b"]),
            (false, &["--root", "/r", "--root", "/s", "mount", "a", "b"]),
            (false, &["--image", "dir:/i", "mount", "a", "b"]),
            (false, &["-t", "nfs", "mount", "a", "b"]),
            (false, &["list", "a", "b"]),
        ];
        for (is_short, words) in rows {
            let words: Vec<_> = ["shorefast"].iter().chain(*words).map(OsString::from).collect();
            let short = fast_args::mount(&words).map(|(places, arguments)| format!("{places:?} {arguments:?}"));
            let long = Cli::try_parse_from(&words).ok().and_then(|cli| match cli.command {
                Command::Mount(arguments) => Some(format!("{:?} {arguments:?}", cli.places)),
                _ => None,
            });
            assert_eq!(short.is_some(), *is_short, "{words:?}");
            assert!(short.is_none() || short == long, "{words:?}: {short:?}, {long:?}");
        }
    }
}

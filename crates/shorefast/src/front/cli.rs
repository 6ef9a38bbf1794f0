//! In: a command line. Out: an exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context, Plan};
use shorefast_engine::records::Records;
use shorefast_engine::request::{ClientChoice, Existing, Request};
use shorefast_engine::unmount::{self, Manner, Way};
use shorefast_engine::{Error, publish, reconcile};
use shorefast_image::store::Network;

use crate::front::candidates;
use crate::front::client::{self as client_front, ClientArguments};
use crate::front::demo::{self, DemoArguments, Surroundings};
use crate::front::doctor::{self, DoctorArguments};
use crate::front::examples;
use crate::front::image::{self, ImageArguments};
use crate::front::install::{self, InstallArguments, UninstallArguments};
use crate::front::logs::{self, LogsArguments};
use crate::front::mount_unit;
use crate::front::mount_words::{self, MountArguments};
use crate::front::places::{self, Places};
use crate::front::serve::{self, ServeArguments};
use crate::front::show;
use crate::front::spelling::Problem;
use crate::front::upgrade::{self, UpgradeArguments};
use crate::report;
use crate::report::print;

/// Runs any mount client from a container image, without any privilege; the mount appears on the host as if the client were installed
/// there.
#[derive(Debug, Parser)]
#[command(name = "shorefast", version, max_term_width = 100, after_long_help = examples::OF_SHOREFAST)]
pub struct Cli {
    #[command(flatten)]
    places: Places,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mount SOURCE at TARGET through a client from an image
    #[command(after_long_help = examples::OF_MOUNT)]
    Mount(MountArguments),
    /// Unmount, end the client, and leave nothing behind
    #[command(after_long_help = examples::OF_UMOUNT)]
    Umount(UmountArguments),
    /// Replace the clients of live mounts by the current image and definition, without interrupting the mounts' users
    #[command(after_long_help = examples::OF_UPGRADE)]
    Upgrade(UpgradeArguments),
    /// Show all mounts; never waits for a server
    #[command(after_long_help = examples::OF_LIST)]
    List {
        /// Also show the last mounts that ended or failed: at most 100, of the last seven days, since the host was started
        #[arg(short, long)]
        all: bool,
        /// With --all: only those that ended since this time (2026-11-18T20:00:00Z, UTC), or within this duration (10m, 2h, 1day)
        #[arg(long, value_name = "TIME", value_parser = logs::parse_time, requires = "all")]
        since: Option<u64>,
        /// A JSON array of {id, target, source, fstype, client, image, digest, mode, pid, state, covered, namespace, since}
        #[arg(long)]
        json: bool,
    },
    /// Show everything that is known about one mount, or about the last one there if it has ended or failed
    #[command(after_long_help = examples::OF_INSPECT)]
    Inspect {
        /// A JSON object: the row of `list --json`, and more
        #[arg(long)]
        json: bool,
        /// Where it is or was mounted, or its id
        #[arg(add = candidates::targets())]
        target: PathBuf,
    },
    /// Show what a mount's client has printed (the newest 64 KiB), also of one that has ended or failed
    #[command(after_long_help = examples::OF_LOGS)]
    Logs(LogsArguments),
    /// Get, show and remove client images
    #[command(after_long_help = examples::OF_IMAGES)]
    Image(ImageArguments),
    /// Show and check client definitions
    #[command(after_long_help = examples::OF_CLIENTS)]
    Client(ClientArguments),
    /// Mount from a temporary server, show what runs, and clean up: an introduction
    #[command(after_long_help = examples::OF_DEMO)]
    Demo(DemoArguments),
    /// Clean up after killed processes and ended mounts
    #[command(after_long_help = examples::OF_RECONCILE)]
    Reconcile {
        /// A JSON object of lists: {abandoned, ended, dead, adopted, set_aside, cgroups}
        #[arg(long)]
        json: bool,
    },
    /// Install Shorefast for kubelet, mount(8) and systemd; run it again to upgrade
    #[command(after_long_help = examples::OF_INSTALL)]
    Install(InstallArguments),
    /// Remove what `install` has installed, and nothing else; live mounts continue
    #[command(after_long_help = examples::OF_UNINSTALL)]
    Uninstall(UninstallArguments),
    /// Serve volumes to Kubernetes, until SIGTERM; volumes outlive it
    #[command(after_long_help = examples::OF_SERVE)]
    Serve(ServeArguments),
    /// Check what is missing on this host, and show what to do about it
    #[command(after_long_help = examples::OF_DOCTOR)]
    Doctor(DoctorArguments),
    /// Print a script that completes command lines: types, clients, images and mounts of this host
    #[command(after_long_help = examples::OF_COMPLETIONS)]
    Completions {
        /// The shell that reads it
        #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
        shell: String,
    },
}

#[derive(Debug, Args)]
struct UmountArguments {
    /// Detach now; the mount ends when it is no longer in use
    #[arg(short, long, conflicts_with = "force")]
    lazy: bool,
    /// Unmount in any case: processes that use the mount get errors
    #[arg(short, long)]
    force: bool,
    /// Where something is mounted, or the ids of mounts
    #[arg(value_name = "TARGET", required = true, add = candidates::targets())]
    targets: Vec<PathBuf>,
}

pub fn run(arguments: Vec<OsString>) -> Result<ExitCode, Error> {
    match called(&arguments) {
        Called::Mount => {
            // First of all: the sandbox is set up on another CPU while arguments are parsed here.
            let mounter = Mounter::prepare();
            read_and_mount(&arguments, Some(mounter))
        }
        Called::Show => read_and_mount(&arguments, None),
        Called::Other => run_other(arguments),
    }
}

/// Separate from `run`: until the sandbox is started, touch no more of the stack than needed.
#[inline(never)]
fn read_and_mount(arguments: &[OsString], mounter: Option<Mounter>) -> Result<ExitCode, Error> {
    match mount_words::read(arguments.get(1..).unwrap_or_default()) {
        Ok((places, arguments)) => mount(arguments, &places, mounter),
        Err(problem) => Ok(report_problem(problem)),
    }
}

#[inline(never)]
fn report_problem(problem: Problem) -> ExitCode {
    let mut cli = Cli::command();
    cli.build();
    let mount = cli.find_subcommand("mount").expect("it is in the definition").clone();
    problem.report(mount.no_binary_name(true))
}

#[inline(never)]
fn run_other(arguments: Vec<OsString>) -> Result<ExitCode, Error> {
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
        Command::Mount(_) => unreachable!("the words of a mount are read by front::mount_words"),
        Command::Image(arguments) => return image::run(arguments, &cli.places),
        Command::Client(arguments) => return client_front::run(arguments, &cli.places),
        Command::Demo(arguments) => {
            return Ok(demo::run(&arguments, &Surroundings { places: &cli.places, images: store }));
        }
        Command::Install(arguments) => return Ok(install::install(&arguments, &cli.places)),
        Command::Uninstall(arguments) => return Ok(install::uninstall(&arguments, &cli.places)),
        Command::Serve(arguments) => return serve::run(arguments, &cli.places),
        Command::Doctor(arguments) => return Ok(doctor::run(arguments, &cli.places)),
        Command::Completions { shell } => return Ok(completions(&shell)),
        Command::Upgrade(arguments) => {
            require_root()?;
            return upgrade::run(&arguments, &cli.places, &records);
        }
        Command::Umount(arguments) => return Ok(umount(&arguments, &records)),
        Command::List { all, since, json } => {
            let which = if all { show::Which::All { since: since.unwrap_or(0) } } else { show::Which::Live };
            print(&show::list(&records, which, json).map_err(needs_root)?);
        }
        Command::Inspect { json, target } => print(&show::inspect(&records, &target, json).map_err(needs_root)?),
        Command::Logs(arguments) => logs::run(&records, &arguments).map_err(needs_root)?,
        Command::Reconcile { json } => {
            require_root()?;
            publish::forget_stale(&records);
            print(&show::reconciled(&reconcile::all(&records, &store)?, json));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn completions(shell: &str) -> ExitCode {
    match candidates::script(shell) {
        Some(script) => {
            print(&script);
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Called {
    Mount,
    /// A mount command that only shows something. A good guess is enough: a sandbox that is not needed is discarded.
    Show,
    Other,
}

fn called(arguments: &[OsString]) -> Called {
    let mut words = arguments.iter().skip(1);
    let command = loop {
        let Some(word) = words.next() else { return Called::Other };
        match word.as_encoded_bytes().strip_prefix(b"--") {
            // Options before the command all take a value.
            Some(option) if option.contains(&b'=') => {}
            Some(_) => drop(words.next()),
            None => break word,
        }
    };
    let says = |word: &OsString| ["--dry-run", "--unit", "--help", "-h"].iter().any(|only| word == only);
    match command == "mount" {
        true if arguments.iter().any(says) => Called::Show,
        true => Called::Mount,
        false => Called::Other,
    }
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
        image_timeout: arguments.image_timeout.map(Into::into),
        ..Request::new(arguments.source, arguments.target)
    };
    if arguments.unit {
        return mount_unit::write(&request, &places.configuration()?);
    }
    let plan = plan::make(&request, &Context { configuration: places.configuration()?, owner: places::owner() })?;
    if arguments.dry_run {
        print(&format!("{:#}\n", plan.to_json()));
        return Ok(ExitCode::SUCCESS);
    }
    let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
    let mounted = mounter.unwrap_or_else(Mounter::prepare).mount(&plan, &places.host(network));
    mounted.inspect_err(|_| say_what_was_meant(&plan))?;
    Ok(ExitCode::SUCCESS)
}

/// Only where the mount failed: clients have options that resemble those of the definition.
fn say_what_was_meant(plan: &Plan) {
    let Plan::Client(plan) = plan else { return };
    for (given, meant) in plan.doubtful_options() {
        report::say(&format!("shorefast: the option {given} is not known to the definition of {}; did you mean {meant}?", plan.client));
    }
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
        Way::Forced => "by force: data that was not written yet is lost",
        Way::Lazy if manner == Manner::Lazy => return,
        Way::Lazy => "lazily: the kernel ends it when its server answers or is given up",
    };
    report::say(&format!("shorefast: {} did not end in time and was unmounted {how}", target.display()));
}

/// A file that only root can read is not an error.
fn needs_root(error: Error) -> Error {
    match error {
        Error::Record { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied && require_root().is_err() => Error::NotRoot,
        other => other,
    }
}

fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    #[test]
    fn mount_is_found_where_a_command_can_be() {
        let rows: &[(&[&str], Called)] = &[
            (&["shorefast", "mount", "a", "b"], Called::Mount),
            (&["shorefast", "--root", "/r", "mount", "a", "b"], Called::Mount),
            (&["shorefast", "--root=/r", "mount", "a", "b"], Called::Mount),
            (&["shorefast", "--root", "mount", "mount", "a", "b"], Called::Mount),
            (&["shorefast", "--root", "mount", "list"], Called::Other),
            (&["shorefast", "umount", "mount", "b"], Called::Other),
            (&["shorefast", "-h", "mount"], Called::Other),
            (&["shorefast", "mount", "--dry-run", "a", "b"], Called::Show),
            (&["shorefast", "mount", "--help"], Called::Show),
            (&["shorefast", "--root"], Called::Other),
            (&["shorefast"], Called::Other),
        ];
        for (line, expected) in rows {
            assert_eq!(called(&words(line)), *expected, "{line:?}");
        }
    }

    #[test]
    fn every_word_is_described() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|argument| !["help", "version"].contains(&argument.get_id().as_str())) {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn help_and_parser_know_the_same_options_variables_and_conflicts() {
        let mut cli = Cli::command();
        cli.build();
        mount_words::compare_with(cli.find_subcommand("mount").unwrap());
    }

    /// The parser never leaves an error to clap, which also has a definition of `mount`.
    #[test]
    fn clap_finds_a_mount_only_where_the_parser_does() {
        let lines: &[&[&str]] = &[
            &["shorefast", "--", "mount", "a", "b"],
            &["shorefast", "--root", "/r", "--", "mount", "a", "b"],
            &["shorefast", "--root", "", "mount", "a", "b"],
            &["shorefast", "--root=", "mount", "a", "b"],
            &["shorefast", "--version", "mount", "a", "b"],
            &["shorefast", "-t", "nfs", "mount", "a", "b"],
            &["shorefast", "--client-image", "a=b", "--clients", "/x", "mount", "a", "b"],
        ];
        for line in lines {
            let is_mount = Cli::try_parse_from(*line).is_ok_and(|cli| matches!(cli.command, Command::Mount(_)));
            assert!(!is_mount || called(&words(line)) != Called::Other, "{line:?}");
        }
    }
}

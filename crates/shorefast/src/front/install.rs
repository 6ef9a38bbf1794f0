//! `shorefast install` and `shorefast uninstall`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use shorefast_engine::configuration::{self, DIRECTORY, Sources};
use shorefast_engine::records::Records;
use shorefast_engine::{Error as EngineError, client, list, purge};
use shorefast_image::Store;
use shorefast_install::wish::{Csi, Definitions, Docker, Kubelet, Systemd};
use shorefast_install::{Error, HostRoot, Wish, install, place, uninstall};
use shorefast_sys::signals::Termination;

use crate::front::candidates;
use crate::front::image::size;
use crate::front::places::Places;
use crate::report;
use crate::report::print;

#[derive(Debug, Args)]
pub struct InstallArguments {
    /// Where to install the program; default: where it is installed already, or the first suitable of /usr/local/lib/shorefast,
    /// /opt/shorefast, /var/lib/shorefast/bin, /home/kubernetes/shorefast
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Also install a mounter for kubelet's --experimental-mounter-path
    #[arg(long)]
    kubelet: bool,
    /// Also install /sbin/mount.TYPE and umount.TYPE, which mount(8) and fstab use
    #[arg(long, value_name = "TYPE", value_delimiter = ',', add = candidates::types())]
    helpers: Vec<String>,
    /// Also install and enable systemd units: one cleans up at boot after an unclean shutdown, one gives the images a separate mount
    #[arg(long)]
    systemd: bool,
    /// Also install and enable a systemd unit that is the CSI driver of this node, for clusters that should not depend on a pod for it
    #[arg(long)]
    csi: bool,
    /// Also install and enable the volume plugin for Docker and Podman: systemd units with socket activation
    #[arg(long)]
    docker: bool,
    /// Also copy the client definitions of this directory, such as a mounted ConfigMap, to the host's; those that are gone from it are
    /// removed
    #[arg(long, value_name = "DIR")]
    clients_from: Option<PathBuf>,
    /// Where the host's root directory is visible, if not at /
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
    /// Keep running: repair the installation, and follow the directory of definitions, until terminated
    #[arg(long, conflicts_with = "dry_run")]
    follow: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct UninstallArguments {
    /// Where the program is; default: searched where `install` puts it
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Where the host's root directory is visible, if not at /
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
    /// Also remove images, downloads, what clients remember and records; refused while anything is mounted
    #[arg(long, conflicts_with = "dry_run")]
    purge: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Written by administrators: never removed.
const SETTINGS: &str = "/etc/shorefast";

/// Check intervals: of the directory of definitions, and of everything that is installed.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_CLOSELY: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Install(#[from] Error),
    #[error(transparent)]
    Definition(#[from] EngineError),
    #[error("cannot read the running program")]
    Binary(#[source] std::io::Error),
    #[error("cannot listen for termination signals")]
    Signals(#[source] shorefast_sys::Error),
}

impl Problem {
    fn report(&self) -> String {
        let hint = match self {
            Self::Install(error) => error.hint(),
            Self::Definition(error) => error.hint(),
            Self::Binary(_) | Self::Signals(_) => None,
        };
        report::chain(self, hint)
    }

    fn exit_code(&self) -> ExitCode {
        let kind = match self {
            Self::Install(Error::NotAType { .. } | Error::NotInstalled { .. }) => shorefast_engine::Kind::Usage,
            Self::Definition(EngineError::UnknownType { .. }) => shorefast_engine::Kind::Usage,
            Self::Definition(error) => error.kind(),
            _ => shorefast_engine::Kind::Internal,
        };
        ExitCode::from(report::exit_code(kind))
    }
}

pub fn install(arguments: &InstallArguments, places: &Places) -> ExitCode {
    // Of several directories the first is the host's.
    let clients = places.clients.first().map_or(Path::new(DIRECTORY), PathBuf::as_path);
    let done = if arguments.follow { follow(arguments, clients) } else { once(arguments, clients) };
    conclude(done)
}

pub fn uninstall(arguments: &UninstallArguments, places: &Places) -> ExitCode {
    conclude(remove(arguments, places))
}

fn conclude(done: Result<(), Problem>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            report::say(&problem.report());
            problem.exit_code()
        }
    }
}

fn once(arguments: &InstallArguments, clients: &Path) -> Result<(), Problem> {
    let definitions = arguments.clients_from.as_deref().map(|directory| definitions(directory, clients)).transpose()?;
    let host = HostRoot::at(&arguments.host_root);
    refuse_unknown_types(arguments, clients, &host)?;
    let wish = wish(arguments, definitions, &host)?;
    let plan = install::plan(&wish, &host)?;
    let lines = plan.lines();
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    if !arguments.dry_run && !plan.is_empty() {
        plan.carry_out(&host)?;
    }
    if arguments.dry_run {
        print("nothing was done: this was a dry run\n");
    } else if !arguments.follow {
        print(&next_steps(&wish));
    }
    Ok(())
}

/// mount.TYPE of a type that no client lists would fail at every mount.
fn refuse_unknown_types(arguments: &InstallArguments, clients: &Path, host: &HostRoot) -> Result<(), EngineError> {
    if arguments.helpers.is_empty() {
        return Ok(());
    }
    let directories = [Some(host.see(clients)), arguments.clients_from.clone()].into_iter().flatten().collect();
    let configuration = configuration::read(&Sources { directories, ..Sources::default() })?;
    arguments.helpers.iter().try_for_each(|fstype| client::by_type(fstype, &configuration).map(drop))
}

/// A problem is reported once, and again when it changes; the last good state stays in force meanwhile.
fn follow(arguments: &InstallArguments, clients: &Path) -> Result<(), Problem> {
    let termination = Termination::listen().map_err(Problem::Signals)?;
    let (mut seen, mut said, mut due) = (None, String::new(), Instant::now());
    loop {
        let now = arguments.clients_from.as_deref().map(read_all);
        if seen.as_ref() != Some(&now) || Instant::now() >= due {
            let problem = once(arguments, clients).err().map_or_else(String::new, |problem| problem.report());
            if problem != said && !problem.is_empty() {
                report::say(&problem);
            }
            (seen, said, due) = (Some(now), problem, Instant::now() + LOOK_CLOSELY);
        }
        if termination.comes_within(LOOK) {
            return Ok(());
        }
    }
}

fn wish(arguments: &InstallArguments, definitions: Option<Definitions>, host: &HostRoot) -> Result<Wish, Problem> {
    let directory = place::choose(host, arguments.to.as_deref())?;
    let command = place::command(host, &directory.join("shorefast"))?.filter(|_| arguments.to.is_none());
    // For shells, as the command is: a host without users has neither.
    let is_for_people = command.is_some() && place::unfit(host, place::MANUAL.as_ref()).is_none();
    Ok(Wish {
        manual: if is_for_people { manual() } else { Vec::new() },
        directory,
        binary: fs::read("/proc/self/exe").map_err(Problem::Binary)?,
        command,
        kubelet: if arguments.kubelet { Kubelet::Mounter } else { Kubelet::Nothing },
        helpers: arguments.helpers.clone(),
        systemd: if arguments.systemd { Systemd::Units } else { Systemd::Nothing },
        csi: if arguments.csi { Csi::Service } else { Csi::Nothing },
        docker: if arguments.docker { Docker::Plugin } else { Docker::Nothing },
        definitions,
    })
}

/// Man pages and completions, embedded by `build.rs`.
const MANUAL: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/manual.rs"));

fn manual() -> Vec<(PathBuf, &'static [u8])> {
    let place = |name: &str| match name.rsplit_once('.') {
        Some((_, section @ ("1" | "5"))) => Path::new("man").join(format!("man{section}")).join(name),
        Some((_, "bash")) => "bash-completion/completions/shorefast".into(),
        Some((_, "fish")) => Path::new("fish/vendor_completions.d").join(name),
        _ => Path::new("zsh/site-functions").join(name),
    };
    MANUAL.iter().map(|(name, bytes)| (place(name), *bytes)).collect()
}

/// All are checked before one is installed: a set with an error changes nothing.
fn definitions(from: &Path, clients: &Path) -> Result<Definitions, EngineError> {
    let unreadable = |file: &Path| {
        let file = file.to_owned();
        move |source| EngineError::DefinitionUnreadable { file, source }
    };
    let configuration = configuration::read(&Sources { directories: vec![from.to_owned()], ..Sources::default() })?;
    configuration.names().into_iter().try_for_each(|name| client::named(name, &configuration).map(drop))?;
    let mut files = Vec::new();
    for file in names(from).map_err(unreadable(from))? {
        let bytes = fs::read(&file).map_err(unreadable(&file))?;
        files.push((file.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes));
    }
    Ok(Definitions { directory: clients.to_owned(), files })
}

/// Client files and the short form's two keys: a mounted ConfigMap also has directories whose names begin with a dot.
fn names(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    const SHORT_FORM: [&str; 2] = ["volume-plugin", "docker-container"];
    let paths: Vec<_> = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    let is_definition = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.ends_with(".toml") && !name.starts_with('.') || SHORT_FORM.contains(&&*name)) && path.is_file()
    };
    let mut files: Vec<_> = paths.into_iter().filter(is_definition).collect();
    files.sort();
    Ok(files)
}

/// Only for change detection.
fn read_all(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let names = names(directory).unwrap_or_default();
    names.into_iter().map(|file| (file.clone(), fs::read(file).ok())).collect()
}

fn next_steps(wish: &Wish) -> String {
    let mut text = format!("installed: {}\n", wish.program().display());
    if wish.kubelet == Kubelet::Mounter {
        text += &format!("next: start kubelet with --experimental-mounter-path={}\n", wish.directory.join("mounter").display());
    }
    if wish.systemd == Systemd::Units {
        text += "next: systemctl daemon-reload && systemctl start var-lib-shorefast.mount\n";
    }
    if wish.csi == Csi::Service {
        text += "next: systemctl daemon-reload && systemctl start shorefast-csi.service; kubectl apply -k deploy/kubernetes/csi/driver\n";
    }
    if wish.docker == Docker::Plugin {
        text += "next: systemctl daemon-reload && systemctl start shorefast-docker.socket\n";
        text += &format!("      without systemd: {} serve --docker &\n", wish.program().display());
    }
    text
}

fn remove(arguments: &UninstallArguments, places: &Places) -> Result<(), Problem> {
    let host = HostRoot::at(&arguments.host_root);
    let (root, records) = (host.see(&places.root), Records::at(host.see(&places.run_dir)));
    let store = Store::at(&root);
    if arguments.purge {
        // First: it is refused while anything is mounted, and then nothing happens.
        purge::all(&records, &store, &root)?;
    }
    let plan = uninstall::plan(&host, arguments.to.as_deref())?;
    print(&plan.lines(&host)?.iter().map(|line| format!("{line}\n")).collect::<String>());
    if arguments.dry_run {
        print("nothing was done: this was a dry run\n");
        return Ok(());
    }
    let removed = plan.carry_out(&host);
    print(&what_stays(places, &host, &store, &records));
    Ok(removed?)
}

/// One line, or none.
fn what_stays(places: &Places, host: &HostRoot, store: &Store, records: &Records) -> String {
    let mut stays = Vec::new();
    let live = list::all(records).map_or(0, |listing| listing.mounts.len());
    if live > 0 {
        stays.push(format!("{live} live mounts"));
    }
    if host.see(&places.root).exists() {
        let bytes: u64 = store.list().into_iter().flatten().map(|(image, _)| image.size).sum();
        let what = format!("images ({}) and what clients remember in {}", size(bytes), places.root.display());
        stays.push(format!("{what} (`uninstall --purge` removes them)"));
    }
    if host.see(Path::new(SETTINGS)).exists() {
        stays.push(format!("the configuration in {SETTINGS}"));
    }
    if stays.is_empty() { String::new() } else { format!("stays: {}\n", stays.join("; ")) }
}

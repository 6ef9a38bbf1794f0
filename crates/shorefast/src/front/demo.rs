//! `shorefast demo`: a first mount, through the real pipeline, from a temporary server.
//!
//! Everything that must be undone belongs to another process ([`server`]), which undoes it when this one is gone: after Ctrl-C, a kill, or
//! its regular end.

pub mod server;
pub mod failure;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use shorefast_engine::record;
use shorefast_engine::records::Records;
use shorefast_engine::{Error, client};
use shorefast_image::Store;
use shorefast_image::store::Network;
use shorefast_sandbox::spec::Ids;
use shorefast_sys::process_scan::ProcessScan;

use crate::front::demo::failure::{Failure, failed};
use crate::front::demo::server::{Ready, SERVER_IMAGE};
use crate::front::places::Places;
use crate::report::print;

#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Keep the mount and its server for trying things out; `umount` ends both
    #[arg(long)]
    keep: bool,
    /// Never use the network; the images must be in the store
    #[arg(long)]
    offline: bool,
}

/// Paths and arguments that the demo needs.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub places: &'a Places,
    pub images: Store,
}

pub fn run(arguments: &DemoArguments, around: &Surroundings<'_>) -> ExitCode {
    show(arguments, around).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn show(arguments: &DemoArguments, around: &Surroundings<'_>) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot.into());
    }
    let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
    get_images(around, network)?;
    let mut server = Server::start(around)?;
    let ready = server.ready()?;
    print(&format!("2. server    sshd in a sandbox, on 127.0.0.1:{}, as uid {}\n", ready.port, ready.uid));
    mount(&server, &ready, around)?;
    use_it(&ready)?;
    show_processes(&ready, around)?;
    if arguments.keep {
        server.keep()?;
        print(&format!("\nkept: look into {0}; `umount {0}` ends the mount, the client and the server\n", ready.target.display()));
        return Ok(());
    }
    // What umount(8) does, which not every host has.
    rustix::mount::unmount(&ready.target, rustix::mount::UnmountFlags::NOFOLLOW).map_err(|errno| failed("cannot unmount", errno.into()))?;
    server.end()?;
    check_nothing_left(&ready, around)?;
    print(&format!("6. $ umount {}\n             nothing is left: no mount, no process, no file\n", ready.target.display()));
    Ok(())
}

/// Both, so that the time shown later is that of a mount and not of a download.
fn get_images(around: &Surroundings<'_>, network: Network) -> Result<(), Failure> {
    let start = Instant::now();
    let client = client::by_type("sshfs", &around.places.configuration()?)?;
    let image = client.definition.image.ok_or(Error::NoImage { client: client.name })?;
    for reference in [image.as_str(), SERVER_IMAGE] {
        around.images.obtain(&reference.parse()?, &[], network)?;
    }
    print(&format!("1. images    {image}\n             {SERVER_IMAGE}\n             ready after {}\n", shown(start.elapsed())));
    Ok(())
}

/// The process that runs the server and cleans up. Dropping it closes the lifeline.
struct Server {
    process: Child,
    /// The demo goes on as long as the other end of this pipe is open.
    lifeline: Option<ChildStdin>,
}

impl Server {
    fn start(around: &Surroundings<'_>) -> Result<Self, Failure> {
        let mut process = Command::new(own_binary())
            .arg(server::COMMAND)
            .args([&around.places.run_dir, &around.places.root])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not inherited: a reader that waits for EOF on our stderr must not wait for that process.
            .stderr(Stdio::piped())
            // A separate process group: Ctrl-C at the terminal is for us only.
            .process_group(0)
            .spawn()
            .map_err(|source| failed("cannot start the server's process", source))?;
        let lifeline = process.stdin.take();
        Ok(Self { process, lifeline })
    }

    fn ready(&mut self) -> Result<Ready, Failure> {
        let output = self.process.stdout.take().ok_or_else(|| failed("the server's process", std::io::ErrorKind::BrokenPipe.into()))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(|source| failed("cannot read from the server's process", source))?;
        serde_json::from_str(&line).map_err(|_| {
            let mut said = String::new();
            // Unreadable output counts as empty.
            let _ = self.process.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
            failed("the server did not start", std::io::Error::other(said.trim_end().to_owned()))
        })
    }

    fn keep(mut self) -> Result<(), Failure> {
        use std::io::Write as _;
        let said = self.lifeline.as_mut().map_or(Ok(()), |lifeline| lifeline.write_all(server::KEEP));
        said.map_err(|source| failed("cannot tell the server to stay", source))
    }

    fn end(mut self) -> Result<(), Failure> {
        drop(self.lifeline.take());
        self.process.wait().map(drop).map_err(|source| failed("cannot wait for the server", source))
    }
}

fn mount(server: &Server, ready: &Ready, around: &Surroundings<'_>) -> Result<(), Failure> {
    let (key, known_hosts) = (ready.key.display(), ready.known_hosts.display());
    let options = format!("port={},IdentityFile={key},UserKnownHostsFile={known_hosts}", ready.port);
    let source = format!("{}@127.0.0.1:{}", server::USER, server::SHARE);
    print(&format!("3. $ shorefast mount -t sshfs -o {options} {source} {}\n", ready.target.display()));
    let places = around.places;
    let clients = places.clients.iter().map(|directory| directory.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":"));
    let mut command = Command::new(own_binary());
    command.arg("--run-dir").arg(&places.run_dir).arg("--root").arg(&places.root).arg("--clients").arg(clients);
    command.args(["mount", "--offline", "-t", "sshfs", "-o", &options, &source]).arg(&ready.target);
    // It holds the lifeline too: no cleanup starts while it still mounts.
    let lifeline = server.lifeline.as_ref().map(|lifeline| std::os::fd::AsFd::as_fd(lifeline).try_clone_to_owned()).transpose();
    command.stdin(lifeline.ok().flatten().map_or_else(Stdio::null, Stdio::from));
    let start = Instant::now();
    let status = command.status().map_err(|source| failed("cannot start the mount", source))?;
    if !status.success() {
        return Err(failed("the mount failed (see the message above)", std::io::ErrorKind::Other.into()));
    }
    print(&format!("             mounted in {}, most of which is the ssh login\n", shown(start.elapsed())));
    Ok(())
}

fn use_it(ready: &Ready) -> Result<(), Failure> {
    let text = "hello from the host\n";
    let file = ready.target.join("hello");
    fs::write(&file, text).map_err(|source| failed("cannot write through the mount", source))?;
    let on_server = Path::new("/proc").join(ready.pid.to_string()).join(format!("root{}/hello", server::SHARE));
    let arrived = fs::read_to_string(&on_server).map_err(|source| failed("cannot read on the server", source))?;
    let back = fs::read_to_string(&file).map_err(|source| failed("cannot read through the mount", source))?;
    if arrived != text || back != text {
        return Err(failed("what was written did not arrive", std::io::ErrorKind::InvalidData.into()));
    }
    print(&format!("4. $ echo {} > {}\n             the server has it, and it reads back the same\n", text.trim_end(), file.display()));
    Ok(())
}

fn show_processes(ready: &Ready, around: &Surroundings<'_>) -> Result<(), Failure> {
    let records = Records::at(&around.places.run_dir).all()?;
    let client = records.iter().find(|record| record.target == ready.target).and_then(|record| record::ids_of(&record.id));
    print("5. what runs, as whom, with which rights (none):\n");
    let parts = [("client", client), ("server", record::ids_of(&ready.id))];
    for (part, ids) in parts.into_iter().filter_map(|(part, ids)| Some((part, ids?))) {
        for process in processes_of(ids) {
            print(&format!("             {part}  {process}\n"));
        }
    }
    Ok(())
}

/// One line for each process of a sandbox.
fn processes_of(ids: Ids) -> Vec<String> {
    let describe = |pid: String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        let uid = field("Uid:").split_ascii_whitespace().next()?.parse().ok().filter(|uid| ids.contain(*uid))?;
        let (effective, bounding) = (field("CapEff:"), field("CapBnd:"));
        Some(format!(
            "{:15} pid {pid:<8} uid {uid}  CapEff {effective}  CapBnd {bounding}  NoNewPrivs {}  Seccomp {}",
            field("Name:"),
            field("NoNewPrivs:"),
            field("Seccomp:")
        ))
    };
    ProcessScan::start().map(|pid| pid.as_raw_nonzero().to_string()).filter_map(describe).collect()
}

fn check_nothing_left(ready: &Ready, around: &Surroundings<'_>) -> Result<(), Failure> {
    let gone = || {
        let no_mount = !fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| table.contains(&*ready.target.to_string_lossy()));
        let no_files = ready.target.parent().is_some_and(|directory| !directory.exists());
        let no_processes = record::ids_of(&ready.id).is_none_or(|ids| processes_of(ids).is_empty());
        let no_record =
            Records::at(&around.places.run_dir).all().is_ok_and(|records| records.iter().all(|record| record.target != ready.target));
        no_mount && no_files && no_processes && no_record
    };
    // The keeper learns of the unmount from the kernel and needs a moment.
    let timeout = Instant::now() + Duration::from_secs(10);
    while Instant::now() < timeout {
        if gone() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(failed("something was left behind: `shorefast reconcile` shows what", std::io::ErrorKind::Other.into()))
}

fn own_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into())
}

fn shown(time: Duration) -> String {
    if time < Duration::from_secs(2) { format!("{} ms", time.as_millis()) } else { format!("{:.1} s", time.as_secs_f64()) }
}

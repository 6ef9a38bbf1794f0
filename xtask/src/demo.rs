//! `cargo xtask demo`: a newcomer's first mount. A throw-away SSH server, an sshfs that is not installed but comes from an image,
//! and a look at what runs where with which privileges.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use shorefast_tests::client::Request;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Way};

use crate::{apt, cache, images, process};

/// How the harness finds the binary that it should run.
const BINARY: &str = "SHOREFAST_BIN";

pub(crate) fn run() -> Result<()> {
    if std::env::var_os(BINARY).is_some() {
        return show();
    }
    get_ready()?;
    let binary = std::path::absolute("target/release/shorefast").context("no current directory")?;
    let program = std::env::current_exe().context("a program knows its own path")?;
    process::show(Command::new(program).arg("demo").env(BINARY, binary))
}

fn get_ready() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "mounting needs root: run this as root");
    eprintln!("getting ready: packages, an image with sshfs, the binary (the first time takes a few minutes)");
    let cache = cache::directory()?;
    let lock = cache::lock(&cache)?;
    apt::ensure_installed(&["ca-certificates", "iproute2", "mmdebstrap", "openssh-server", "util-linux"])?;
    images::build(images::named("sshfs"), &cache.join("images"))?;
    drop(lock);
    process::run(Command::new("cargo").args(["build", "--quiet", "--release", "--package=shorefast"]))
}

fn show() -> Result<()> {
    // A mount and network namespace of our own: nothing of this is left when we end, however we end.
    let host = Host::new().context("this machine does not let us make namespaces")?;
    let server = Sshd::start(&host);
    fs::write(server.share.join("hello"), "hello from the server\n").context("cannot write on the server")?;
    let target = host.directory("demo");
    let client = Client::named("sshfs");
    let request = Request::new(&client, "sshfs", server.source(), &target).options(server.options());
    let words = request.arguments(Way::Directory, &[]);
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    println!("$ shorefast {}", shown.join(" "));
    let start = Instant::now();
    host.shorefast(&words).succeeds();
    println!("mounted in {:.0} ms\n", start.elapsed().as_secs_f64() * 1e3);

    println!("$ shorefast list\n{}", host.shorefast(&["list"]).succeeds().stdout);
    print!("$ cat {}/hello\n{}", target.display(), fs::read_to_string(target.join("hello")).context("cannot read through the mount")?);
    fs::write(target.join("reply"), "hello from the host\n").context("cannot write through the mount")?;
    print!("$ cat {}/reply    # on the server\n{}", server.share.display(), fs::read_to_string(server.share.join("reply"))?);
    println!("\nwhat runs, as whom, with which capabilities:");
    for process in host.sandboxed() {
        println!("  {}", describe(process.pid)?);
    }
    println!("\n$ umount {}", target.display());
    process::run(Command::new("umount").arg(&target))?;
    host.assert_nothing_left();
    println!("nothing is left: no process, no mount, no record");
    Ok(())
}

fn describe(pid: u32) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    let uid = field("Uid:").split_ascii_whitespace().next().unwrap_or_default().to_owned();
    Ok(format!(
        "{:8} pid {pid:<7} uid {uid}  CapEff {}  CapBnd {}  NoNewPrivs {}",
        field("Name:"),
        field("CapEff:"),
        field("CapBnd:"),
        field("NoNewPrivs:")
    ))
}

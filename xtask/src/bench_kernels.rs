//! `cargo xtask bench-kernels`: how fast filesystems that the kernel serves are mounted on each guest kernel, beside the natively
//! installed client, in turns. In: the static release. Out: a table in Markdown; the goal is 1.1 times the native client.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use shorefast_tests::Host;
use shorefast_tests::client::store;
use shorefast_tests::servers::{Nfsd, Samba, nfsd, samba};

use crate::guest::Guest;
use crate::kernels::{self, KERNELS};
use crate::{matrix, setup, static_binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; in each round both ways mount once
    #[arg(long, default_value_t = 60)]
    n: usize,
    /// Only these kernels, such as 6.12; can be given several times
    #[arg(short, long)]
    kernel: Vec<String>,
    /// Measure this binary, and do not build the static release
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How the bench calls itself in a guest
    #[arg(long, hide = true)]
    inside: bool,
}

const GUEST_SECONDS: u32 = 900;
const GOAL: f64 = 1.1;
/// What starts a client cannot cost less.
static NOTHING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nothing"));

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.inside {
        return measure(args.n).map(|()| ExitCode::SUCCESS);
    }
    setup::run()?;
    kernels::run()?;
    let binary = args.binary.clone().map_or_else(static_binary::build, Ok)?;
    let binary = fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?;
    matrix::make_images()?;
    let ourselves = std::env::current_exe().context("cannot find our own program")?;
    println!("| kernel | what | native p50 (p99) | shorefast p50 (p99) | ratio of p50 | goal ≤ {GOAL} |\n|---|---|---|---|---|---|");
    for kernel in KERNELS.iter().filter(|kernel| args.kernel.is_empty() || args.kernel.iter().any(|one| one == kernel.version)) {
        // cargo sets LD_LIBRARY_PATH, which would slow down native clients: the linker looks there first, in vain.
        let (ours, binary) = (ourselves.display().to_string(), format!("SHOREFAST_BIN={}", binary.display()));
        let words = ["env", "--unset=LD_LIBRARY_PATH", &binary, &ours, "bench-kernels", "--inside", "--n"];
        let command: Vec<_> = words.iter().map(|word| (*word).to_owned()).chain([args.n.to_string()]).collect();
        let guest = Guest { kernel: kernel.version, memory: "1536M", timeout_seconds: GUEST_SECONDS };
        let status = guest.run(&command, |line| print!("| {} {}", kernel.version, String::from_utf8_lossy(line)))?;
        ensure!(status == Some(0), "the bench failed on {}", kernel.version);
    }
    Ok(ExitCode::SUCCESS)
}

/// Something to mount, in both ways.
struct Case<'a> {
    what: &'a str,
    fstype: &'a str,
    source: String,
    options: &'a str,
}

fn measure(n: usize) -> Result<()> {
    let host = Host::new().context("the bench runs where the tests do")?;
    // A guest in user mode takes its time for every new process, page and system call, of which we have more than the native client.
    let nothing = host.file("nothing", NOTHING);
    fs::set_permissions(&nothing, Permissions::from_mode(0o755)).context("cannot chmod a program")?;
    for (what, program) in [("`true`, for comparison", Path::new("true")), ("a program that does nothing", &nothing)] {
        let starts = (0..n).map(|_| timed(&mut Command::new(program))).collect::<Result<Vec<_>>>()?;
        println!("| {what} | {:.1} ({:.1}) ms | | | |", percentile(&starts, 50), percentile(&starts, 99));
    }
    let server = Nfsd::start(&host);
    host.offer_packages();
    let target = host.directory("target");
    let (root, share) = (format!("{}:/", nfsd::ADDRESS), format!("{}:{}", nfsd::ADDRESS, server.share.display()));
    compare(&host, &Case { what: "NFS 4.2", fstype: "nfs", source: root, options: "vers=4.2" }, &target, n)?;
    // Both ways find the services running, as on a host that has such a mount.
    let kept = host.directory("kept");
    let case = Case { what: "NFS 3, services running", fstype: "nfs", source: share, options: "vers=3" };
    sandboxed(&host, &case, &kept)?;
    compare(&host, &case, &target, n)?;
    run_quietly(Command::new(host.binary()).arg("umount").arg(&kept))?;

    let server = Samba::start(&host);
    let credentials = host.file("credentials", format!("username=root\npassword={}\n", samba::PASSWORD));
    let options = format!("credentials={}", credentials.display());
    compare(&host, &Case { what: "CIFS 3.1.1", fstype: "cifs", source: server.source(), options: &options }, &target, n)
}

fn compare(host: &Host, case: &Case<'_>, target: &Path, n: usize) -> Result<()> {
    // The first of each makes images and fills caches.
    let (mut native, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=n {
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                native.push(natively(case, target)?);
                run_quietly(Command::new("umount").arg(target))?;
            } else {
                ours.push(sandboxed(host, case, target)?);
                run_quietly(Command::new(host.binary()).arg("umount").arg(target))?;
            }
        }
    }
    let (native, ours) = (&native[1..], &ours[1..]);
    let ratio = percentile(ours, 50) / percentile(native, 50);
    let verdict = if ratio <= GOAL { "met" } else { "missed" };
    let both = |values: &[f64]| format!("{:.1} ({:.1}) ms", percentile(values, 50), percentile(values, 99));
    println!("| {} | {} | {} | {ratio:.2} | {verdict} |", case.what, both(native), both(ours));
    Ok(())
}

fn natively(case: &Case<'_>, target: &Path) -> Result<f64> {
    timed(Command::new(format!("mount.{}", case.fstype)).args([
        case.source.as_ref(),
        target.as_os_str(),
        OsStr::new("-o"),
        case.options.as_ref(),
    ]))
}

fn sandboxed(host: &Host, case: &Case<'_>, target: &Path) -> Result<f64> {
    let mut command = Command::new(host.binary());
    command.arg("--root").arg(store()).args(["mount", "-t", case.fstype, "-o", case.options, &case.source]).arg(target);
    timed(&mut command)
}

/// In milliseconds.
fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    run_quietly(command)?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

fn run_quietly(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

//! In: a call made inside a container, and the host's /proc as the container sees it. Out: the same call executed on the host, with its
//! exit code. A containerized kubelet or node agent can mount this way, and its exit or restart does not disturb the mounts.
//!
//! This program enters the namespaces of the host's pid 1, leaves the caller's cgroups, and executes itself again there from a memfd: no
//! process that lives on pins the container, and no file of the container is used by it.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use shorefast_sandbox::cgroup;
use shorefast_sys as sys;
use sys::call;
use sys::process::{Fork, Fresh};

use crate::error::Error;
use crate::text;

/// Exit code of the call on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(pub u8);

/// In this order: `mnt` comes last, because until then paths resolve in the container.
const NAMESPACES: &[&str] = &["cgroup", "ipc", "uts", "net", "mnt"];

/// How long the program runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// For one call. What it leaves behind does not end with the container.
    OneCall,
    /// Until the container ends: a server, whose workers leave the container's control groups by themselves.
    OfTheContainer,
}

/// Runs this program with `arguments` on the host. `None`: this is the host.
pub fn go(host_proc: &Path, arguments: &[OsString], environment: Vec<(OsString, OsString)>, life: Life) -> Result<Option<ExitCode>, Error> {
    let fail = |source| Error::HostProc { path: host_proc.to_owned(), source };
    let first = host_proc.join("1/ns");
    let inode = |path: PathBuf| call(|| format!("stat({path:?})"), std::fs::metadata(&path).map(|metadata| metadata.ino())).map_err(fail);
    let is_the_hosts = |kind: &str| Ok::<_, Error>(inode(first.join(kind))? == inode(Path::new("/proc/self/ns").join(kind))?);
    if is_the_hosts("mnt")? {
        return Ok(None);
    }
    for kind in ["pid", "user"] {
        // setns(2) cannot leave these; and a process in a container's pid namespace is killed with the container.
        if !is_the_hosts(kind)? {
            return Err(Error::HostOutOfReach { kind });
        }
    }
    let program = copy_of_this_program().map_err(fail)?;
    let namespaces: Vec<_> = NAMESPACES.iter().map(|kind| open(&first.join(kind))).collect::<sys::Result<_>>().map_err(fail)?;
    let join_all = || namespaces.iter().try_for_each(|namespace| sys::namespace::join(namespace.as_fd()));
    if life == Life::OfTheContainer {
        // The container's own process goes there: its runtime's signals reach it, and it ends with the container.
        let Err(error) = join_all().and_then(|()| start_anew(&program, arguments, environment));
        return Err(fail(error));
    }
    match sys::process::fork(Fresh::empty()).map_err(fail)? {
        Fork::Child => {
            let code = match join_all() {
                Ok(()) => cgroup::run_outside_callers(|| {
                    let Err(error) = start_anew(&program, arguments, environment);
                    explain(&error)
                }),
                Err(error) => explain(&error),
            };
            sys::process::exit_now(code.into())
        }
        Fork::Parent(child) => {
            // Killed by a signal: reported to the caller as a system error.
            Ok(Some(ExitCode(child.wait().map_err(fail)?.unwrap_or(2))))
        }
    }
}

/// At this point an error can only go to the caller's terminal or log.
fn explain(error: &sys::Error) -> u8 {
    eprintln!("shorefast: cannot get to the host: {}", text::printable(&error.to_string()));
    2
}

fn start_anew(program: &OwnedFd, arguments: &[OsString], environment: Vec<(OsString, OsString)>) -> sys::Result<Infallible> {
    call(|| "chdir(\"/\")".into(), rustix::process::chdir("/"))?;
    let arguments: Vec<CString> = arguments.iter().map(sys::c_string).collect::<sys::Result<_>>()?;
    let variable = |(name, value): (OsString, OsString)| {
        sys::c_string(std::ffi::OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
    };
    let environment: Vec<CString> = environment.into_iter().map(variable).collect::<sys::Result<_>>()?;
    sys::process::close_all_on_exec()?;
    sys::process::exec_fd_with(program.as_fd(), &arguments, &environment)
}

fn open(path: &Path) -> sys::Result<OwnedFd> {
    call(|| format!("open({path:?})"), rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
}

/// Executing the container's file would keep the container's filesystem busy as long as a mount exists.
fn copy_of_this_program() -> sys::Result<OwnedFd> {
    let memfd = call(|| "memfd_create(\"shorefast\")".into(), rustix::fs::memfd_create("shorefast", MemfdFlags::CLOEXEC))?;
    let mut copy = File::from(memfd);
    let copied = File::open("/proc/self/exe").and_then(|mut own| std::io::copy(&mut own, &mut copy)).and_then(|_| copy.flush());
    call(|| "copy(\"/proc/self/exe\")".into(), copied)?;
    // A file that is open for writing cannot be executed (ETXTBSY).
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&copy));
    open(Path::new(&path))
}

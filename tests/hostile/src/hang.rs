//! Processes that hang in execve(2): it closes a file of a filesystem whose server does not answer, and meanwhile other processes cannot inspect
//! them. `hostile hangs-in-execve DIRECTORY NAME...`, on the host: a process of each name. `hostile hangs TARGET`: a client that serves
//! its mount, and has a process that hangs like that.

use std::ffi::{CString, OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use crate::fuse::{self, Manners};
use crate::sandbox::Sandbox;
use crate::sys::{self, Answer, Errno, at};

/// Says the pids, one in each line, and serves until it is killed.
pub(crate) fn on_host(directory: &OsStr, names: &[OsString]) -> ExitCode {
    let Ok(target) = CString::new(directory.as_bytes()) else { return ExitCode::from(2) };
    let serve = || -> Answer {
        let device = fuse::mount_on_host(c"hanging", &target)?;
        for name in names {
            let name = CString::new(name.as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
            let pid = fork_into_execve(directory, &name)?;
            println!("{pid}");
        }
        let _ = std::io::stdout().flush();
        fuse::serve(device, Manners::NeverClosed);
        Ok(0)
    };
    match serve() {
        Ok(_) => ExitCode::SUCCESS,
        Err(errno) => {
            eprintln!("hostile: {errno}");
            ExitCode::FAILURE
        }
    }
}

/// The helper ends well, its server and the process that hangs live on.
pub(crate) fn as_client(target: &OsStr) -> ExitCode {
    let sandbox = Sandbox::look(target);
    let Ok(device) = fuse::open_device() else { return ExitCode::FAILURE };
    if fuse::mount_device(&sandbox, &device).is_err() {
        return ExitCode::FAILURE;
    }
    match sys::fork() {
        Ok(None) => {
            fuse::serve(device, Manners::NeverClosed);
            sys::exit(0)
        }
        Ok(Some(_)) => {
            drop(device);
            match fork_into_execve(target, c"hangs") {
                Ok(_) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn fork_into_execve(directory: &OsStr, name: &std::ffi::CStr) -> Answer<libc::pid_t> {
    if let Some(child) = sys::fork()? {
        return Ok(child);
    }
    let _ = sys::call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, at(name)]);
    execute(directory)
}

fn execute(directory: &OsStr) -> ! {
    let mut path = directory.as_bytes().to_vec();
    path.extend([b"/", fuse::TRAP.as_bytes(), b"\0"].concat());
    let held = std::ffi::CStr::from_bytes_with_nul(&path).map_err(|_| Errno(libc::EINVAL)).and_then(|path| sys::open(path, libc::O_RDONLY));
    if held.is_ok() {
        let (program, verb, end) = (c"/proc/self/exe", c"idle", 0usize);
        let arguments = [at(program), at(verb), end];
        let _ = sys::call(libc::SYS_execve, [at(program), at(&arguments), 0]);
    }
    sys::exit(1)
}

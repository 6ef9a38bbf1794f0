//! The embedded program that lives as long as a mount (see `shim/shim.rs`): its bytes come from build.rs; a memfd to
//! execute, and the constants that it agrees on with its parents, go out.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, SealFlags};

use crate::error::{Result, call};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim"));

/// Descriptor numbers at which the program expects its descriptors.
pub const CONTROL: i32 = 3;
pub const SANDBOX: i32 = 4;
pub const OUTPUT: i32 = 4;
pub const RING: i32 = 5;
pub const BINARY: i32 = 5;
pub const LOG: i32 = 6;
pub const HOME: i32 = 7;
pub const RUN_DIR: i32 = 8;
pub const FOLLOWED: i32 = 6;
/// A keeper only holds it open, for the binary that it executes and for processes that read it through /proc.
pub const RECIPE: i32 = 9;
/// The client's /dev/fuse, which a keeper gets with its release.
pub const CONNECTION: i32 = 10;
/// `init` holds a second copy of the recipe.
pub const RECIPE_OF_INIT: i32 = 7;
/// The socket /dev/log of the sandbox, for `init`.
pub const SYSLOG: i32 = 8;

/// Argument of `init`: exit when the process at [`FOLLOWED`] does.
pub const FOLLOW: &CStr = c"follow";

/// Release: live on without the mounting process, as long as the sandbox does.
pub const KEEP: &[u8] = b"k";
/// To the keeper: the mount failed, and everything is cleaned up.
pub const QUIT: &[u8] = b"q";

/// The reserved filesystem type: mount(2) with it asks the broker for the client's services.
pub const ASK: &str = "shorefast.services";

/// Replaces this process by the program, with no descriptors open but `places`.
pub fn become_it(program: BorrowedFd<'_>, arguments: &[&CStr], places: &[(BorrowedFd<'_>, i32)]) -> Result<Infallible> {
    let program = crate::process::lay_out(places, Some(program))?.expect("it was given");
    crate::process::exec_fd(program.as_fd(), arguments)
}

/// The program, created on first use: at launch it is needed only after the client was told to start.
#[derive(Debug, Default)]
pub struct Program(OnceCell<OwnedFd>);

impl Program {
    pub fn get(&self) -> Result<&OwnedFd> {
        if self.0.get().is_none() {
            // Cannot fail: OnceCell is not Sync, so no other thread could have set it.
            let _ = self.0.set(program()?);
        }
        Ok(self.0.get().expect("set above"))
    }
}

/// Creates the program as a sealed memfd: there is nothing to install, and it works where every writable filesystem is
/// noexec.
fn program() -> Result<OwnedFd> {
    // MFD_EXEC is unknown before 6.3, where every memfd is executable.
    const MFD_EXEC: MemfdFlags = MemfdFlags::from_bits_retain(0x10);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("shorefast-shim", flags | MFD_EXEC).or_else(|_| rustix::fs::memfd_create("shorefast-shim", flags));
    let mut file = std::fs::File::from(call(|| "memfd_create(\"shorefast-shim\")".into(), memfd)?);
    call(|| "write(\"shorefast-shim\")".into(), file.write_all(PROGRAM))?;
    // Who may execute a file but not read it has a process that nobody inspects but the host's root: not dumpable from execve(2) on, also
    // for a client that may change to the uid of its sandbox's first process.
    call(|| "fchmod(\"shorefast-shim\")".into(), rustix::fs::fchmod(&file, Mode::XUSR | Mode::XGRP | Mode::XOTH))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    call(|| "fcntl(F_ADD_SEALS)".into(), rustix::fs::fcntl_add_seals(&file, seals))?;
    Ok(file.into())
}

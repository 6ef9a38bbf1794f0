//! The embedded program that lives as long as a mount (`shim/shim.rs` says what it does).

use std::cell::OnceCell;
use std::convert::Infallible;
use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::error::{Result, call};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim"));

/// Descriptor numbers at which the program expects what it is given.
pub const CONTROL: i32 = 3;
pub const SANDBOX: i32 = 4;
pub const OUTPUT: i32 = 4;
pub const RING: i32 = 5;
pub const BINARY: i32 = 5;
pub const LOG: i32 = 6;
pub const HOME: i32 = 7;
pub const RUN_DIR: i32 = 8;
pub const FOLLOWED: i32 = 6;
/// A keeper only holds it, for what it becomes and for whoever asks it.
pub const RECIPE: i32 = 9;

/// To pid 1 of a sandbox: end when the process at [`FOLLOWED`] does.
pub const FOLLOW: &CStr = c"follow";

/// Released: live on without the process that is mounting, as long as the sandbox does.
pub const KEEP: &[u8] = b"k";
/// To the keeper: the mount failed, and all is cleaned up.
pub const QUIT: &[u8] = b"q";

/// The filesystem type by whose mount(2) the program asks the broker for the client's services.
pub const ASK: &str = "shorefast.services";

/// Becomes the program, with nothing open but `places`.
pub fn become_it(program: BorrowedFd<'_>, arguments: &[&CStr], places: &[(BorrowedFd<'_>, i32)]) -> Result<Infallible> {
    let program = crate::process::lay_out(places, Some(program))?.expect("it was given");
    crate::process::exec_fd(program.as_fd(), arguments)
}

/// The program, made when it is first asked for: a client is started before anybody needs it.
#[derive(Debug, Default)]
pub struct Program(OnceCell<OwnedFd>);

impl Program {
    pub fn get(&self) -> Result<&OwnedFd> {
        if self.0.get().is_none() {
            // Nobody else could have set it: a cell belongs to one thread.
            let _ = self.0.set(program()?);
        }
        Ok(self.0.get().expect("set above"))
    }
}

/// The program as a sealed file that exists only in memory: nothing to install, and it works
/// where every writable filesystem is noexec.
fn program() -> Result<OwnedFd> {
    // MFD_EXEC is unknown before 6.3, where every memfd could be executed.
    const MFD_EXEC: MemfdFlags = MemfdFlags::from_bits_retain(0x10);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("shorefast-shim", flags | MFD_EXEC).or_else(|_| rustix::fs::memfd_create("shorefast-shim", flags));
    let mut file = std::fs::File::from(call(|| "memfd_create(\"shorefast-shim\")".into(), memfd)?);
    call(|| "write(\"shorefast-shim\")".into(), file.write_all(PROGRAM))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    call(|| "fcntl(F_ADD_SEALS)".into(), rustix::fs::fcntl_add_seals(&file, seals))?;
    Ok(file.into())
}

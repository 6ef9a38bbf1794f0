//! The kernel, typed: system calls that rustix does not wrap. Values and descriptors in, results with the failed call's
//! name out. It is the only crate that may use `unsafe`, contains no policy, and depends on no other crate of ours.
//! What rustix wraps, callers take from rustix.

#![expect(unsafe_code, reason = "this crate is the wall: system calls that rustix does not wrap")]

pub mod shim;
pub mod mount_table;
pub mod namespace;
pub mod unmount;
pub mod fuse;
pub mod fuse_control;
pub mod mount;
pub mod bounded_call;
pub mod one_shot;
pub mod spawn;
pub mod process;
pub mod process_scan;
pub mod scheduling;
pub mod mountinfo;
mod statmount;
pub mod seccomp;
pub mod landlock;
pub mod privilege;
pub mod inherited;
pub mod activation;
pub mod claim;
pub mod signals;
pub mod terminal;
pub mod deadline;
pub mod descriptors;
pub mod ring;
pub mod arguments;
pub mod sysctl;
pub mod error;

pub use error::{Error, Result, call};

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path or an argument as a C string. EINVAL if it contains a NUL.
pub fn c_string(text: impl AsRef<std::ffi::OsStr>) -> Result<CString> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_| Error::new(format!("{text:?}"), rustix::io::Errno::INVAL))
}

/// How a path appears in an error: quoted, so that spaces and newlines are visible.
fn quoted(path: &Path) -> String {
    format!("{path:?}")
}

fn cstr_text(text: &CStr) -> String {
    format!("{:?}", text.to_string_lossy())
}

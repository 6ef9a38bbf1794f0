//! Starts a thread with pthread_create only: a closure in, a pthread_t out. std's threads also map a signal stack and
//! unmap it when they end: unmapping pages of a process that runs on two CPUs interrupts both (TLB shootdown).

use std::mem::MaybeUninit;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// Its memory is never freed, unless it is joined.
pub(crate) fn start<F: FnOnce() + Send + 'static>(body: F) -> Result<libc::pthread_t> {
    extern "C" fn begin<F: FnOnce()>(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the pointer comes from `Box::into_raw` below, and is used once.
        let body = unsafe { Box::from_raw(body.cast::<F>()) };
        body();
        std::ptr::null_mut()
    }
    let body = Box::into_raw(Box::new(body));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `begin` takes what is passed; without attributes the thread is joinable, and may also be left running.
    let failed = unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), begin::<F>, body.cast()) };
    if failed != 0 {
        // SAFETY: no thread was started, so we still own the box.
        drop(unsafe { Box::from_raw(body) });
        return Err(Error::new("pthread_create()", Errno::from_raw_os_error(failed)));
    }
    // SAFETY: written by the call that succeeded.
    Ok(unsafe { thread.assume_init() })
}

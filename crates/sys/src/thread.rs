//! A thread with nothing but a stack. std's has a second one, for signals, and takes it away when it ends: to take pages away from a
//! process that runs on two processors, the kernel stops both.

use std::mem::MaybeUninit;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// Its memory is never given back, unless it is joined.
pub fn start<F: FnOnce() + Send + 'static>(body: F) -> Result<libc::pthread_t> {
    extern "C" fn begin<F: FnOnce()>(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the pointer comes from `Box::into_raw` below, and is used once.
        let body = unsafe { Box::from_raw(body.cast::<F>()) };
        body();
        std::ptr::null_mut()
    }
    let body = Box::into_raw(Box::new(body));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `begin` takes what is passed; without attributes the thread is as usual, to be joined or left.
    let failed = unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), begin::<F>, body.cast()) };
    if failed != 0 {
        // SAFETY: no thread was started, so this is still ours.
        drop(unsafe { Box::from_raw(body) });
        return Err(Error::new("pthread_create()", Errno::from_raw_os_error(failed)));
    }
    // SAFETY: written by the call that succeeded.
    Ok(unsafe { thread.assume_init() })
}

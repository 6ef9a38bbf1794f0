//! Loaded into a user-mode kernel, in front of its libc: all of a processor's registers, for a kernel that has no room for them.
//!
//! Such a kernel puts a process's registers back by ptrace, and the machine's kernel wants them whole. Before 7.0 they have room for 2,696
//! bytes of them; with Intel's AMX there are 11,008. The rest belongs to tiles, which only processes that asked for them have, so zeroes are
//! right. Without this, the guest's first process dies.
//!
//! Compiled on its own by build.rs, without std: it runs in front of whatever libc the kernel is linked against.

#![no_std]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const PTRACE_GETREGSET: c_int = 0x4204;
const PTRACE_SETREGSET: c_int = 0x4205;
const NT_X86_XSTATE: *mut c_void = ptr::without_provenance_mut(0x202);

type Ptrace = extern "C" fn(c_int, c_int, *mut c_void, *mut c_void) -> c_long;

/// `struct iovec`.
#[repr(C)]
struct Buffer {
    start: *mut c_void,
    length: usize,
}

/// More than any processor has.
const ROOM: usize = 64 << 10;

#[repr(align(64))]
struct Whole(UnsafeCell<[u8; ROOM]>);

// SAFETY: a user-mode kernel traces its processes from one thread.
unsafe impl Sync for Whole {}

static WHOLE: Whole = Whole(UnsafeCell::new([0; ROOM]));
/// How many bytes the machine's kernel wants; 0: not known yet.
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// The libc's of the same name, but for registers that are not whole.
#[unsafe(no_mangle)]
pub extern "C" fn ptrace(request: c_int, process: c_int, address: *mut c_void, data: *mut c_void) -> c_long {
    if request != PTRACE_SETREGSET || address != NT_X86_XSTATE {
        return next(request, process, address, data);
    }
    let whole = WHOLE.0.get().cast::<c_void>();
    if LENGTH.load(Ordering::Relaxed) == 0 {
        let mut all = Buffer { start: whole, length: ROOM };
        if next(PTRACE_GETREGSET, process, address, (&raw mut all).cast()) < 0 {
            return -1;
        }
        // SAFETY: the kernel has written that much at most.
        unsafe { ptr::write_bytes(whole.cast::<u8>(), 0, ROOM) };
        LENGTH.store(all.length, Ordering::Relaxed);
    }
    let length = LENGTH.load(Ordering::Relaxed);
    // SAFETY: the request says that this is an iovec.
    let given = unsafe { &*data.cast::<Buffer>() };
    if given.length >= length {
        return next(request, process, address, data);
    }
    // SAFETY: what is given is shorter than what there is room for.
    unsafe { ptr::copy_nonoverlapping(given.start.cast::<u8>(), whole.cast::<u8>(), given.length) };
    let mut all = Buffer { start: whole, length };
    next(request, process, address, (&raw mut all).cast())
}

fn next(request: c_int, process: c_int, address: *mut c_void, data: *mut c_void) -> c_long {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    const NAME: &CStr = c"ptrace";
    if NEXT.load(Ordering::Relaxed).is_null() {
        // SAFETY: a name that ends with NUL.
        NEXT.store(unsafe { dlsym(RTLD_NEXT, NAME.as_ptr()) }, Ordering::Relaxed);
    }
    let found = NEXT.load(Ordering::Relaxed);
    if found.is_null() {
        return -1;
    }
    // SAFETY: libc's function of that name, whose arguments after the first are words on every machine that has such kernels.
    let function = unsafe { core::mem::transmute::<*mut c_void, Ptrace>(found) };
    function(request, process, address, data)
}

#[panic_handler]
fn nothing_here_panics(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

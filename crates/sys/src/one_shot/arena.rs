//! Memory for a process that shares ours ([`crate::one_shot::vm_child`]): an arena is lent to a thread, and its allocations come
//! from there. Such a process may be killed at any moment; if it held the allocator's lock then, we would deadlock. So
//! it takes nothing from the allocator and frees nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Result, call};
use crate::one_shot::pool::Pool;

/// A program's global allocator. In a process that makes a mount, the next allocations come from a pool, and those of a
/// thread with an arena from that. In every other process it only passes on to the inner allocator.
#[derive(Debug)]
pub struct Allocator<A>(pub A);

static POOL: Pool = Pool::new();

thread_local! {
    static ARENA: Cell<*mut Arena> = const { Cell::new(null_mut()) };
}

fn arena() -> Option<NonNull<Arena>> {
    NonNull::new(ARENA.get())
}

/// From now on this process allocates from the pool, until that is used up.
pub(crate) fn open_pool() {
    POOL.open();
}

/// Where the program's next allocations will be.
pub(crate) fn ahead() -> *const u8 {
    POOL.rest()
}

// SAFETY: what the pool or an arena returns is mapped, aligned and unused by others until it is freed or the arena is
// dropped; everything else is forwarded to the inner allocator, under the same contract.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match arena() {
            // SAFETY: the caller's promise is passed on.
            None => POOL.take(layout).unwrap_or_else(|| unsafe { self.0.alloc(layout) }),
            // SAFETY: `lend` made it current for this thread only, and it lives until the loan ends.
            Some(mut arena) => unsafe { arena.as_mut() }.take(layout),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // In an arena nothing is freed: its own memory goes with it, and other memory belongs to the parent.
        if arena().is_none() && !POOL.give_back(memory, layout) {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.0.dealloc(memory, layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match arena() {
            None => match POOL.take(layout) {
                Some(memory) => {
                    // SAFETY: just allocated with that length.
                    unsafe { memory.write_bytes(0, layout.size()) };
                    memory
                }
                // SAFETY: the caller's promise is passed on.
                None => unsafe { self.0.alloc_zeroed(layout) },
            },
            Some(mut arena) => {
                // SAFETY: as in `alloc`.
                let memory = unsafe { arena.as_mut() }.take(layout);
                if !memory.is_null() {
                    // SAFETY: just allocated with that length.
                    unsafe { memory.write_bytes(0, layout.size()) };
                }
                memory
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if arena().is_none() {
            if !POOL.has(memory) {
                // SAFETY: the caller's promise is passed on.
                return unsafe { self.0.realloc(memory, layout, size) };
            }
            if POOL.resize(memory, layout, size) {
                return memory;
            }
        }
        // SAFETY: the caller promises that the size does not overflow when rounded up to the alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller promises that the size is not zero. The old block is not freed: in an arena nothing is,
        // and the pool only reuses its last block.
        let larger = unsafe { self.alloc(wanted) };
        if !larger.is_null() {
            // SAFETY: both are valid for the shorter of the two lengths, and the new one overlaps nothing.
            unsafe { std::ptr::copy_nonoverlapping(memory, larger, layout.size().min(size)) };
        }
        larger
    }
}

/// Pages that are handed out in ascending order.
#[derive(Debug)]
pub(crate) struct Arena {
    next: usize,
    end: usize,
    pieces: Vec<Piece>,
}

/// What a sandbox's first process needs.
const USUAL: usize = 60 << 10;
/// Untouched pages cost nothing.
const MORE: usize = 1 << 20;
/// Capacity of the list, so that it never grows: it would allocate from the arena that it describes.
const PIECES: usize = 64;

impl Arena {
    pub(crate) fn new() -> Result<Self> {
        let pieces = Vec::with_capacity(PIECES);
        // The usual amount comes from the pool, whose pages are populated already, and is never returned.
        let usual = Layout::from_size_align(USUAL, align_of::<u128>()).expect("a small size and alignment");
        let next = POOL.take(usual).map(|start| start.expose_provenance());
        let mut arena = Self { next: next.unwrap_or(0), end: next.map_or(0, |next| next + USUAL), pieces };
        if next.is_none() {
            arena.grow(MORE)?;
        }
        Ok(arena)
    }

    fn take(&mut self, layout: Layout) -> *mut u8 {
        let place = |next: usize, end: usize| {
            let start = next.checked_next_multiple_of(layout.align())?;
            start.checked_add(layout.size()).filter(|after| *after <= end).map(|after| (start, after))
        };
        let found = place(self.next, self.end).or_else(|| {
            self.grow(layout.size().checked_add(layout.align())?.max(MORE)).ok()?;
            place(self.next, self.end)
        });
        match found {
            Some((start, after)) => {
                self.next = after;
                std::ptr::with_exposed_provenance_mut(start)
            }
            None => null_mut(),
        }
    }

    fn grow(&mut self, length: usize) -> Result<()> {
        if self.pieces.len() == PIECES {
            return Err(crate::Error::new("mmap()", rustix::io::Errno::NOMEM));
        }
        let piece = Piece::map(length)?;
        self.next = piece.start.as_ptr().expose_provenance();
        self.end = self.next + length;
        self.pieces.push(piece);
        Ok(())
    }

    /// Makes this thread, or a process that runs in its place, allocate here until the result is dropped.
    pub(crate) fn lend(&mut self) -> Lent<'_> {
        ARENA.set(self);
        Lent { _arena: self }
    }
}

/// Pages for a stack that is never freed.
pub(crate) fn stack(bytes: usize) -> Result<&'static mut [MaybeUninit<u128>]> {
    let piece = ManuallyDrop::new(Piece::map(bytes)?);
    // SAFETY: new pages, with more than the required alignment, which nothing else uses.
    Ok(unsafe { std::slice::from_raw_parts_mut(piece.start.as_ptr().cast(), bytes / size_of::<u128>()) })
}

/// While it exists, the calling thread allocates from an arena.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    _arena: &'a mut Arena,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        ARENA.set(null_mut());
    }
}

#[derive(Debug)]
struct Piece {
    start: NonNull<u8>,
    length: usize,
}

impl Piece {
    fn map(length: usize) -> Result<Self> {
        // SAFETY: new pages at an address that the kernel chooses.
        let start = unsafe { rustix::mm::mmap_anonymous(null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let start = call(|| format!("mmap({length})"), start)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| crate::Error::new("mmap()", rustix::io::Errno::NOMEM))?;
        Ok(Self { start, length })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; the process that used it has ended (see `crate::one_shot::vm_child`).
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_is_asked_for_and_nothing_twice() {
        let mut arena = Arena::new().unwrap();
        let layouts = [(1, 1), (3, 1), (8, 8), (100, 64), (4096, 4096), (MORE, 16), (5, 2), (3 * MORE, 8)];
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (size, align) in layouts {
            let memory = arena.take(Layout::from_size_align(size, align).unwrap());
            assert!(!memory.is_null(), "{size} bytes");
            let start = memory.addr();
            assert_eq!(start % align, 0, "{size} bytes, aligned to {align}");
            assert!(taken.iter().all(|(from, to)| start + size <= *from || start >= *to), "{size} bytes overlap others");
            // SAFETY: just allocated.
            unsafe { memory.write_bytes(7, size) };
            taken.push((start, start + size));
        }
    }

    #[test]
    fn an_impossible_wish_is_an_error() {
        let mut arena = Arena::new().unwrap();
        assert!(arena.take(Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap()).is_null());
        assert!(!arena.take(Layout::new::<u64>()).is_null());
    }

    #[test]
    fn the_allocator_uses_it_only_while_it_is_lent() {
        let allocator = Allocator(std::alloc::System);
        let mut arena = Arena::new().unwrap();
        let (start, end) = (arena.next, arena.end);
        let layout = Layout::new::<[u8; 32]>();
        let lent = arena.lend();
        // SAFETY: a layout that is not empty.
        let inside = unsafe { allocator.alloc(layout) };
        assert!((start..end).contains(&inside.addr()));
        // SAFETY: just allocated with that length.
        unsafe { inside.write_bytes(5, 32) };
        // SAFETY: as it was allocated.
        let larger = unsafe { allocator.realloc(inside, layout, 64) };
        // SAFETY: the first half is what was written above.
        assert_eq!(unsafe { std::slice::from_raw_parts(larger, 32) }, [5; 32]);
        // SAFETY: as it was allocated.
        unsafe { allocator.dealloc(larger, Layout::new::<[u8; 64]>()) };
        drop(lent);
        // SAFETY: a layout that is not empty.
        let outside = unsafe { allocator.alloc(layout) };
        assert!(!(start..end).contains(&outside.addr()));
        // SAFETY: as it was allocated.
        unsafe { allocator.dealloc(outside, layout) };
    }
}

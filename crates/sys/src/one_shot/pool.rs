//! A bump allocator for a program's first allocations: a layout in, a pointer out. A mount is one short run: most of
//! its allocations are small, and live until the end or are freed at once, last in, first out. So blocks are handed out
//! in ascending order, and only the last one can be reused. That needs neither lists nor locks; further allocations go
//! to another allocator.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Offset of a pool that is not open yet: nothing fits behind it.
const CLOSED: usize = SIZE + 1;

/// Untouched pages cost nothing. A mount that names only its type uses half of this.
const SIZE: usize = 256 << 10;

#[repr(C, align(4096))]
pub(crate) struct Pool {
    /// Offset of the unused rest.
    next: AtomicUsize,
    memory: UnsafeCell<[MaybeUninit<u8>; SIZE]>,
}

// SAFETY: each block has one owner at a time: the thread whose compare-and-swap moved `next` over it.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self { next: AtomicUsize::new(CLOSED), memory: UnsafeCell::new([MaybeUninit::uninit(); SIZE]) }
    }

    /// Until then it gives nothing, so that a process that lives on has its usual allocator.
    pub(crate) fn open(&self) {
        let _ = self.move_next(CLOSED, 0);
    }

    /// `None`: it is not open, or not enough is left.
    pub(crate) fn take(&self, layout: Layout) -> Option<*mut u8> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let start = (self.start().addr() + next).checked_next_multiple_of(layout.align())? - self.start().addr();
            let end = start.checked_add(layout.size()).filter(|end| *end <= SIZE)?;
            match self.move_next(next, end) {
                Ok(_) => return Some(self.start().wrapping_add(start)),
                Err(meanwhile) => next = meanwhile,
            }
        }
    }

    /// Whether the block came from here; if so, it is freed.
    pub(crate) fn give_back(&self, piece: *mut u8, layout: Layout) -> bool {
        let Some(start) = self.place(piece) else { return false };
        let _ = self.move_next(start + layout.size(), start);
        true
    }

    /// Resizes a block that came from here in place. Returns whether that succeeded.
    pub(crate) fn resize(&self, piece: *mut u8, layout: Layout, size: usize) -> bool {
        let Some(start) = self.place(piece) else { return false };
        let fits = start.checked_add(size).filter(|end| *end <= SIZE);
        let is_moved = fits.is_some_and(|end| self.move_next(start + layout.size(), end).is_ok());
        is_moved || size <= layout.size()
    }

    pub(crate) fn has(&self, piece: *mut u8) -> bool {
        self.place(piece).is_some()
    }

    /// Where the next block will be.
    pub(crate) fn rest(&self) -> *mut u8 {
        self.start().wrapping_add(self.next.load(Ordering::Relaxed))
    }

    fn start(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    fn place(&self, piece: *mut u8) -> Option<usize> {
        piece.addr().checked_sub(self.start().addr()).filter(|start| *start < SIZE)
    }

    /// AcqRel: what was written to a block happens before its next owner's use of it.
    fn move_next(&self, from: usize, to: usize) -> Result<usize, usize> {
        self.next.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pool").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn open_pool() -> Box<Pool> {
        let pool = Box::new(Pool::new());
        pool.open();
        pool
    }

    #[test]
    fn a_pool_that_is_not_open_gives_nothing_and_opens_once() {
        let pool = Box::new(Pool::new());
        assert!(pool.take(layout(1, 1)).is_none());
        pool.open();
        let first = pool.take(layout(8, 8)).unwrap();
        pool.open();
        assert_eq!(pool.take(layout(8, 8)).unwrap().addr(), first.addr() + 8, "what is in use is not given again");
    }

    #[test]
    fn only_the_last_piece_is_used_again() {
        let pool = open_pool();
        let (first, second) = (pool.take(layout(10, 1)).unwrap(), pool.take(layout(8, 8)).unwrap());
        assert_eq!(second.addr() % 8, 0);
        assert!(second.addr() >= first.addr() + 10);
        assert!(pool.give_back(first, layout(10, 1)));
        assert_eq!(pool.take(layout(8, 8)).unwrap().addr(), second.addr() + 8, "another one came after the first");
        let last = pool.take(layout(100, 4)).unwrap();
        assert!(pool.give_back(last, layout(100, 4)));
        assert_eq!(pool.take(layout(50, 4)).unwrap(), last);
    }

    #[test]
    fn only_the_last_piece_grows_where_it_is() {
        let pool = open_pool();
        let first = pool.take(layout(10, 1)).unwrap();
        assert!(pool.resize(first, layout(10, 1), 20));
        let second = pool.take(layout(1, 1)).unwrap();
        assert_eq!(second.addr(), first.addr() + 20);
        assert!(!pool.resize(first, layout(20, 1), 21));
        assert!(pool.resize(first, layout(20, 1), 5), "smaller is always possible");
        assert!(!pool.resize(second, layout(1, 1), SIZE));
    }

    #[test]
    fn what_is_too_much_or_not_from_here_is_anothers() {
        let pool = open_pool();
        assert!(pool.take(layout(SIZE + 1, 1)).is_none());
        let all = pool.take(layout(SIZE, 1)).unwrap();
        assert!(pool.take(layout(1, 1)).is_none());
        assert!(pool.has(all));
        let mut elsewhere = 0u8;
        assert!(!pool.give_back(&raw mut elsewhere, layout(1, 1)));
    }

    #[test]
    fn threads_get_different_pieces() {
        let pool = open_pool();
        let work = |mark: u8| {
            for size in (1..200).cycle().take(20_000) {
                let Some(piece) = pool.take(layout(size, 8)) else { return };
                // SAFETY: just allocated with that length.
                unsafe { piece.write_bytes(mark, size) };
                // SAFETY: the same.
                let seen = unsafe { std::slice::from_raw_parts(piece, size) };
                assert!(seen.iter().all(|byte| *byte == mark));
                pool.give_back(piece, layout(size, 8));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(1));
            scope.spawn(|| work(2));
        });
    }
}

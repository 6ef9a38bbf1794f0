//! Page faults taken together: memory that is needed anyway is populated with one call.

use crate::one_shot::arena;

/// Populates this many bytes of stack at once, instead of one page fault per page. For memory that is needed anyway.
pub(crate) fn expect_stack(bytes: usize) {
    let here = 0u8;
    populate(page_of(&raw const here) - bytes, bytes);
}

/// The same for memory that will be allocated.
pub(crate) fn expect_heap(bytes: usize) {
    populate(page_of(arena::ahead()), bytes);
}

fn page_of(place: *const u8) -> usize {
    const PAGE: usize = 4 << 10;
    place.addr() & !(PAGE - 1)
}

/// Only an optimisation (MADV_POPULATE_WRITE, 5.14), so errors are ignored.
fn populate(start: usize, length: usize) {
    // SAFETY: existing pages keep their contents, and missing ones are created as a first write would create them.
    // Where there is no mapping, the kernel stops with an error.
    let _ = unsafe { rustix::mm::madvise(std::ptr::with_exposed_provenance_mut(start), length, rustix::mm::Advice::LinuxPopulateWrite) };
}

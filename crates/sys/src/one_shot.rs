//! Tricks that save microseconds in a process that makes one mount and ends, all behind this wall: a child that shares
//! our memory until it executes a program, the memory that it may use, a pool for the first allocations, and threads
//! that unmap nothing. They are right only there: what they take is never given back, and other processes run in our
//! address space for a while.
//!
//! Why they exist: a client such as bindfs mounts natively in little more than a millisecond, and fork, page faults and
//! TLB shootdowns would cost as much again (docs/BENCHMARK.md). A process that lives on asks a worker for each mount
//! and runs none of this: until [`start`] is called, [`Allocator`] only passes on to the usual one.

mod vm_child;
mod thread;
mod populate;
mod arena;
mod pool;

pub use arena::Allocator;
pub use vm_child::{VmChild, start};

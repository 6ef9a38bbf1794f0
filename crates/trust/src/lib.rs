//! Files that decide what root does: a path in, its content out, if only root could have written it.
//!
//! Definitions say which programs run and what the kernel mounts, so the right to change one is as good as root. The file, every directory on
//! the way to it, and every link are checked, each under its real name. If only root can change all of them, the result of the check stays
//! valid: no descriptor has to be held for that.
//!
//! Without root rights nothing is refused: then the files decide nothing for root, and a dry run may read what it can.

pub mod file;

pub use file::{Chosen, Directory, Problem, Untrusted, check_file, read, read_to_string};

//! System calls that may block for ever, each made by a separate process with a deadline. Arguments and a deadline in,
//! a [`Bounded`] result out.
//!
//! A call on a network or FUSE filesystem waits for its server, sometimes uninterruptibly, so that even SIGKILL has no
//! effect. So our own process never makes such calls. A child does that shares only our memory; it can be killed, or
//! abandoned if it cannot be killed. It holds none of our other descriptors, so that no caller waits for end of file on
//! a pipe because of it. It costs slightly more than a thread but, unlike a thread, it cannot keep us from exiting.
//! The deadline is for the call itself: a child that waits for a processor on a busy machine gets more time.

mod filesystem;
mod list;
mod namespaces;
mod processes;
mod each;
mod open;
mod read;
mod run;
mod starved;

pub use each::Answer;
pub use filesystem::{Directory, attach, attach_beneath, begin_to_attach, begin_to_write_back, can_be_entered, create, filesystem_of};
pub use filesystem::{hold, identify, identify_from, look_at, mount, size_of, taste, unmount};
pub use list::{Listed, list, list_root};
pub use namespaces::{mounts_of_processes, mounts_of_threads};
pub use open::{OpenRequest, open, open_below, open_below_with, open_both, open_several};
pub use processes::{fuse_device_of, leads_any, moved_by, namespaces_of, starts_of};
pub use read::{bytes_of, read, strings_of};
pub use run::{Bounded, Pending};

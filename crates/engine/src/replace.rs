//! Puts a new mount wherever an old one is mounted, in every mount namespace of the machine, without a moment in which the directory
//! below could be seen. In: the old mount, a detached new one, a deadline. Out: [`Replaced`], which names what could not be replaced.
//!
//! Each place gets the new mount beneath the old one, and only then loses the old one. Nobody may answer what waits on the old mount's
//! connection before this is done: after ESTALE a path is walked once more, and not twice ([`crate::answer`]).
//!
//! The namespaces of containers are hostile: their paths are opened by the kernel's caches alone or by a process that can be abandoned,
//! follow no link, and are checked by mount id after they were opened.

mod swap;
mod nested;
mod groups;
mod source;
mod find;
mod opening;
mod outcome;

pub use outcome::{Degraded, Old, Primary, Step};

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::bounded_call::Pending;
use sys::mount::Identity;
use sys::mount_table::Base;

use crate::error::Error;

/// What became of the places.
#[derive(Debug, Default)]
pub struct Replaced {
    /// The new mount at the place of the record's mount.
    pub primary: Option<Identity>,
    /// Old and new mount of each place.
    pub places: Vec<(Identity, Identity)>,
    /// So many of them have the old mount below the new one, and keep it: it is locked, or Linux is older than 6.5.
    pub stacked: usize,
    /// So many of those get the new mount as soon as what waits on the old connection is answered: until then, the directory that it is
    /// to cover is locked. Nothing remains to be done for it, but ask [`Replaced::settle`] afterwards.
    pub waiting: Vec<Waiting>,
    pub degraded: Vec<Degraded>,
}

/// A new mount that cannot cover the old one before that is answered.
#[derive(Debug)]
pub struct Waiting {
    namespace: u64,
    path: PathBuf,
    attaching: Pending<()>,
}

/// Replaces the old mount everywhere. The place of the record gets `new` itself, the others copies of it.
///
/// A container that begins while this runs may copy the old mount after its namespace was looked at. So this looks again until it finds
/// nothing, and a caller looks once more after the old connection was answered.
pub fn everywhere(
    old: &Old,
    new: BorrowedFd<'_>,
    deadline: Instant,
    primary: Primary,
    mut pass: impl FnMut(Step),
) -> Result<Replaced, Error> {
    let failed = |source| Error::Namespace { path: "/proc/self/ns/mnt".into(), source };
    let base = Base::here().map_err(failed)?;
    let mut work = swap::Work::new(&base, new, deadline).map_err(failed)?;
    let mut replaced = Replaced::default();
    let mut tries = HashMap::<(u64, u64), u32>::new();
    let mut left_alone = HashSet::<(u64, u64)>::new();
    loop {
        // Once the superblock is held, its device number is nobody else's: what has it is a copy that has just been made.
        let before = old.before.filter(|_| !work.is_holding());
        let found = find::places(&base, &Old { before, ..*old }, work.identity(), deadline).map_err(failed)?;
        pass(Step::Found);
        work.is_attached_in(found.new);
        let mut todo: Vec<_> = found.places.into_iter().filter(|place| !left_alone.contains(&place.key())).collect();
        // Nothing is to be done elsewhere before that is.
        let comes_first = primary == Primary::Required && replaced.primary.is_none();
        todo.retain(|place| !comes_first || place.mount.identity == old.identity);
        if todo.is_empty() {
            break;
        }
        for place in todo {
            let key = place.key();
            let is_primary = place.mount.identity == old.identity;
            let mut give_up = |why: String| {
                left_alone.insert(key);
                replaced.degraded.push(Degraded { namespace: place.namespace.inode, path: place.mount.point.clone(), why });
            };
            if Instant::now() >= deadline {
                give_up("there was no time left to replace it".to_owned());
                continue;
            }
            let wanted = if is_primary { primary } else { Primary::AsOthers };
            match swap::swap(&mut work, &place, wanted, &mut pass) {
                Ok(swap::Outcome::Replaced(identity)) => {
                    replaced.primary = replaced.primary.or(is_primary.then_some(identity));
                    replaced.places.push((place.mount.identity, identity));
                }
                Ok(swap::Outcome::Stacked(identity, attaching)) => {
                    left_alone.insert(key);
                    replaced.primary = replaced.primary.or(is_primary.then_some(identity));
                    replaced.places.push((place.mount.identity, identity));
                    replaced.stacked += 1;
                    let waiting = |attaching| Waiting { namespace: place.namespace.inode, path: place.mount.point.clone(), attaching };
                    replaced.waiting.extend(attaching.map(waiting));
                }
                Ok(swap::Outcome::Degraded(why)) => give_up(why),
                // Moved, unmounted, or replaced by propagation meanwhile: the next look tells.
                Ok(swap::Outcome::Changed(why)) => {
                    let count = tries.entry(key).or_default();
                    *count += 1;
                    if *count >= TRIES {
                        give_up(why);
                    } else if *count > 1 {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(error) => give_up(error.to_string()),
            }
        }
    }
    replaced.degraded.extend(work.finish(&mut pass));
    Ok(replaced)
}

/// How often a place is tried that others move or cover while we look at it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

impl Replaced {
    /// To be called after the old connection was answered: what could not be covered before is covered now, or degraded.
    pub fn settle(&mut self, deadline: Instant) {
        for Waiting { namespace, path, attaching } in self.waiting.drain(..) {
            let has_ended = sys::deadline::is_readable(attaching.pidfd(), deadline).unwrap_or(false);
            let why = match has_ended.then(|| attaching.answer()).flatten() {
                Some(Ok(())) => continue,
                Some(Err(errno)) => format!("the new mount cannot cover the old one: {}", sys::error::name(errno)),
                None => "the new mount covers the old one as soon as its directory is no longer locked".to_owned(),
            };
            self.degraded.push(Degraded { namespace, path, why });
        }
    }
}

//! A client that lives and answers nothing. In: mounts, as the kernel's tables have them. Out: those that hang are said to.
//!
//! A mount hangs if requests wait for its client, and no process of that has read or written a byte for a second: it has answered nothing, and
//! has heard nothing from its server either. No filesystem is asked anything for that.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use shorefast_sandbox::cleaner::members;
use shorefast_sys::fuse_control::Connections;

use crate::list::Listed;
use crate::record;
use crate::state::State;

/// Whoever lists mounts waits for so long only where one may hang.
const SILENT_FOR: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Corrects the state of mounts that nobody serves at the moment.
pub fn mark(mounts: &mut [Listed]) {
    let mut served = mounts.iter_mut().filter(|listed| is_served(listed)).peekable();
    // An error where nothing has used FUSE yet.
    let Some(connections) = served.peek().and_then(|_| Connections::open().ok()) else { return };
    let mut silent: Vec<_> = served.filter_map(|listed| Silent::of(listed, &connections)).collect();
    let until = Instant::now() + SILENT_FOR;
    while !silent.is_empty() && Instant::now() < until {
        std::thread::sleep(PAUSE);
        silent.retain(|one| one.is_still(&connections));
    }
    for Silent { listed, .. } in silent {
        if let Some(standing) = &mut listed.standing {
            standing.state = State::Hung;
        }
    }
}

/// Its device number is that of its connection.
fn is_served(listed: &Listed) -> bool {
    let state = listed.standing.as_ref().map(|standing| standing.state);
    listed.record.init.is_some() && matches!(state, Some(State::Serving | State::Detached | State::Draining))
}

struct Silent<'a> {
    listed: &'a mut Listed,
    processes: Vec<Pid>,
    moved: u64,
}

impl<'a> Silent<'a> {
    fn of(listed: &'a mut Listed, connections: &Connections) -> Option<Self> {
        connections.waits(listed.record.mount.minor).then_some(())?;
        let processes = members::of(record::ids_of(&listed.record.id)?);
        Some(Self { moved: members::moved(&processes), processes, listed })
    }

    fn is_still(&self, connections: &Connections) -> bool {
        connections.waits(self.listed.record.mount.minor) && members::moved(&self.processes) == self.moved
    }
}

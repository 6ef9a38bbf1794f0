//! Asks the runtimes, and decides which container is meant.

use std::fmt;
use std::time::Instant;

use crate::containerd;
use crate::docker;
use crate::error::Error;
use crate::podman;
use crate::seen::{Seen, State};
use crate::selector::{Runtime, Selector};

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub runtime: Runtime,
    pub id: String,
    pub name: String,
    /// Its first process.
    pub pid: i32,
}

/// The one running container that `selector` means. Bounded by `deadline`.
pub fn find(selector: &Selector, deadline: Instant) -> Result<Container, Error> {
    let runtimes = selector.runtime.map_or_else(|| Runtime::ALL.to_vec(), |one| vec![one]);
    let (mut seen, mut failed, mut absent) = (Vec::new(), Vec::new(), 0);
    for runtime in &runtimes {
        let answer = match runtime {
            Runtime::Docker => docker::ask(&selector.by, deadline),
            Runtime::Podman => podman::ask(&selector.by, deadline),
            Runtime::Containerd => containerd::ask(&selector.by, deadline),
        };
        match answer {
            Ok(some) => seen.extend(some),
            Err(error) if selector.runtime.is_some() => return Err(error),
            Err(Error::Absent { .. }) => absent += 1,
            Err(error) => failed.push(error),
        }
    }
    if absent == runtimes.len() { Err(Error::NoRuntime) } else { choose(selector, seen, failed) }
}

fn choose(selector: &Selector, seen: Vec<Seen>, failed: Vec<Error>) -> Result<Container, Error> {
    let selector = selector.clone();
    let (mut running, stopped): (Vec<_>, Vec<_>) = seen.into_iter().partition(|seen| matches!(seen.state, State::Running { .. }));
    match (running.pop(), running.is_empty()) {
        (Some(Seen { runtime, id, name, state: State::Running { pid } }), true) => Ok(Container { runtime, id, name, pid }),
        (Some(last), _) => {
            running.push(last);
            Err(Error::Several { selector, seen: running })
        }
        (None, _) if stopped.is_empty() => Err(Error::Unknown { selector, failed }),
        (None, _) => Err(Error::Stopped { selector, seen: stopped }),
    }
}

impl fmt::Display for Container {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.runtime, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, state: State) -> Seen {
        Seen { runtime: Runtime::Docker, id: format!("{name}0123456789abcdef"), name: name.into(), state }
    }

    #[test]
    fn exactly_one_running_container_is_enough() {
        let selector: Selector = "role=mounter".parse().unwrap();
        let running = |name: &str| seen(name, State::Running { pid: 7 });
        let stopped = |name: &str| seen(name, State::Other("exited".into()));
        let pick = |all: Vec<Seen>| choose(&selector, all, Vec::new());

        assert_eq!(pick(vec![stopped("a"), running("b")]).unwrap().name, "b");
        let several = pick(vec![running("a"), running("b"), stopped("c")]).unwrap_err().to_string();
        assert!(several.contains("docker:a (a0123456789a), docker:b") && !several.contains("docker:c"), "{several}");
        let none = pick(vec![stopped("a")]).unwrap_err().to_string();
        assert!(none.contains("does not run") && none.contains("docker:a") && none.contains("[exited]"), "{none}");
        assert!(matches!(pick(Vec::new()), Err(Error::Unknown { .. })));
    }
}

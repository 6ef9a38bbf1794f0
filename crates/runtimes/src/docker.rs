//! Docker's interface. Podman's service speaks it as well.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::http_get::{self, Answer};
use crate::seen::{Seen, State};
use crate::selector::{By, Runtime};

const SOCKET: &str = "/run/docker.sock";

pub(crate) fn ask(by: &By, deadline: Instant) -> Result<Vec<Seen>, Error> {
    ask_at(Runtime::Docker, Path::new(SOCKET), by, deadline)
}

pub(crate) fn ask_at(runtime: Runtime, socket: &Path, by: &By, deadline: Instant) -> Result<Vec<Seen>, Error> {
    let service = Service { runtime, socket, deadline };
    match by {
        By::Name(name) => service.inspect(name).map(|one| one.into_iter().collect()),
        By::Label { key, value } => {
            let filter = serde_json::json!({ "label": [format!("{key}={value}")] }).to_string();
            let filter = utf8_percent_encode(&filter, NON_ALPHANUMERIC);
            let listed: Vec<Listed> = service.get(&format!("/containers/json?all=1&filters={filter}"))?.unwrap_or_default();
            // One that is removed meanwhile is not there.
            listed.iter().filter_map(|listed| service.inspect(&listed.id).transpose()).collect()
        }
    }
}

struct Service<'a> {
    runtime: Runtime,
    socket: &'a Path,
    deadline: Instant,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    name: String,
    state: InspectedState,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedState {
    status: String,
    pid: i32,
}

impl Service<'_> {
    fn inspect(&self, name: &str) -> Result<Option<Seen>, Error> {
        let found: Option<Inspected> = self.get(&format!("/containers/{name}/json"))?;
        Ok(found.map(|Inspected { id, name, state }| Seen {
            runtime: self.runtime,
            id,
            name: name.trim_start_matches('/').to_owned(),
            state: if state.status == "running" && state.pid > 0 { State::Running { pid: state.pid } } else { State::Other(state.status) },
        }))
    }

    /// `None`: there is no such thing.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        let runtime = self.runtime;
        let Answer { status, body } = http_get::get(self.socket, path, self.deadline).map_err(|source| match source.kind() {
            ErrorKind::NotFound => Error::Absent { runtime, looked_for: self.socket.to_owned() },
            _ => Error::Silent { runtime, at: self.socket.to_owned(), source },
        })?;
        match status {
            200 => serde_json::from_slice(&body).map(Some).map_err(|error| Error::Nonsense { runtime, problem: error.to_string() }),
            404 => Ok(None),
            _ => Err(Error::Refused { runtime, answer: format!("{status} {}", String::from_utf8_lossy(&body).trim()) }),
        }
    }
}

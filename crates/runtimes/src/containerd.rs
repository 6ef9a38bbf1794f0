//! containerd's interface: namespaces, the containers in them, and their tasks, which are what runs.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use crate::error::Error;
use crate::grpc::{Channel, Failure, NOT_FOUND};
use crate::seen::{Seen, State};
use crate::selector::{By, Runtime};

const SOCKET: &str = "/run/containerd/containerd.sock";
const RUNTIME: Runtime = Runtime::Containerd;

/// Docker's containers: Docker knows them better.
const OF_DOCKER: &str = "moby";

/// containerd itself knows ids only. The name that users know is a label that the creator of the container set.
const NAMES: &[&str] = &["io.kubernetes.container.name", "nerdctl/name"];

pub(crate) fn ask(by: &By, deadline: Instant) -> Result<Vec<Seen>, Error> {
    let socket = Path::new(SOCKET);
    let channel = Channel::open(socket, deadline).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::Absent { runtime: RUNTIME, looked_for: socket.to_owned() },
        _ => Error::Silent { runtime: RUNTIME, at: socket.to_owned(), source },
    })?;
    let service = Service { channel };
    let mut seen = Vec::new();
    for namespace in service.namespaces()?.iter().filter(|namespace| *namespace != OF_DOCKER) {
        for container in service.containers(namespace, filters(by))? {
            let state = service.state(namespace, &container.id)?;
            let name = NAMES.iter().find_map(|label| container.labels.get(*label)).unwrap_or(&container.id).clone();
            seen.push(Seen { runtime: RUNTIME, id: container.id, name, state });
        }
    }
    Ok(seen)
}

/// In containerd's language; a container has to fit one of them.
fn filters(by: &By) -> Vec<String> {
    let label = |key: &str, value: &str| format!("labels.\"{key}\"==\"{value}\"");
    match by {
        By::Label { key, value } => vec![label(key, value)],
        By::Name(name) => NAMES.iter().map(|key| label(key, name)).chain([format!("id==\"{name}\"")]).collect(),
    }
}

struct Service {
    channel: Channel,
}

impl Service {
    fn namespaces(&self) -> Result<Vec<String>, Error> {
        let list: Namespaces = self.call("/containerd.services.namespaces.v1.Namespaces/List", "", NamespacesQuery::default())?;
        Ok(list.namespaces.into_iter().map(|namespace| namespace.name).collect())
    }

    fn containers(&self, namespace: &str, filters: Vec<String>) -> Result<Vec<Listed>, Error> {
        let list: Containers = self.call("/containerd.services.containers.v1.Containers/List", namespace, ContainersQuery { filters })?;
        Ok(list.containers)
    }

    fn state(&self, namespace: &str, id: &str) -> Result<State, Error> {
        let query = TaskQuery { container_id: id.to_owned() };
        let task: Result<Task, Failure> = self.channel.call("/containerd.services.tasks.v1.Tasks/Get", &in_namespace(namespace), query);
        let process = match task {
            Err(Failure::Status(NOT_FOUND, _)) => None,
            task => task.map_err(failed)?.process,
        };
        const RUNNING: i32 = 2;
        Ok(match process {
            Some(Process { pid, status: RUNNING }) if pid > 0 => State::Running { pid: pid.cast_signed() },
            Some(_) => State::Other("stopped".to_owned()),
            None => State::Other("no task".to_owned()),
        })
    }

    fn call<In, Out>(&self, method: &str, namespace: &str, query: In) -> Result<Out, Error>
    where
        In: prost::Message + 'static,
        Out: prost::Message + Default + 'static,
    {
        self.channel.call(method, &in_namespace(namespace), query).map_err(failed)
    }
}

fn in_namespace(namespace: &str) -> Vec<(&'static str, &str)> {
    if namespace.is_empty() { Vec::new() } else { vec![("containerd-namespace", namespace)] }
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Connection(source) => Error::Silent { runtime: RUNTIME, at: SOCKET.into(), source },
        Failure::Status(number, text) => Error::Refused { runtime: RUNTIME, answer: format!("{text} (status {number})") },
    }
}

// Of containerd's messages, the fields that are read here; their numbers are its public interface (api/services/*/v1).

#[derive(Clone, PartialEq, prost::Message)]
struct NamespacesQuery {
    #[prost(string, tag = "1")]
    filter: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Namespaces {
    #[prost(message, repeated, tag = "1")]
    namespaces: Vec<Namespace>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Namespace {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainersQuery {
    #[prost(string, repeated, tag = "1")]
    filters: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Listed>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(map = "string, string", tag = "2")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TaskQuery {
    #[prost(string, tag = "1")]
    container_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Task {
    #[prost(message, optional, tag = "1")]
    process: Option<Process>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Process {
    #[prost(uint32, tag = "3")]
    pid: u32,
    #[prost(int32, tag = "4")]
    status: i32,
}

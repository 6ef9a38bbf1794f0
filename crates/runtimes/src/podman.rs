//! Podman has no daemon: where no service of it listens, its command is run, which reads the same state.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::MemfdFlags;
use serde::Deserialize;

use crate::docker;
use crate::error::Error;
use crate::seen::{Seen, State};
use crate::selector::{By, Runtime};

const SOCKET: &str = "/run/podman/podman.sock";
const PROGRAMS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/opt/bin"];
const LIMIT: u64 = 16 << 20;

pub(crate) fn ask(by: &By, deadline: Instant) -> Result<Vec<Seen>, Error> {
    if Path::new(SOCKET).exists() {
        match docker::ask_at(Runtime::Podman, Path::new(SOCKET), by, deadline) {
            // A socket that a service left behind; the command gives the same answer.
            Err(Error::Silent { source, .. }) if source.kind() == ErrorKind::ConnectionRefused => {}
            answer => return answer,
        }
    }
    let program = PROGRAMS.iter().map(|place| Path::new(place).join("podman")).find(|path| path.is_file());
    let program = program.ok_or_else(|| Error::Absent { runtime: Runtime::Podman, looked_for: SOCKET.into() })?;
    ask_command(program, by, deadline)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    names: Option<Vec<String>>,
    state: String,
    #[serde(default)]
    pid: i32,
}

fn ask_command(program: PathBuf, by: &By, deadline: Instant) -> Result<Vec<Seen>, Error> {
    const RUNTIME: Runtime = Runtime::Podman;
    let filter = match by {
        // Podman takes it for a pattern; containers that merely match it are left out below.
        By::Name(name) => format!("name=^{name}$"),
        By::Label { key, value } => format!("label={key}={value}"),
    };
    let mut command = Command::new(&program);
    command.args(["ps", "--all", "--format", "json", "--filter", &filter]);
    let (succeeded, output, said) = run(command, deadline).map_err(|source| Error::Silent { runtime: RUNTIME, at: program, source })?;
    if !succeeded {
        return Err(Error::Refused { runtime: RUNTIME, answer: String::from_utf8_lossy(&said).trim().to_owned() });
    }
    let listed: Option<Vec<Listed>> =
        serde_json::from_slice(&output).map_err(|error| Error::Nonsense { runtime: RUNTIME, problem: error.to_string() })?;
    let is_meant = |listed: &Listed| match by {
        By::Name(name) => listed.names.iter().flatten().any(|own| own == name),
        By::Label { .. } => true,
    };
    let seen = |Listed { id, names, state, pid }: Listed| Seen {
        runtime: RUNTIME,
        name: names.and_then(|names| names.into_iter().next()).unwrap_or_else(|| id.clone()),
        state: if state == "running" && pid > 0 { State::Running { pid } } else { State::Other(state) },
        id,
    };
    Ok(listed.unwrap_or_default().into_iter().filter(is_meant).map(seen).collect())
}

/// Whether it succeeded, its output and what it said. Files, not pipes: they need no reader while it writes.
fn run(mut command: Command, deadline: Instant) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
    let file = || rustix::fs::memfd_create("podman-output", MemfdFlags::CLOEXEC).map(File::from);
    let (mut output, mut said) = (file()?, file()?);
    let mut child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(said.try_clone()?).spawn()?;
    let status = shorefast_sys::deadline::exit_or_kill(&mut child, deadline)?.ok_or(ErrorKind::TimedOut)?;
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(LIMIT).read_to_end(&mut bytes).map(|_| bytes)
    };
    Ok((status.success(), read(&mut output)?, read(&mut said)?))
}

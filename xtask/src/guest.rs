//! `cargo xtask guest`: runs a command as root under another kernel.
//!
//! The guest is a user-mode Linux process. Its root filesystem is an overlay over this machine's: every program and file is at its
//! usual path, and nothing that the guest writes reaches us, except the exit status.

mod processor;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::kernels;
use processor::Processor;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kernel version: 6.1, 6.12 or 7.2
    #[arg(short, long)]
    kernel: String,
    /// Memory of the guest
    #[arg(short, long, default_value = "1024M")]
    memory: String,
    /// End the guest after that many seconds
    #[arg(short, long, default_value_t = 120)]
    timeout: u32,
    /// What to run there, with our working directory and environment
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The exit status when the guest ended without one: a crash, or the time was over.
const GUEST_DIED: u8 = 250;

const INIT: &str = include_str!("../guest/init.sh");
/// What older kernels need on newer processors (`guest/registers.rs`).
static REGISTERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/registers"));

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut stdout = std::io::stdout();
    let guest = Guest { kernel: &args.kernel, memory: &args.memory, timeout_seconds: args.timeout };
    let status = guest.run(&args.command, |line| {
        // A reader that has gone away does not stop the guest: its exit status still counts.
        drop(stdout.write_all(line));
    })?;
    Ok(ExitCode::from(status.unwrap_or(GUEST_DIED)))
}

/// Everything is on the host's file systems, so there is nothing to write back.
pub(crate) fn power_off() -> Result<()> {
    rustix::system::reboot(rustix::system::RebootCommand::PowerOff).context("cannot power off")
}

pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) memory: &'a str,
    pub(crate) timeout_seconds: u32,
}

impl Guest<'_> {
    /// Hands every line that the command prints to `line`. None: the guest died.
    pub(crate) fn run(&self, command: &[String], mut line: impl FnMut(&[u8])) -> Result<Option<u8>> {
        let kernel = kernels::installed(self.kernel)?;
        // The kernel makes a socket below it, whose path must be short.
        let scratch = tempfile::tempdir().context("cannot create a directory for the guest")?;
        let at = |name: &str| scratch.path().join(name);
        // A copy: a build while the guest runs replaces the program that we are.
        fs::copy("/proc/self/exe", at("xtask")).context("cannot copy our own program for the guest")?;
        fs::write(at("settings"), settings(&kernel.modules, scratch.path())?).context("cannot write the guest's settings")?;
        fs::write(at("command"), script(command)?).context("cannot write the guest's command")?;
        let init = at("init");
        fs::write(&init, INIT).context("cannot write the guest's init")?;
        fs::set_permissions(&init, std::os::unix::fs::PermissionsExt::from_mode(0o755)).context("cannot chmod the guest's init")?;
        fs::write(at("registers.so"), REGISTERS).context("cannot write the guest's registers")?;

        let processor = Processor::take();
        let mut machine = timeout_on(processor.as_ref())
            .args(["--foreground", "--kill-after=5", &self.timeout_seconds.to_string()])
            .arg(&kernel.program)
            .arg(format!("mem={}", self.memory))
            .args(["rootfstype=hostfs", "rootflags=/", "ro"])
            .arg(format!("init={}", init.display()))
            .arg(format!("uml_dir={}", scratch.path().display()))
            .args(["con0=null,fd:1", "con=null", "ssl=null", "quiet", "loglevel=1"])
            .arg(format!("SCRATCH={}", scratch.path().display()))
            .env("LD_PRELOAD", at("registers.so"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(at("stderr")).context("cannot create the guest's log")?)
            .spawn()
            .context("cannot start the guest")?;
        let console = machine.stdout.take().context("the guest has no console")?;
        for_each_line(BufReader::new(console), &mut line)?;
        let ended = machine.wait().context("cannot wait for the guest")?;

        let status = fs::read_to_string(at("status")).ok().and_then(|text| text.trim().parse().ok());
        if status.is_none() {
            let said = fs::read_to_string(at("stderr")).unwrap_or_default();
            eprintln!("guest kernel {} died ({ended}): {}", self.kernel, said.trim_end());
        }
        Ok(status)
    }
}

/// The program that ends another one when its time is over.
fn timeout_on(processor: Option<&Processor>) -> Command {
    const TIMEOUT: &str = "timeout";
    let Some(processor) = processor else { return Command::new(TIMEOUT) };
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &processor.number().to_string(), TIMEOUT]);
    command
}

/// The console is a terminal: it adds a carriage return to each line, and the kernel says good-bye on it.
fn for_each_line(mut console: impl BufRead, mut line: impl FnMut(&[u8])) -> Result<()> {
    let mut bytes = Vec::new();
    while console.read_until(b'\n', &mut bytes).context("cannot read the guest's console")? > 0 {
        if bytes.ends_with(b"\r\n") {
            bytes.truncate(bytes.len() - 2);
            bytes.push(b'\n');
        }
        if !bytes.starts_with(b"reboot: ") {
            line(&bytes);
        }
        bytes.clear();
    }
    Ok(())
}

fn settings(modules: &Path, scratch: &Path) -> Result<String> {
    let mut text = String::new();
    for (name, path) in [("modules", modules), ("scratch", scratch)] {
        text.push_str(&format!("{name}={}\n", quote(path.as_os_str().as_bytes())?));
    }
    Ok(text)
}

/// The command as a shell script, with our directory and environment.
fn script(command: &[String]) -> Result<String> {
    let directory = std::env::current_dir().context("no current directory")?;
    let mut text = format!("cd {} || exit 1\n", quote(directory.as_os_str().as_bytes())?);
    for (name, value) in std::env::vars().filter(|(name, _)| is_identifier(name)) {
        text.push_str(&format!("export {name}={}\n", quote(value.as_bytes())?));
    }
    let words = command.iter().map(|word| quote(word.as_bytes())).collect::<Result<Vec<_>>>()?;
    text.push_str(&format!("exec {}\n", words.join(" ")));
    Ok(text)
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit()) && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn quote(word: &[u8]) -> Result<String> {
    let word = str::from_utf8(word).context("the guest's shell script must be text")?;
    Ok(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_a_shell_would_expand() {
        assert_eq!(quote(b"a $b").unwrap(), "'a $b'");
        assert_eq!(quote(b"it's").unwrap(), r"'it'\''s'");
        assert!(quote(b"\xff").is_err());
    }

    #[test]
    fn drops_what_the_terminal_and_the_kernel_add() {
        let mut seen = Vec::new();
        for_each_line(&b"one\r\ntwo\nreboot: Power down\r\nlast"[..], |line| seen.push(line.to_vec())).unwrap();
        assert_eq!(seen, [b"one\n".to_vec(), b"two\n".to_vec(), b"last".to_vec()]);
    }
}

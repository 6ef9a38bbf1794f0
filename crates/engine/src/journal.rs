//! In: what happened to a mount. Out: one line about it in the host's journal, or in its syslog where there is no journal. A datagram that is
//! never waited for: where nobody listens, or the queue is full, the line is lost and nothing else.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::text;

/// By syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Mounted,
    Unmounted,
    Ended,
    Died,
    Healed,
    NotHealed,
    GaveUp,
    Refused,
    Failed,
}

impl Event {
    /// The value of SHOREFAST_EVENT, to search by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mounted => "mounted",
            Self::Unmounted => "unmounted",
            Self::Ended => "ended",
            Self::Died => "died",
            Self::Healed => "healed",
            Self::NotHealed => "not-healed",
            Self::GaveUp => "gave-up",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The mount that a line is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// `None`: it failed before it got one.
    pub id: Option<&'a str>,
    pub target: &'a Path,
    pub client: &'a str,
}

/// systemd's journal takes fields; what else listens takes lines.
const JOURNAL: &str = "/run/systemd/journal/socket";
const SYSLOG: &str = "/dev/log";

/// A client contributes to what is said, so it is bounded: in characters.
const LONGEST: usize = 2000;

pub fn tell(level: Level, event: Event, about: About<'_>, what: &dyn fmt::Display) {
    tell_at(Path::new(JOURNAL), Path::new(SYSLOG), level, event, about, what);
}

fn tell_at(journal: &Path, syslog: &Path, level: Level, event: Event, about: About<'_>, what: &dyn fmt::Display) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    let message = message(about, what);
    let to = |place: &Path, datagram: &[u8]| socket.send_to(datagram, place).map(drop);
    // A full queue is no reason to try the other: the same program reads both.
    if to(journal, &fields(level, event, about, &message)).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock) {
        let _ = to(syslog, &line(level, &message));
    }
}

fn message(about: About<'_>, what: &dyn fmt::Display) -> String {
    let id = about.id.map(|id| format!("{id}: ")).unwrap_or_default();
    let said = what.to_string();
    // A line of syslog is one line, and nothing in it may look like another one.
    let said: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = format!("{id}{}: {}", about.target.display(), said.join(" | "));
    text::printable_line(&message).chars().take(LONGEST).collect()
}

/// In the journal's own protocol: no value has a line break.
fn fields(level: Level, event: Event, about: About<'_>, message: &str) -> Vec<u8> {
    let target = text::escape(about.target.as_os_str().as_bytes());
    let mut fields = format!(
        "MESSAGE={message}\nPRIORITY={}\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=shorefast\nSHOREFAST_EVENT={}\nSHOREFAST_TARGET={target}\n\
         SHOREFAST_CLIENT={}\n",
        level as u8,
        event.name(),
        text::printable_line(about.client),
    );
    if let Some(id) = about.id {
        fields.push_str(&format!("SHOREFAST_ID={id}\n"));
    }
    fields.into_bytes()
}

/// As syslog(3) sends it, by the facility `daemon`.
fn line(level: Level, message: &str) -> Vec<u8> {
    const DAEMON: u8 = 3;
    format!("<{}>shorefast[{}]: {message}", DAEMON * 8 + level as u8, std::process::id()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(target: &Path) -> About<'_> {
        About { id: Some("m0001-2"), target, client: "sshfs" }
    }

    #[test]
    fn a_message_is_one_line_whatever_is_said() {
        let said = "the client's helper failed (exit status 1)\n  helper: no\u{1b}[2J\n\n  helper: way\r";
        let text = message(about(Path::new("/mnt\nPRIORITY=0")), &said);
        assert_eq!(text, "m0001-2: /mnt\\u000aPRIORITY=0: the client's helper failed (exit status 1) | helper: no\\u001b[2J | helper: way");
        assert_eq!(message(about(Path::new("/")), &"x".repeat(5000)).chars().count(), LONGEST);
    }

    #[test]
    fn nobody_adds_a_field() {
        let fields = fields(Level::Error, Event::Died, About { client: "x\nPRIORITY=0", ..about(Path::new("/a\nPRIORITY=1")) }, "died");
        let fields = String::from_utf8(fields).unwrap();
        assert_eq!(fields.lines().filter(|line| line.starts_with("PRIORITY=")).collect::<Vec<_>>(), ["PRIORITY=3"]);
        assert!(fields.ends_with("SHOREFAST_ID=m0001-2\n") && fields.contains("SHOREFAST_EVENT=died\n"), "{fields}");
    }

    #[test]
    fn where_there_is_no_journal_syslog_gets_a_line_and_a_full_queue_gets_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, syslog) = (directory.path().join("journal"), directory.path().join("log"));
        let tell = || tell_at(&journal, &syslog, Level::Error, Event::Died, about(Path::new("/mnt")), &"its client died");
        tell();
        let listener = UnixDatagram::bind(&syslog).unwrap();
        listener.set_nonblocking(true).unwrap();
        let heard = |listener: &UnixDatagram| {
            let mut buffer = [0; 4096];
            listener.recv(&mut buffer).ok().map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned())
        };
        assert_eq!(heard(&listener), None);
        tell();
        let line = heard(&listener).unwrap();
        assert!(line.starts_with("<27>shorefast[") && line.ends_with("]: m0001-2: /mnt: its client died"), "{line}");
        let first = UnixDatagram::bind(&journal).unwrap();
        first.set_nonblocking(true).unwrap();
        // More than any queue takes.
        (0..1000).for_each(|_| tell());
        assert!(heard(&first).unwrap().contains("SHOREFAST_EVENT=died"));
        assert_eq!(heard(&listener), None, "what the journal has no room for is not told twice");
    }

    #[test]
    fn a_line_has_facility_and_level() {
        assert!(line(Level::Warning, "x").starts_with(b"<28>shorefast["));
    }
}

//! In: the mode asked for, and whether the host has a helper. Out: the place where the client runs, and the reason. Decides only.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::host_helper::Helper;

/// The mode as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In a sandbox, from an image.
    Container,
    /// From an image, with full root rights on the host, mounting by itself. Used only when asked for explicitly.
    Chroot,
    /// In a container that already runs.
    Exec,
    /// With mount(8), which runs the host's helper.
    Host,
    /// `Host` if the host has a helper for the type, `Container` if not.
    Auto,
}

impl Mode {
    pub const NAMES: &[&str] = &["container", "chroot", "exec", "host", "auto"];
    const ALL: &[Mode] = &[Mode::Container, Mode::Chroot, Mode::Exec, Mode::Host, Mode::Auto];
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().zip(Self::ALL).find(|(name, _)| **name == text);
        known.map(|(_, mode)| *mode).ok_or_else(|| format!("{text:?} is no mode: {}", Self::NAMES.join(", ")))
    }
}

/// The resulting place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Container,
    Chroot,
    Exec,
    Host,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Container => "container",
            Self::Chroot => "chroot",
            Self::Exec => "exec",
            Self::Host => "host",
        })
    }
}

/// A place, and the reason for it: part of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub place: Place,
    pub why: String,
}

/// `called`: the mode in this call; `defined`: the mode in the client's definition. Looks for the host's helper only where it decides.
pub fn choose(called: Option<Mode>, defined: Option<Mode>, helper: impl FnOnce() -> Helper) -> Choice {
    let (mode, said_by) = match (called, defined) {
        (Some(mode), _) => (mode, "this call says so"),
        (None, Some(mode)) => (mode, "the client's definition says so"),
        (None, None) => (Mode::Container, "the default"),
    };
    let choice = |place, why: String| Choice { place, why };
    match mode {
        Mode::Container => choice(Place::Container, said_by.to_owned()),
        Mode::Chroot => choice(Place::Chroot, said_by.to_owned()),
        Mode::Exec => choice(Place::Exec, said_by.to_owned()),
        Mode::Host => choice(Place::Host, said_by.to_owned()),
        Mode::Auto => match helper() {
            Helper::Installed(path) => choice(Place::Host, format!("auto: this host has {}", path.display())),
            Helper::Ours(path) => choice(Place::Container, format!("auto: {} is Shorefast itself", path.display())),
            Helper::Missing(name) => choice(Place::Container, format!("auto: this host has no {name}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_first_counts_and_auto_looks_at_the_host() {
        let installed = || Helper::Installed("/sbin/mount.x".into());
        let ours = || Helper::Ours("/sbin/mount.x".into());
        let missing = || Helper::Missing("mount.x".into());
        type Row<'a> = (Option<Mode>, Option<Mode>, fn() -> Helper, Place, &'a str);
        let rows: [Row<'_>; 8] = [
            (None, None, installed, Place::Container, "the default"),
            (None, Some(Mode::Host), missing, Place::Host, "definition"),
            (None, Some(Mode::Chroot), installed, Place::Chroot, "definition"),
            (Some(Mode::Container), Some(Mode::Host), installed, Place::Container, "this call"),
            (Some(Mode::Host), None, missing, Place::Host, "this call"),
            (None, Some(Mode::Auto), installed, Place::Host, "has /sbin/mount.x"),
            (Some(Mode::Auto), None, missing, Place::Container, "has no mount.x"),
            (Some(Mode::Auto), None, ours, Place::Container, "is Shorefast"),
        ];
        for (called, defined, helper, place, why) in rows {
            let choice = choose(called, defined, helper);
            assert_eq!(choice.place, place, "{called:?} {defined:?}");
            assert!(choice.why.contains(why), "{choice:?}");
        }
    }

    #[test]
    fn every_name_is_a_mode_and_nothing_else_is() {
        for (name, mode) in Mode::NAMES.iter().zip(Mode::ALL) {
            assert_eq!(name.parse(), Ok(*mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), *name);
        }
        assert!("Container".parse::<Mode>().unwrap_err().contains("container, "));
    }
}

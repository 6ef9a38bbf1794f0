//! What happens to a FUSE mount whose client dies: how a definition and a mount's options say it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Item;

/// The client died by anything but its own orderly end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// A new client takes over, wherever the mount is. Users of the mount wait meanwhile.
    #[default]
    Heal,
    /// The mount stays, dead: errors are better than writes to the directory below it.
    Keep,
    /// The mount is detached, and the directory below it can be seen.
    Detach,
}

impl OnExit {
    const NAMES: [(&'static str, Self); 3] = [("heal", Self::Heal), ("keep", Self::Keep), ("detach", Self::Detach)];

    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }
}

/// How often, and how patiently, a new client is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HealPolicy {
    /// So many crashes and failed attempts within the time; with the next one it is given up.
    pub crashes: u32,
    pub within_seconds: u64,
    /// How long users of the mount wait for the new client; then they get errors. `None`: as long as a mount may take.
    pub deadline_seconds: Option<u64>,
}

impl Default for HealPolicy {
    fn default() -> Self {
        Self { crashes: 5, within_seconds: 600, deadline_seconds: None }
    }
}

/// As it is written in a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealLayer {
    pub crashes: Option<u32>,
    pub within: Option<String>,
    pub deadline: Option<String>,
}

impl HealLayer {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn over(self, below: Self) -> Self {
        Self { crashes: self.crashes.or(below.crashes), within: self.within.or(below.within), deadline: self.deadline.or(below.deadline) }
    }

    pub fn complete(&self) -> Result<HealPolicy, String> {
        let default = HealPolicy::default();
        let time = |text: &Option<String>| text.as_deref().map(parse_time).transpose();
        let within = time(&self.within).map_err(|problem| format!("key `heal`: `within`: {problem}"))?;
        let deadline = time(&self.deadline).map_err(|problem| format!("key `heal`: `deadline`: {problem}"))?;
        Ok(HealPolicy {
            crashes: self.crashes.unwrap_or(default.crashes),
            within_seconds: within.unwrap_or(default.within_seconds),
            deadline_seconds: deadline,
        })
    }
}

/// In seconds.
fn parse_time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text).map_err(|_| format!("{text:?} is no time: write \"30s\" or \"10m\""))?;
    if time.as_secs() == 0 { Err("it must be a second at least".to_owned()) } else { Ok(time.as_secs()) }
}

/// The options by which a single mount chooses, each beside a key of the definition.
pub const ON_EXIT: &str = "shorefast-on-exit";
pub const CRASHES: &str = "shorefast-crashes";
pub const WITHIN: &str = "shorefast-crashes-within";
pub const DEADLINE: &str = "shorefast-heal-deadline";

/// Takes those options out. `policy`: of the definition.
pub fn take(items: &mut Vec<Item>, on_exit: OnExit, policy: HealPolicy) -> Result<(OnExit, HealPolicy), Error> {
    let is_ours = |item: &Item| [ON_EXIT, CRASHES, WITHIN, DEADLINE].contains(&&*item.name);
    let (named, others): (Vec<_>, Vec<_>) = std::mem::take(items).into_iter().partition(is_ours);
    *items = others;
    let (mut on_exit, mut policy) = (on_exit, policy);
    for item in named {
        let value = item.value.as_deref().unwrap_or_default();
        match item.name.as_str() {
            ON_EXIT => {
                let found = OnExit::NAMES.iter().find(|(name, _)| *name == value);
                on_exit = found.ok_or(Error::Options { problem: "shorefast-on-exit is heal, keep or detach" })?.1;
            }
            CRASHES => policy.crashes = value.parse().map_err(|_| Error::Options { problem: "shorefast-crashes is a number" })?,
            WITHIN => {
                let problem = "shorefast-crashes-within is a time of a second at least, as 10m";
                policy.within_seconds = parse_time(value).map_err(|_| Error::Options { problem })?;
            }
            _ => {
                let problem = "shorefast-heal-deadline is a time of a second at least, as 30s";
                policy.deadline_seconds = Some(parse_time(value).map_err(|_| Error::Options { problem })?);
            }
        }
    }
    Ok((on_exit, policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, value: &str) -> Item {
        Item { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    #[test]
    fn a_mount_chooses_for_itself() {
        let mut items = vec![item("port", "22"), item(ON_EXIT, "keep"), item(CRASHES, "7"), item(WITHIN, "1h"), item(DEADLINE, "45s")];
        let (on_exit, policy) = take(&mut items, OnExit::Heal, HealPolicy::default()).unwrap();
        assert_eq!((on_exit, items.len()), (OnExit::Keep, 1));
        assert_eq!(policy, HealPolicy { crashes: 7, within_seconds: 3600, deadline_seconds: Some(45) });
        let bad =
            [(ON_EXIT, "mend"), (CRASHES, "many"), (CRASHES, "-1"), (WITHIN, "10"), (WITHIN, "0s"), (DEADLINE, "soon"), (DEADLINE, "")];
        for (name, value) in bad {
            assert!(take(&mut vec![item(name, value)], OnExit::Heal, HealPolicy::default()).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn times_are_checked() {
        let layer = |within: &str| HealLayer { within: Some(within.to_owned()), ..HealLayer::default() }.complete();
        assert_eq!(layer("2m").unwrap().within_seconds, 120);
        assert!(layer("soon").unwrap_err().contains("`within`"));
        assert!(layer("0s").is_err());
    }
}

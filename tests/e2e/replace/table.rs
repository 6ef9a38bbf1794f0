//! Mount tables of several processes as one text that is the same as long as nothing has changed but device numbers and ids.

use std::collections::HashMap;
use std::fs;

use super::scene::Elsewhere;

/// One line per mount that is a volume or that propagates, in the order of the paths: where, how it is mounted, and with whom it is
/// connected. Groups are numbered as they appear, so that only who shares with whom counts.
pub(crate) fn of(host: bool, elsewhere: &[(&str, &Elsewhere)]) -> Vec<String> {
    let mut tables: Vec<(String, String)> =
        elsewhere.iter().map(|(name, at)| ((*name).to_owned(), format!("/proc/{}", at.child.id()))).collect();
    if host {
        tables.insert(0, ("host".to_owned(), "/proc/thread-self".to_owned()));
    }
    let mut groups = HashMap::<String, usize>::new();
    let mut lines = Vec::new();
    for (name, process) in tables {
        let text = fs::read_to_string(format!("{process}/mountinfo")).expect("a running process");
        let mut mounts: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        mounts.sort_by(|one, other| one[4].cmp(other[4]));
        for fields in mounts {
            let optional: Vec<_> = fields[6..].iter().take_while(|field| **field != "-").collect();
            let fstype = fields[6 + optional.len() + 1];
            let mut connected: Vec<_> = optional
                .into_iter()
                .filter(|field| !field.starts_with("propagate_from"))
                .map(|field| match field.split_once(':') {
                    Some((kind, group)) => {
                        let next = groups.len();
                        format!("{kind}:{}", groups.entry(group.to_owned()).or_insert(next))
                    }
                    None => (*field).to_owned(),
                })
                .collect();
            connected.sort();
            lines.push(format!(
                "{name} {} {} {} {fstype} {}",
                fields[4],
                fields[3].trim_end_matches("//deleted"),
                fields[5],
                connected.join(" ")
            ));
        }
    }
    lines
}

//! A systemd .mount unit for one mount, which the type's helper (`mount.TYPE`) then makes. Pure.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::error::Error;

/// The mount, in mount(8)'s terms.
#[derive(Clone, Copy, Debug)]
pub struct Mount<'a> {
    pub fstype: &'a str,
    pub source: &'a str,
    /// Absolute.
    pub target: &'a Path,
    pub options: &'a str,
}

/// The file's name: systemd requires that it matches `Where=`.
pub fn name(target: &Path) -> String {
    let parts: Vec<_> =
        target.components().filter_map(|part| if let std::path::Component::Normal(name) = part { Some(name) } else { None }).collect();
    if parts.is_empty() {
        return "-.mount".to_owned();
    }
    let escaped: Vec<_> = parts.iter().enumerate().map(|(at, part)| escape(part.as_bytes(), at == 0)).collect();
    format!("{}.mount", escaped.join("-"))
}

/// As systemd-escape does: a dash stands for a slash, so nothing else may be one.
fn escape(part: &[u8], is_first: bool) -> String {
    let plain = |at: usize, byte: u8| byte.is_ascii_alphanumeric() || b":_".contains(&byte) || (byte == b'.' && !(is_first && at == 0));
    part.iter()
        .enumerate()
        .map(|(at, byte)| if plain(at, *byte) { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") })
        .collect()
}

pub fn text(mount: &Mount<'_>) -> Result<String, Error> {
    let target = mount.target.to_str().ok_or_else(|| Error::NotForUnit { text: mount.target.display().to_string() })?;
    let [fstype, source, target, options] = [mount.fstype, mount.source, target, mount.options].map(value);
    let (fstype, source, target, options) = (fstype?, source?, target?, options?);
    // A path of this host needs no network; everything else is taken for remote.
    let (after, wanted_by, netdev) = if source.starts_with('/') {
        ("", "multi-user.target", None)
    } else {
        ("Wants=network-online.target\nAfter=network-online.target\n", "remote-fs.target", Some("_netdev".to_owned()))
    };
    let options: Vec<_> = netdev.into_iter().chain(Some(options).filter(|options| !options.is_empty())).collect();
    let options = if options.is_empty() { String::new() } else { format!("Options={}\n", options.join(",")) };
    Ok(format!(
        "# {}\n[Unit]\nDescription={source} at {target}\n{after}\n[Mount]\nWhat={source}\nWhere={target}\nType={fstype}\n{options}\n[Install]\nWantedBy={wanted_by}\n",
        name(mount.target)
    ))
}

/// Escapes percent signs, which begin specifiers, and refuses line breaks.
fn value(text: &str) -> Result<String, Error> {
    if text.chars().any(char::is_control) || text != text.trim() || text.ends_with('\\') {
        return Err(Error::NotForUnit { text: text.escape_debug().to_string() });
    }
    Ok(text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_target() {
        let rows = [
            ("/srv/data", "srv-data.mount"),
            ("/", "-.mount"),
            ("/srv/a-b", "srv-a\\x2db.mount"),
            ("/.hidden/.x", "\\x2ehidden-.x.mount"),
            ("/a b/ü", "a\\x20b-\\xc3\\xbc.mount"),
        ];
        for (target, expected) in rows {
            assert_eq!(name(Path::new(target)), expected, "{target}");
        }
    }

    #[test]
    fn a_unit_says_what_mount_would_be_told() {
        let unit = |source: &str, options: &str| text(&Mount { fstype: "nfs", source, target: Path::new("/srv/data"), options });
        let remote = unit("server:/x%y", "ro").unwrap();
        for line in [
            "What=server:/x%%y",
            "Where=/srv/data",
            "Type=nfs",
            "Options=_netdev,ro",
            "After=network-online.target",
            "WantedBy=remote-fs.target",
        ] {
            assert!(remote.lines().any(|one| one == line), "{line} in {remote}");
        }
        let local = unit("/srv/source", "").unwrap();
        assert!(!local.contains("network") && !local.contains("Options="), "{local}");
        for source in ["a\nExecStart=x", " a", "a\\"] {
            assert!(matches!(unit(source, ""), Err(Error::NotForUnit { .. })), "{source:?}");
        }
    }
}

//! The systemd unit: at boot, before anybody mounts, it clears away what an unclean end left.

use std::path::Path;

pub const NAME: &str = "shorefast.service";

/// What `systemctl enable` would link, and to where.
pub const WANTED_BY: &str = "multi-user.target.wants";

pub fn text(binary: &Path) -> String {
    WRITTEN.replace(USUAL, &binary.display().to_string())
}

/// As it can be used where the program is in the usual place.
const WRITTEN: &str = include_str!("../../../deploy/systemd/shorefast.service");
const USUAL: &str = "/usr/local/lib/shorefast/shorefast";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_the_installed_binary() {
        let text = text(Path::new("/opt/shorefast/shorefast"));
        assert!(text.contains("\nExecStart=/opt/shorefast/shorefast reconcile\n") && !text.contains(USUAL), "{text}");
    }
}

//! Our command line, which every user of the host can read. Some callers (kubelet among them) put passwords there, as mount(8) requires
//! them to: they are overwritten as soon as we run.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use shorefast_engine::options;

/// Does nothing where there is nothing to hide. If the kernel does not allow it, that is not an error: the caller has already exposed the
/// secret.
pub fn hide_secrets(arguments: &[OsString]) {
    let places = places(arguments);
    if !places.is_empty() {
        let _ = shorefast_sys::arguments::blot_out(&places);
    }
}

/// The positions of secrets in the command line, counted from its first byte: each argument ends with a NUL.
fn places(arguments: &[OsString]) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut places = Vec::new();
    for argument in arguments {
        if let Some(text) = argument.to_str() {
            places.extend(options::secrets_in(text).into_iter().map(|place| start + place.start..start + place.end));
        }
        start += argument.as_bytes().len() + 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_to_hide() {
        let line = ["shorefast", "mount", "-o", "user=me,password=hunter2,ro", "//host/share", "/mnt"];
        let whole = line.join("\0");
        let arguments: Vec<_> = line.iter().map(OsString::from).collect();
        let found: Vec<_> = places(&arguments).into_iter().map(|place| &whole[place]).collect();
        assert_eq!(found, ["hunter2"]);
    }
}

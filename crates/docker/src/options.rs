//! In: the options that a volume is created with. Out: checked options, and the resulting request to mount. The keys are those of Docker's own
//! `local` driver, which follow mount(8): type, device, o.

use std::collections::BTreeMap;
use std::path::PathBuf;

use shorefast_engine::mode::Mode;
use shorefast_engine::nearest::nearest;
use shorefast_engine::options;
use shorefast_engine::request::{ClientChoice, Request, SecretFile};

use crate::error::Error;

pub type Options = BTreeMap<String, String>;

const KNOWN: &[&str] = &["type", "device", "o", "secret-file", "client", "image"];

/// The same keys under the names that other plugins use.
const ELSEWHERE: &[(&str, &str)] = &[
    ("sshcmd", "device"),
    ("remote", "device"),
    ("share", "device"),
    ("source", "device"),
    ("fstype", "type"),
    ("opts", "o"),
    ("options", "o"),
    ("mountopts", "o"),
    ("password", "secret-file"),
    ("passwd", "secret-file"),
    ("id_rsa", "secret-file"),
];

/// The kernel's limit for mount(2)'s data, and more than any path has.
const LONGEST: usize = 4095;

/// Drops empty options, which compose files may have. Refuses secrets, because checked options are stored on disk.
pub fn check(given: Options) -> Result<Options, Error> {
    for (key, value) in &given {
        if !KNOWN.contains(&key.as_str()) {
            let word = key.to_ascii_lowercase();
            let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
            let key = key.chars().take(100).collect();
            return Err(Error::UnknownOption { key, nearest: elsewhere.or_else(|| nearest(&word, KNOWN.iter().copied())), known: KNOWN });
        }
        if value.len() > LONGEST || value.contains('\0') {
            return Err(Error::Value { key: key.clone() });
        }
    }
    let options: Options = given.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if !options.contains_key("type") && !options.contains_key("client") {
        return Err(Error::MissingOption { key: "type", example: "-o type=sshfs, as in mount -t" });
    }
    let Some(device) = options.get("device") else {
        return Err(Error::MissingOption { key: "device", example: "-o device=user@host:/data, what is mounted" });
    };
    if has_password(device) {
        return Err(Error::Secret { what: "the password in the option \"device\"".to_owned() });
    }
    if let Some(name) = options.get("o").and_then(|text| secret_in(text)) {
        return Err(Error::Secret { what: format!("the value of {name:?} in the option \"o\"") });
    }
    Ok(options)
}

/// Endings of option names whose values are secrets, for any client. (`PasswordAuthentication=no` is not a secret, and neither is
/// `passwd_file=PATH`.) Further secrets of a client's definition are found when that is checked.
const SECRETS: &[&str] =
    &["password", "password2", "passwd", "passphrase", "pass", "secret", "token", "secret_key", "secret-key", "secretkey"];

fn secret_in(text: &str) -> Option<String> {
    // Options that cannot be parsed are refused when they are checked.
    let items = options::parse(text).ok()?.items;
    let is_secret = |item: &options::Item| {
        let name = item.name.to_ascii_lowercase();
        item.value.is_some() && SECRETS.iter().any(|end| name.ends_with(end))
    };
    items.into_iter().find(is_secret).map(|item| item.name)
}

/// `scheme://user:password@host`
fn has_password(device: &str) -> bool {
    let Some((_, rest)) = device.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Everything except the target and the deadlines.
pub fn request(label: String, options: &Options) -> Request {
    let option = |key: &str| options.get(key).cloned();
    Request {
        fstype: option("type"),
        options: option("o").unwrap_or_default(),
        secret: option("secret-file").map(PathBuf::from),
        secret_file: SecretFile::OfRoot,
        client: option("client").map_or(ClientChoice::ByType, ClientChoice::Named),
        image: option("image"),
        // Never mount(8): its mounts have no record, so we could not detect their end.
        mode: Some(Mode::Container),
        label: Some(label),
        ..Request::new(option("device").unwrap_or_default(), "")
    }
}

/// Keys whose values differ.
pub fn differences(one: &Options, other: &Options) -> Vec<String> {
    let keys = one.keys().chain(other.keys()).filter(|key| one.get(*key) != other.get(*key));
    let mut keys: Vec<_> = keys.cloned().collect();
    keys.sort();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn mistakes_are_said_with_the_word_that_was_meant() {
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);
        let rows: &[Row<'_>] = &[
            (&[("type", "sshfs"), ("device", "u@h:/d"), ("o", "port=2222,allow_other")], None),
            (&[("client", "x"), ("device", "y"), ("o", "")], None),
            (&[("tpye", "sshfs"), ("device", "x")], Some("did you mean \"type\"?")),
            (&[("type", "sshfs"), ("Device", "x")], Some("did you mean \"device\"?")),
            (&[("sshcmd", "u@h:/d")], Some("did you mean \"device\"?")),
            (&[("type", "sshfs"), ("device", "x"), ("password", "hunter2")], Some("did you mean \"secret-file\"?")),
            (&[("type", "sshfs"), ("device", "x"), ("colour", "red")], Some("there are type, device, o, ")),
            (&[("type", "sshfs")], Some("\"device\" is missing")),
            (&[("device", "x")], Some("\"type\" is missing")),
            (&[("type", ""), ("device", "x")], Some("\"type\" is missing")),
            (&[("type", "a\0"), ("device", "x")], Some("has a NUL")),
            (&[("type", "cifs"), ("device", "//h/s"), ("o", "user=me,password=hunter2,ro")], Some("the value of \"password\"")),
            (&[("type", "rclone"), ("device", "r:"), ("o", "s3-Secret-Key=hunter2")], Some("the value of \"s3-Secret-Key\"")),
            (&[("type", "cifs"), ("device", "//h/s"), ("o", "user=me,credentials=/etc/cifs")], None),
            (&[("type", "sshfs"), ("device", "h:"), ("o", "StrictHostKeyChecking=no,PasswordAuthentication=no,password_stdin")], None),
            (&[("type", "davfs"), ("device", "https://me:hunter2@host/x")], Some("the password in the option \"device\"")),
            (&[("type", "davfs"), ("device", "https://me@host:8443/x:y@z")], None),
            (&[("type", "sshfs"), ("device", "me@host:/a@b")], None),
        ];
        for (pairs, expected) in rows {
            match (check(given(pairs)), expected) {
                (Ok(options), None) => assert!(options.values().all(|value| !value.is_empty())),
                (Err(error), Some(words)) => {
                    let said = error.to_string();
                    assert!(said.contains(words) && !said.contains("hunter2"), "{pairs:?}: {said}");
                }
                (other, _) => panic!("{pairs:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn differences_have_names() {
        let one = given(&[("type", "sshfs"), ("device", "x"), ("o", "ro")]);
        let other = given(&[("type", "sshfs"), ("device", "y"), ("image", "dir:/x")]);
        assert_eq!(differences(&one, &other), ["device", "image", "o"]);
        assert_eq!(differences(&one, &one), Vec::<String>::new());
    }

    proptest::proptest! {
        #[test]
        fn what_passes_has_no_password(value in ".*") {
            let text = format!("user=me,password={value}");
            let unreadable = options::parse(&text).is_err();
            proptest::prop_assert!(unreadable || check(given(&[("type", "x"), ("device", "y"), ("o", &text)])).is_err());
        }
    }
}

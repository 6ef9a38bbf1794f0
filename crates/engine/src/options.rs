//! In: the caller's `-o` text. Out: mount flags, options for the client, and nothing for options that only mount(8) and fstab use.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// `name` or `name=value`. Quotes in a value are part of it: their meaning is up to the reader of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub value: Option<String>,
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(out, "{}={value}", self.name),
            None => out.write_str(&self.name),
        }
    }
}

/// The caller's options, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// mount(2) flags that the broker sets on the mount, whatever the client passes.
    pub flags: u64,
    /// For the client.
    pub items: Vec<Item>,
}

/// Flags of the mount: name, bits to set, bits to clear. Clients need not know them.
const FLAGS: &[(&str, u64, u64)] = &[
    ("ro", libc::MS_RDONLY, 0),
    ("rw", 0, libc::MS_RDONLY),
    ("nosuid", libc::MS_NOSUID, 0),
    ("suid", 0, libc::MS_NOSUID),
    ("nodev", libc::MS_NODEV, 0),
    ("dev", 0, libc::MS_NODEV),
    ("noexec", libc::MS_NOEXEC, 0),
    ("exec", 0, libc::MS_NOEXEC),
    ("sync", libc::MS_SYNCHRONOUS, 0),
    ("async", 0, libc::MS_SYNCHRONOUS),
    ("dirsync", libc::MS_DIRSYNC, 0),
    ("noatime", libc::MS_NOATIME, libc::MS_STRICTATIME),
    ("atime", 0, libc::MS_NOATIME),
    ("nodiratime", libc::MS_NODIRATIME, 0),
    ("diratime", 0, libc::MS_NODIRATIME),
    ("relatime", libc::MS_RELATIME, libc::MS_NOATIME | libc::MS_STRICTATIME),
    ("norelatime", 0, libc::MS_RELATIME),
    ("strictatime", libc::MS_STRICTATIME, libc::MS_NOATIME),
    ("nostrictatime", 0, libc::MS_STRICTATIME),
    ("lazytime", libc::MS_LAZYTIME, 0),
    ("nolazytime", 0, libc::MS_LAZYTIME),
    ("nosymfollow", 256, 0),
    ("symfollow", 0, 256),
];

/// Options for mount(8), fstab and systemd, never for a client.
const FOR_NOBODY: &[&str] =
    &["defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev", "silent", "loud"];

const FOR_NOBODY_WITH_VALUE: &[&str] = &["comment", "helper", "uhelper"];

pub fn parse(text: &str) -> Result<Options, Error> {
    let mut options = Options::default();
    for item in split(text)? {
        let plain = item.value.is_none();
        if let Some((name, set, clear)) = FLAGS.iter().find(|(name, ..)| plain && *name == item.name) {
            options.flags = options.flags & !clear | set;
            // Many clients behave differently on a read-only mount; the other flags do not concern them.
            if *name == "ro" {
                options.items.push(item);
            }
        } else if !(plain && FOR_NOBODY.contains(&item.name.as_str())
            || item.name.starts_with("x-")
            || item.name.starts_with("X-")
            || FOR_NOBODY_WITH_VALUE.contains(&item.name.as_str()))
        {
            options.items.push(item);
        }
    }
    if options.flags & libc::MS_RDONLY == 0 {
        options.items.retain(|item| item.name != "ro" || item.value.is_some());
    }
    Ok(options)
}

impl Options {
    /// Adds these options, replacing any of the same name.
    pub fn with(mut self, others: Self) -> Self {
        self.flags |= others.flags;
        self.items.retain(|item| !others.items.iter().any(|other| other.name == item.name));
        self.items.extend(others.items);
        self
    }
}

/// The names of the set flags.
pub fn flag_names(word: u64) -> impl Iterator<Item = &'static str> {
    FLAGS.iter().filter(move |(_, set, _)| word & set != 0).map(|(name, ..)| *name)
}

/// The flags that belong to the superblock, not to the mount, and are not passed to a client anyway.
pub fn superblock_flag_names(word: u64) -> impl Iterator<Item = &'static str> {
    flag_names(word & (libc::MS_SYNCHRONOUS | libc::MS_DIRSYNC | libc::MS_LAZYTIME))
}

/// The names of all options in a text, flags included.
pub fn names(text: &str) -> Result<Vec<String>, Error> {
    split(text).map(|items| items.into_iter().map(|item| item.name).collect())
}

/// The text without the options of these names.
pub fn without(text: &str, names: &[&str]) -> Result<String, Error> {
    let kept: Vec<_> = split(text)?.into_iter().filter(|item| !names.contains(&item.name.as_str())).collect();
    Ok(join(&kept))
}

/// Splits at commas that are not in double quotes.
fn split(text: &str) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for character in text.chars().chain([',']) {
        match character {
            '\0' => return Err(Error::Options { problem: "a NUL byte" }),
            ',' if !quoted => {
                let item = std::mem::take(&mut current);
                if !item.is_empty() {
                    items.push(match item.split_once('=') {
                        Some((name, value)) => Item { name: name.to_owned(), value: Some(value.to_owned()) },
                        None => Item { name: item, value: None },
                    });
                }
            }
            _ => {
                quoted ^= character == '"';
                current.push(character);
            }
        }
    }
    if quoted { Err(Error::Options { problem: "an unclosed double quote" }) } else { Ok(items) }
}

/// The options as one string for the client.
pub fn join(items: &[Item]) -> String {
    items.iter().map(Item::to_string).collect::<Vec<_>>().join(",")
}

/// The same for display and logs: possible secrets are masked.
pub fn join_redacted(items: &[Item]) -> String {
    let redacted =
        items.iter().map(|item| Item { name: item.name.clone(), value: item.value.as_ref().map(|value| redact(&item.name, value)) });
    join(&redacted.collect::<Vec<_>>())
}

/// A caller's whole text for display and logs.
pub fn redacted(text: &str) -> String {
    split(text).map_or_else(|_| "[unreadable]".to_owned(), |items| join_redacted(&items))
}

/// The ranges of a text (options or anything else) that look like a secret.
pub fn secrets_in(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    // Like `split`. An unclosed quote hides the rest: better to mask too much than to show part of a password.
    let is_end = |character: char| {
        quoted ^= character == '"';
        character == ',' && !quoted
    };
    for part in text.split(is_end) {
        // `--options=password=…` is one word.
        let option = if part.starts_with("--") { part.split_once('=').map_or(part, |(_, rest)| rest) } else { part };
        if let Some((name, value)) = option.split_once('=')
            && looks_secret(name, value)
        {
            let end = start + part.len();
            places.push(end - value.len()..end);
        }
        start += part.len() + 1;
    }
    places
}

fn redact(name: &str, value: &str) -> String {
    if looks_secret(name, value) { "[redacted]".to_owned() } else { value.to_owned() }
}

/// Decided by the name alone: a password may look like a path. A path is shown only for options that name a file.
fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let names_a_file = value.starts_with('/') && (has(&["file", "keyring", "keytab", "path"]) || name == "credentials" || name == "cred");
    has(&["pass", "secret", "token", "key", "cred"]) && !names_a_file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (u64, String) {
        let options = parse(text).unwrap();
        (options.flags, join(&options.items))
    }

    #[test]
    fn options_go_where_they_belong() {
        let rows: &[(&str, u64, &str)] = &[
            ("", 0, ""),
            ("ro,noexec,allow_other", libc::MS_RDONLY | libc::MS_NOEXEC, "ro,allow_other"),
            ("ro,rw", 0, ""),
            ("noatime,strictatime", libc::MS_STRICTATIME, ""),
            ("_netdev,x-systemd.automount,defaults,nofail,comment=x,port=22,uhelper=hal", 0, "port=22"),
            ("context=\"a:b,c\",ro", libc::MS_RDONLY, "context=\"a:b,c\",ro"),
            (",,a=b=c,", 0, "a=b=c"),
            ("ro=1", 0, "ro=1"),
        ];
        for (text, flags, items) in rows {
            assert_eq!(parsed(text), (*flags, (*items).to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_a_definition_insists_on_replaces_what_the_caller_says() {
        let options = parse("ro,log-file=/var/log/x,port=1").unwrap().with(parse("log-file=-,quiet").unwrap());
        assert_eq!((options.flags, join(&options.items).as_str()), (libc::MS_RDONLY, "ro,port=1,log-file=-,quiet"));
        let options = parse("rw").unwrap().with(parse("ro").unwrap());
        assert_eq!((options.flags, join(&options.items).as_str()), (libc::MS_RDONLY, "ro"));
    }

    #[test]
    fn refuses_an_open_quote() {
        assert!(parse("context=\"a,b").is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let items = parse("user=me,password=hunter2,passwd_file=/etc/key,secret=x").unwrap().items;
        assert_eq!(join_redacted(&items), "user=me,password=[redacted],passwd_file=/etc/key,secret=[redacted]");
        let items = parse("password=/hunter2,credentials=/etc/cred,secret=/x,secretfile=/etc/s").unwrap().items;
        assert_eq!(join_redacted(&items), "password=[redacted],credentials=/etc/cred,secret=[redacted],secretfile=/etc/s");
    }

    #[test]
    fn secrets_are_found_in_any_text() {
        let rows: [(&str, &[&str]); 9] = [
            ("user=me,password=hunter2,ro", &["hunter2"]),
            ("--options=pass=a=b,secret=c", &["a=b", "c"]),
            ("passwd_file=/etc/key", &[]),
            ("password=/hunter2,ro", &["/hunter2"]),
            ("--options=secret=/x/y==", &["/x/y=="]),
            ("ro,password=\"a,b\",user=me", &["\"a,b\""]),
            ("password=\"a,b", &["\"a,b"]),
            ("password=", &[""]),
            ("//server/pass", &[]),
        ];
        for (text, expected) in rows {
            let found: Vec<_> = secrets_in(text).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_joins_back(text in ".*") {
            if let Ok(options) = parse(&text) {
                let again = parse(&join(&options.items)).unwrap();
                proptest::prop_assert_eq!(again.items, options.items);
            }
        }
    }
}

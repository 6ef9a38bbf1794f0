//! The option string of mount(2), taken apart.

use rustix::io::Errno;

use crate::error::Refusal;

/// `key` or `key=value`, as fsconfig takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: String,
    pub value: Option<String>,
}

impl Item {
    pub(crate) fn flag(key: &str) -> Self {
        Self { key: key.to_owned(), value: None }
    }

    pub(crate) fn value(key: &str, value: impl ToString) -> Self {
        Self { key: key.to_owned(), value: Some(value.to_string()) }
    }
}

/// Splits at commas. `None`: only the kernel's own parser for this filesystem can tell (a quoted
/// comma of a security label, a doubled comma in a CIFS password), so the string has to go to it
/// in one piece.
pub fn split(data: &str) -> Option<Vec<Item>> {
    if data.contains('"') || data.contains(",,") {
        return None;
    }
    let item = |text: &str| match text.split_once('=') {
        Some((key, value)) => Item::value(key, value),
        None => Item::flag(text),
    };
    Some(data.split(',').filter(|text| !text.is_empty()).map(item).collect())
}

/// What a FUSE client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fuse {
    /// The number of its /dev/fuse, in its own table.
    pub fd: u32,
    /// Everything else that the kernel should hear, in the client's order.
    pub rest: Vec<Item>,
}

/// Reads a FUSE client's options: known ones only. Ids are numbers of the client's namespace, so
/// they are read and dropped; the policy puts in those of the mount's owner.
pub fn fuse(data: &str) -> Result<Fuse, Refusal> {
    let invalid = |reason: String| Refusal::policy(Errno::INVAL, reason);
    let items = split(data).ok_or_else(|| invalid("quoted or doubled commas in FUSE options".into()))?;
    let mut fd = None;
    let mut rest: Vec<Item> = Vec::new();
    for item in items {
        let bad = || invalid(format!("bad value for FUSE option {}", item.key));
        let number = || item.value.as_deref().and_then(|value| value.parse::<u32>().ok()).ok_or_else(bad);
        if rest.iter().any(|earlier| earlier.key == item.key) || (item.key == "fd" && fd.is_some()) {
            return Err(invalid(format!("FUSE option {} given twice", item.key)));
        }
        match item.key.as_str() {
            "fd" => fd = Some(number()?),
            // Signed: clients print their uid with %i.
            "user_id" | "group_id" => drop(item.value.as_deref().and_then(|value| value.parse::<i64>().ok()).ok_or_else(bad)?),
            "rootmode" => {
                let mode = item.value.as_deref().and_then(|value| u32::from_str_radix(value, 8).ok()).ok_or_else(bad)?;
                if mode & libc::S_IFMT != libc::S_IFDIR {
                    return Err(invalid(format!("root of type {mode:o}: the target is a directory")));
                }
                rest.push(item);
            }
            "max_read" | "blksize" => {
                number()?;
                rest.push(item);
            }
            "default_permissions" | "allow_other" if item.value.is_none() => rest.push(item),
            _ => return Err(invalid(format!("unknown FUSE option {:?}", item.key))),
        }
    }
    let fd = fd.ok_or_else(|| invalid("no fd among the FUSE options".into()))?;
    Ok(Fuse { fd, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libfuse_sends() {
        let fuse = fuse("fd=3,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=131072").unwrap();
        assert_eq!(fuse.fd, 3);
        let keys: Vec<_> = fuse.rest.iter().map(|item| item.key.as_str()).collect();
        assert_eq!(keys, ["rootmode", "allow_other", "max_read"]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let rows = [
            ("no descriptor", "rootmode=40000"),
            ("an unknown option", "fd=3,suid"),
            ("a subtype in disguise", "fd=3,subtype=ext4"),
            ("a source in disguise", "fd=3,source=/etc/shadow"),
            ("a negative descriptor", "fd=-1,rootmode=40000"),
            ("a huge descriptor", "fd=99999999999"),
            ("a descriptor that is no number", "fd=3x"),
            ("a second descriptor", "fd=3,fd=4"),
            ("a doubled option", "fd=3,rootmode=40000,rootmode=40000"),
            ("a file as root", "fd=3,rootmode=100000"),
            ("a device as root", "fd=3,rootmode=60000"),
            ("a value for a flag", "fd=3,allow_other=1"),
            ("quotes", "fd=3,context=\"a,b\""),
            ("an id that is no number", "fd=3,user_id=root"),
            ("an empty value", "fd=,rootmode=40000"),
        ];
        for (name, data) in rows {
            assert_eq!(fuse(data).unwrap_err().errno, Errno::INVAL, "{name}");
        }
    }

    #[test]
    fn splits_and_says_when_it_cannot() {
        assert_eq!(split("size=1m,,ro"), None);
        assert_eq!(split("context=\"a,b\""), None);
        assert_eq!(split(",size=1m,huge=never,"), Some(vec![Item::value("size", "1m"), Item::value("huge", "never")]));
        assert_eq!(split("a=b=c"), Some(vec![Item::value("a", "b=c")]));
        assert_eq!(split(""), Some(vec![]));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(data in ".*") {
            let _ = (split(&data), fuse(&data));
        }
    }
}

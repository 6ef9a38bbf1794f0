//! In: the option string of mount(2). Out: single options, as fsconfig takes them.

use rustix::io::Errno;

use crate::error::Refusal;

/// `key` or `key=value`, as fsconfig takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: String,
    /// Bytes: passwords are in whatever character set their server uses.
    pub value: Option<Vec<u8>>,
}

impl Item {
    pub fn flag(key: &str) -> Self {
        Self { key: key.to_owned(), value: None }
    }

    pub fn value(key: &str, value: impl ToString) -> Self {
        Self { key: key.to_owned(), value: Some(value.to_string().into_bytes()) }
    }

    /// The value as text.
    fn text(&self) -> Option<&str> {
        self.value.as_deref().and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// Labels of security modules: their values may be quoted, with commas inside.
const LABELS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];

/// Splits options as the kernel would, so that the kernel does not have to: each is passed to it separately.
///
/// * A comma inside the quotes of a label is part of it; the quotes are not.
/// * For CIFS a doubled comma is a comma in the value, such as in a password.
pub fn split(fstype: &str, data: &[u8]) -> Vec<Item> {
    let is_doubled = has_doubled_commas(fstype);
    let mut items = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let (one, after) = if is_label(rest) { label(rest) } else { one(rest, is_doubled) };
        rest = after;
        if !one.is_empty() {
            items.push(item(&one));
        }
    }
    items
}

fn has_doubled_commas(fstype: &str) -> bool {
    matches!(fstype, "cifs" | "smb3")
}

fn is_label(rest: &[u8]) -> bool {
    LABELS.iter().any(|label| rest.strip_prefix(label.as_bytes()).is_some_and(|value| value.starts_with(b"=\"")))
}

/// Up to the comma after the closing quote, without quotes.
fn label(rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut quoted = false;
    let end = rest.iter().position(|byte| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    });
    let (one, after) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + 1..]));
    (one.iter().copied().filter(|byte| *byte != b'"').collect(), after)
}

fn one(rest: &[u8], is_doubled: bool) -> (Vec<u8>, &[u8]) {
    let mut one = Vec::new();
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b',' if is_doubled && rest.get(at + 1) == Some(&b',') => at += 1,
            b',' => return (one, &rest[at + 1..]),
            _ => {}
        }
        one.push(rest[at]);
        at += 1;
    }
    (one, &rest[rest.len()..])
}

fn item(one: &[u8]) -> Item {
    let key = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match one.iter().position(|byte| *byte == b'=') {
        Some(at) => Item { key: key(&one[..at]), value: Some(one[at + 1..].to_vec()) },
        None => Item { key: key(one), value: None },
    }
}

/// For the classic mount(2), where the kernel splits the options: it gets the same result as [`split`].
pub fn join(fstype: &str, items: &[Item]) -> Vec<u8> {
    let word = |item: &Item| {
        let Some(value) = &item.value else { return item.key.clone().into_bytes() };
        let value = if LABELS.contains(&item.key.as_str()) && value.contains(&b',') {
            [b"\"", &value[..], b"\""].concat()
        } else if has_doubled_commas(fstype) {
            value.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect()
        } else {
            value.clone()
        };
        [item.key.as_bytes(), b"=", &value[..]].concat()
    };
    items.iter().map(word).collect::<Vec<_>>().join(&b","[..])
}

/// The options of a FUSE mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fuse {
    /// The client's descriptor of /dev/fuse.
    pub fd: u32,
    /// All other options for the kernel, in the client's order.
    pub rest: Vec<Item>,
}

/// Parses a FUSE client's options: known ones only. Ids are numbers of the client's user namespace, so they are parsed and dropped; the
/// policy inserts those of the mount's owner.
pub fn fuse(data: &str, asked: &[Item]) -> Result<Fuse, Refusal> {
    let invalid = |reason: String| Refusal::policy(Errno::INVAL, reason);
    let items = split("fuse", data.as_bytes());
    let mut fd = None;
    let mut rest: Vec<Item> = Vec::new();
    for item in items {
        let bad = || invalid(format!("bad value for FUSE option {}", item.key));
        let number = || item.text().and_then(|value| value.parse::<u32>().ok()).ok_or_else(bad);
        let is_flag = matches!(item.key.as_str(), "default_permissions" | "allow_other") && item.value.is_none();
        // Some clients (mergerfs) pass it by themselves, and a second time if the caller passes it, too.
        if is_flag && rest.contains(&item) {
            continue;
        }
        if rest.iter().any(|earlier| earlier.key == item.key) || (item.key == "fd" && fd.is_some()) {
            return Err(invalid(format!("FUSE option {} given twice", item.key)));
        }
        match item.key.as_str() {
            "fd" => fd = Some(number()?),
            // Signed: clients print their uid with %i.
            "user_id" | "group_id" => drop(item.text().and_then(|value| value.parse::<i64>().ok()).ok_or_else(bad)?),
            "rootmode" => {
                let mode = item.text().and_then(|value| u32::from_str_radix(value, 8).ok()).ok_or_else(bad)?;
                if mode & libc::S_IFMT != libc::S_IFDIR {
                    return Err(invalid(format!("root of type {mode:o}: the target is a directory")));
                }
                rest.push(item);
            }
            "max_read" | "blksize" => {
                number()?;
                rest.push(item);
            }
            _ if is_flag => rest.push(item),
            label if LABELS.contains(&label) && asked.contains(&item) => rest.push(item),
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
        let fuse = fuse("fd=3,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=131072", &[]).unwrap();
        assert_eq!(fuse.fd, 3);
        let keys: Vec<_> = fuse.rest.iter().map(|item| item.key.as_str()).collect();
        assert_eq!(keys, ["rootmode", "allow_other", "max_read"]);
    }

    #[test]
    fn a_flag_that_is_said_twice_is_said() {
        let fuse = fuse("fd=3,allow_other,default_permissions,allow_other", &[]).unwrap();
        let keys: Vec<_> = fuse.rest.iter().map(|item| item.key.as_str()).collect();
        assert_eq!(keys, ["allow_other", "default_permissions"]);
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
            ("a value for a flag, later", "fd=3,allow_other,allow_other=1"),
            ("quotes", "fd=3,context=\"a,b\""),
            ("an id that is no number", "fd=3,user_id=root"),
            ("an empty value", "fd=,rootmode=40000"),
        ];
        for (name, data) in rows {
            assert_eq!(fuse(data, &[]).unwrap_err().errno, Errno::INVAL, "{name}");
        }
    }

    #[test]
    fn splits_as_the_kernel_does() {
        type Found<'a> = &'a [(&'a str, Option<&'a str>)];
        let rows: &[(&str, &str, Found<'_>)] = &[
            ("tmpfs", ",size=1m,,huge=never,", &[("size", Some("1m")), ("huge", Some("never"))]),
            ("tmpfs", "a=b=c,d", &[("a", Some("b=c")), ("d", None)]),
            ("tmpfs", "", &[]),
            ("tmpfs", "context=\"a,b\",size=1", &[("context", Some("a,b")), ("size", Some("1"))]),
            ("tmpfs", "rootcontext=\"a,b", &[("rootcontext", Some("a,b"))]),
            ("tmpfs", "size=\"1,mode=2\"", &[("size", Some("\"1")), ("mode", Some("2\""))]),
            ("cifs", "pass=a,,b,user=c", &[("pass", Some("a,b")), ("user", Some("c"))]),
            ("cifs", "pass=a,,,user=c", &[("pass", Some("a,")), ("user", Some("c"))]),
            ("smb3", "pass=a,,,,b", &[("pass", Some("a,,b"))]),
            ("cifs", "pass=\"a,user=c", &[("pass", Some("\"a")), ("user", Some("c"))]),
        ];
        for (fstype, data, expected) in rows {
            let items = split(fstype, data.as_bytes());
            let found: Vec<_> = items.iter().map(|item| (item.key.as_str(), item.text())).collect();
            assert_eq!(found, *expected, "{fstype} {data}");
            assert_eq!(split(fstype, &join(fstype, &items)), items, "{fstype} {data}");
        }
    }

    #[test]
    fn a_password_need_not_be_unicode() {
        assert_eq!(split("cifs", b"pass=\xe4\xff"), [Item { key: "pass".into(), value: Some(b"\xe4\xff".to_vec()) }]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(data in ".*") {
            let _ = fuse(&data, &[]);
            for fstype in ["nfs", "cifs"] {
                let items = split(fstype, data.as_bytes());
                let is_plain = items.iter().all(|item| !item.key.is_empty() && !item.key.starts_with(',') && !data.contains('"'));
                proptest::prop_assert!(!is_plain || split(fstype, &join(fstype, &items)) == items);
            }
        }
    }
}

//! Option strings: the caller's `-o`, a client's mount(2) data, and the escaped text of records.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shorefast_engine::{options, text};

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(text::unescape(&text::escape(bytes)), bytes, "escaping lost something");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text::unescape(text);
    callers(text);
    clients(text);
});

fn callers(text: &str) {
    let Ok(parsed) = options::parse(text) else { return };
    let joined = options::join(&parsed.items);
    let again = options::parse(&joined).expect("what was parsed and joined can be parsed");
    assert_eq!(again.items, parsed.items, "joining and parsing changed the options");
    assert_eq!(again.flags & !parsed.flags, 0, "a flag out of nowhere");
    assert!(!joined.contains('\0'), "a NUL would cut the client's options short");
    for item in &parsed.items {
        let shown = options::join_redacted(std::slice::from_ref(item));
        let is_secret = item.name == "password" && item.value.is_some();
        assert!(!is_secret || shown == "password=[redacted]", "a password is shown");
    }
}

fn clients(text: &str) {
    use shorefast_broker::options::{fuse, join, split};
    for fstype in ["nfs", "cifs"] {
        let items = split(fstype, text.as_bytes());
        assert!(items.iter().all(|item| !item.key.contains('=')));
        // What the kernel would not take apart in the same way is refused: keys are in tables, and values of labels are asked for.
        let is_judged = |item: &shorefast_broker::options::Item| !item.key.is_empty() && !item.key.contains([',', '"']);
        if items.iter().all(is_judged) && !text.contains('"') {
            assert_eq!(split(fstype, &join(fstype, &items)), items, "joining and splitting changed the options");
        }
    }
    if let Ok(fuse) = fuse(text, &[]) {
        let items = split("fuse", text.as_bytes());
        let is_ours = |item: &shorefast_broker::options::Item| matches!(item.key.as_str(), "fd" | "user_id" | "group_id");
        let others: Vec<_> = items.into_iter().filter(|item| !is_ours(item)).collect();
        assert_eq!(fuse.rest, others, "other FUSE options than the client's");
    }
}

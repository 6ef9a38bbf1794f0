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
        let is_secret = item.name == "password" && item.value.as_ref().is_some_and(|value| !value.starts_with('/'));
        assert!(!is_secret || shown == "password=[redacted]", "a password is shown");
    }
}

fn clients(text: &str) {
    use shorefast_broker::options::{fuse, split};
    let items = split(text);
    if let Some(items) = &items {
        let joined: Vec<_> = items
            .iter()
            .map(|item| item.value.as_ref().map_or_else(|| item.key.clone(), |value| format!("{}={value}", item.key)))
            .collect();
        let plain: Vec<_> = text.split(',').filter(|part| !part.is_empty()).collect();
        assert_eq!(joined, plain, "splitting changed the options");
        assert!(items.iter().all(|item| !item.key.contains([',', '='])));
    }
    if let Ok(fuse) = fuse(text) {
        let items = items.expect("FUSE options can be split");
        let is_ours = |item: &shorefast_broker::options::Item| matches!(item.key.as_str(), "fd" | "user_id" | "group_id");
        let others: Vec<_> = items.into_iter().filter(|item| !is_ours(item)).collect();
        assert_eq!(fuse.rest, others, "other FUSE options than the client's");
    }
}

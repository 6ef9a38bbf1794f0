//! The house's walls: which crate may use which, and which module. A picture in a document is true as long as this passes.

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of ours that it may use.
const WALLS: [(&str, &[&str]); 16] = [
    ("sys", &[]),
    ("trust", &[]),
    ("net", &["trust"]),
    ("runtimes", &["sys"]),
    ("broker", &["sys"]),
    ("sandbox", &["sys"]),
    ("packages", &["net", "trust"]),
    ("image", &["net", "packages", "sys", "trust"]),
    ("engine", &["broker", "image", "runtimes", "sandbox", "sys", "trust"]),
    ("install", &[]),
    ("doctor", &["engine", "image", "sys"]),
    ("worker", &["broker", "engine", "image", "sandbox", "sys"]),
    ("serve", &["engine", "sys", "worker"]),
    ("csi", &["engine", "serve", "worker"]),
    ("docker", &["engine", "serve", "sys", "worker"]),
    ("shorefast", &["broker", "csi", "docker", "doctor", "engine", "image", "install", "sandbox", "serve", "sys", "worker"]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

#[test]
fn every_crate_has_its_walls() {
    let mut there: Vec<_> =
        fs::read_dir(crates()).expect("there are crates").map(|entry| entry.expect("a readable directory").file_name()).collect();
    let mut walled: Vec<_> = WALLS.iter().map(|(name, _)| std::ffi::OsString::from(name)).collect();
    there.sort();
    walled.sort();
    assert_eq!(there, walled);
}

#[test]
fn crates_use_only_what_is_below_them() {
    for (name, allowed) in WALLS {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a crate has a manifest");
        let dependencies = manifest.lines().filter_map(|line| line.strip_prefix("shorefast-")?.split(['.', ' ']).next());
        for dependency in dependencies {
            assert!(allowed.contains(&dependency), "{name} uses {dependency}");
        }
    }
}

#[test]
fn unsafe_is_said_in_one_crate_only() {
    for (name, _) in WALLS.iter().filter(|(name, _)| *name != "sys") {
        for (path, text) in sources(name) {
            assert!(!text.contains("unsafe {") && !text.contains("unsafe fn"), "{path:?}");
        }
    }
}

/// One filter for what others wrote (`engine::text::printable`), and one way past it.
#[test]
fn everything_is_said_through_the_report() {
    let ways = ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("];
    for (name, _) in WALLS.iter().filter(|(name, _)| !["sys"].contains(name)) {
        for (path, text) in sources(name) {
            let said =
                shipped(&text).lines().filter(|line| ways.iter().any(|way| line.contains(way)) && !line.contains("printable(")).count();
            assert_eq!(said, 0, "{path:?}");
        }
    }
}

#[test]
fn modules_use_only_those_listed_after_them() {
    for (name, _) in WALLS {
        let sources = sources(name);
        let lists: Vec<_> = sources.iter().map(|(path, text)| (path, listed(text))).filter(|(_, modules)| !modules.is_empty()).collect();
        assert!(lists.iter().any(|(path, _)| path.ends_with("src/lib.rs")), "{name} lists no modules");
        for (lister, modules) in lists {
            // Of `src/foo.rs` the modules are in `src/foo`, of `src/lib.rs` in `src`.
            let (place, prefix) = if lister.ends_with("src/lib.rs") {
                (lister.with_file_name(""), "crate::".to_owned())
            } else {
                let place = lister.with_extension("");
                let inside = place.strip_prefix(crates().join(name).join("src")).expect("a source of the crate");
                let prefix = format!("crate::{}::", inside.display()).replace('/', "::");
                (place, prefix)
            };
            for (position, module) in modules.iter().enumerate() {
                let own =
                    sources.iter().filter(|(path, _)| path.starts_with(place.join(module)) || *path == place.join(format!("{module}.rs")));
                for (path, text) in own {
                    let text = shipped(text);
                    assert!(!text.contains("super::"), "{path:?} says super, which hides from this test what it uses");
                    let earlier = modules[..position].iter().find(|earlier| mentions(&text, &prefix, earlier));
                    assert_eq!(earlier, None, "{path:?} uses what {lister:?} lists before {module}");
                }
            }
        }
    }
}

/// A module and its own modules form no cycle either: what both need is in a module of its own, listed after those that need it. (To pass on a name
/// with `pub use` is no use of it.)
#[test]
fn no_module_uses_its_parent_while_the_parent_uses_it() {
    for (name, _) in WALLS {
        let sources = sources(name);
        for (parent, text) in sources.iter().filter(|(path, text)| !path.ends_with("src/lib.rs") && !listed(text).is_empty()) {
            let place = parent.with_extension("");
            let inside = place.strip_prefix(crates().join(name).join("src")).expect("a source of the crate");
            let prefix = format!("crate::{}::", inside.display()).replace('/', "::");
            let own =
                shipped(text).lines().filter(|line| !line.starts_with("pub use")).fold(String::new(), |text, line| text + line + "\n");
            let modules = listed(text);
            for module in modules.iter().filter(|module| own.contains(&format!("{module}::"))) {
                let child = place.join(format!("{module}.rs"));
                let (_, text) = sources.iter().find(|(path, _)| *path == child).expect("a module has a file");
                let used = names_of(&shipped(text), &prefix);
                let of_parent: Vec<_> = used.iter().filter(|name| !modules.contains(&name.as_str())).collect();
                assert!(of_parent.is_empty(), "{child:?} uses {of_parent:?} of {parent:?}, which uses {module}");
            }
        }
    }
}

/// Memory that is never given back and children in our address space are right only in a process that makes one mount and ends.
#[test]
fn what_is_for_microseconds_stays_behind_its_wall() {
    let allowed = ["sandbox/src/launcher/first.rs", "sandbox/src/launcher/launch.rs", "shorefast/src/main.rs"];
    for (name, _) in WALLS.iter().filter(|(name, _)| *name != "sys") {
        for (path, text) in sources(name).into_iter().filter(|(path, _)| !allowed.iter().any(|file| path.ends_with(file))) {
            assert!(shipped(&text).lines().all(|line| line.trim_start().starts_with("//") || !line.contains("one_shot")), "{path:?}");
        }
    }
    for (path, text) in sources("sys").into_iter().filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "one_shot")) {
        assert!(!shipped(&text).contains("use crate::one_shot"), "{path:?}");
    }
}

/// Which process runs a file of the sandbox is told by its directory. So neither side calls into the other, except where the launching process gives
/// the first process its body.
#[test]
fn the_processes_of_a_sandbox_share_only_what_is_outside_their_directories() {
    let sources = sources("sandbox");
    let of = |side: &str| {
        let place = crates().join("sandbox/src").join(side);
        let own: Vec<_> = sources.iter().filter(|(path, _)| path.starts_with(&place) || *path == place.with_extension("rs")).collect();
        assert!(own.len() > 2, "{side} is gone");
        own
    };
    for (side, forbidden) in [("launcher", &["child"][..]), ("cleaner", &["child", "launcher"]), ("child", &["launcher", "cleaner"])] {
        for (path, text) in of(side) {
            let text = shipped(text).replace("use crate::child;\n", "");
            let used = forbidden.iter().find(|other| mentions(&text, "crate::", other));
            assert_eq!(used, None, "{path:?}");
        }
    }
    let starts = of("launcher").iter().filter(|(_, text)| text.contains("use crate::child;")).count();
    assert_eq!(starts, 1, "one file of the launching process starts the other one");
}

/// What is taken from a module: `prefix` and a name, or the names in `use prefix{…}`.
fn names_of(text: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|next| next.is_alphanumeric() || *next == '_').collect::<String>();
    let taken = |(at, _): (usize, &str)| {
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => vec![word(rest)],
            Some(list) => {
                let mut depth = 0;
                let mut names = Vec::new();
                let list = list.split(';').next().unwrap_or_default();
                for item in list.split_inclusive([',', '{', '}']) {
                    if depth == 0 {
                        names.push(word(item.trim_start()));
                    }
                    depth += item.matches('{').count();
                    depth -= item.matches('}').count().min(depth);
                }
                names
            }
        }
    };
    text.match_indices(prefix).flat_map(taken).filter(|name| !name.is_empty() && name != "self").collect()
}

#[test]
fn a_mention_is_seen_in_every_form() {
    let names = names_of("use crate::layers::{self, Error, pax::{self, Records}, limits};\ncrate::layers::apply();", "crate::layers::");
    assert_eq!(names, ["Error", "pax", "limits", "apply"]);
    let table = [
        ("use crate::layers::pax;", true),
        ("use crate::layers::pax::parse;", true),
        ("use crate::layers::{Error, pax};", true),
        ("use crate::layers::{\n    Error,\n    pax::{self, Records},\n};", true),
        ("let a = crate::layers::pax::parse();", true),
        ("use crate::layers::paxos;", false),
        ("use crate::layers::{Error, paxos};", false),
        ("use crate::pax;", false),
    ];
    for (text, expected) in table {
        assert_eq!(mentions(text, "crate::layers::", "pax"), expected, "{text}");
    }
}

/// The modules that a file says it has, in its order.
fn listed(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|line| line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?.strip_suffix(';'));
    names.collect()
}

/// Tests and comments may look around; what ships may not.
fn shipped(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).fold(String::new(), |code, line| code + line + "\n")
}

/// `prefix` and the module, or the module in `use prefix{…}`.
fn mentions(text: &str, prefix: &str, module: &str) -> bool {
    let begins =
        |rest: &str| rest.strip_prefix(module).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'));
    text.match_indices(prefix).any(|(at, _)| {
        let rest = &text[at + prefix.len()..];
        let list = rest.strip_prefix('{').and_then(|rest| rest.split(';').next());
        begins(rest) || list.is_some_and(|list| list.split([',', '{']).any(|item| begins(item.trim_start())))
    })
}

/// All of them, also those in sub-directories.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![crates().join(name).join("src")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a crate has sources") {
            let path = entry.expect("a readable directory").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a source is text");
                found.push((path, text));
            }
        }
    }
    found
}

//! /proc/self/mountinfo: any user can choose names in it, and each line must come back unchanged, next to lines of any other kind.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use shorefast_sys::mountinfo::{self, Entry};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    id: u32,
    parent: u32,
    major: u16,
    minor: u32,
    peers: u8,
    root: &'a [u8],
    mount_point: &'a [u8],
    fstype: &'a str,
    source: &'a [u8],
    super_options: &'a [u8],
    noise: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let mut table = input.noise.to_vec();
    let before = mountinfo::parse(&table);
    table.push(b'\n');
    table.extend(line(&input));
    let entries = mountinfo::parse(&table);
    assert_eq!(entries.len(), before.len() + 1, "a line was lost or made up");
    assert_eq!(entries[..before.len()], before, "a line changed its neighbours");
    let written = written(&input);
    assert_eq!(entries.last(), Some(&written), "the line did not come back");
});

fn written(input: &Input<'_>) -> Entry {
    Entry {
        id: input.id.into(),
        parent: input.parent.into(),
        major: input.major.into(),
        minor: input.minor,
        root: OsStr::from_bytes(&name(input.root)).into(),
        mount_point: OsStr::from_bytes(&name(input.mount_point)).into(),
        options: "rw,nosuid".to_owned(),
        shared: input.peers & 1 == 1,
        fstype: String::from_utf8(name(input.fstype.as_bytes())).expect("without NUL it is still text"),
        source: OsStr::from_bytes(&name(input.source)).to_owned(),
        super_options: OsStr::from_bytes(&name(input.super_options)).to_owned(),
    }
}

/// As the kernel's show_mountinfo() writes it.
fn line(input: &Input<'_>) -> Vec<u8> {
    let Input { id, parent, major, minor, .. } = input;
    let peers = ["shared:7 ", "master:12 ", "propagate_from:3 ", "unbindable "];
    let peers: String = peers.iter().enumerate().filter(|(bit, _)| input.peers >> bit & 1 == 1).map(|(_, text)| *text).collect();
    let mut line = format!("{id} {parent} {major}:{minor} ").into_bytes();
    line.extend(escaped(input.root, b" \t\n\\"));
    line.push(b' ');
    line.extend(escaped(input.mount_point, b" \t\n\\"));
    line.extend(format!(" rw,nosuid {peers}- ").bytes());
    line.extend(escaped(input.fstype.as_bytes(), b" \t\n\\#"));
    line.push(b' ');
    line.extend(escaped(input.source, b" \t\n\\#"));
    line.push(b' ');
    line.extend(escaped(input.super_options, b" \t\n\\#"));
    line.push(b'\n');
    line
}

fn escaped(bytes: &[u8], special: &[u8]) -> Vec<u8> {
    let escape = |byte: u8| if special.contains(&byte) { format!("\\{byte:03o}").into_bytes() } else { vec![byte] };
    name(bytes).into_iter().flat_map(escape).collect()
}

/// The kernel's strings end at a NUL.
fn name(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

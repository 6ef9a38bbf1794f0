//! Hostile images, one row each: what the image does, and the expected outcome.
//!
//! Every row is written as an OCI layout and pulled into a store with small limits. The store is inside a tree of canaries, and
//! holds another image. Afterwards the canaries and the other image must be unchanged in every row; if the image was refused, every
//! file of the store must be unchanged, too. Each image is pulled by a process of its own, whose memory is limited.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should fail here")]

#[path = "craft/layout.rs"]
mod layout;
#[path = "craft/tarball.rs"]
mod tarball;
#[path = "craft/tree.rs"]
mod tree;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use layout::Layout;
use shorefast_image::{Digest, Limits, Reference, Store};
use tarball::{
    BLOCK_DEVICE, CHARACTER_DEVICE, DIRECTORY, FILE, HARD_LINK, Header, SYMLINK, archive, directory, file, hard_link, long_name, pax,
    raw_pax, symlink,
};

const LIMITS: Limits =
    Limits { bytes: 32 << 20, entries: 5000, layers: 100, header_bytes: 256 << 10, xattr_bytes: 16 << 10, path_bytes: 4095, nesting: 128 };

/// The memory that a pull may use, in kilobytes: the program itself, a few buffers, and the windows of decompressors.
const MEMORY: u64 = 64 << 10;

/// The directory where the image is unpacked is this deep below the canaries: `store/rootfs/HEX.part`.
const UP: &str = "../../../outside";

enum Outcome {
    /// With an error that contains this.
    Refused(&'static str),
    /// It is unpacked; then this check of its root must pass.
    Harmless(fn(&Path)),
}
use Outcome::{Harmless, Refused};

struct Row(&'static str, fn() -> Layout, Outcome);

/// One layer with these entries.
fn one(parts: &[Vec<u8>]) -> Layout {
    Layout::of(vec![archive(parts)])
}

fn layers(layers: &[&[Vec<u8>]]) -> Layout {
    Layout::of(layers.iter().map(|parts| archive(parts)).collect())
}

fn is(root: &Path, path: &str, content: &str) {
    assert_eq!(fs::read_to_string(root.join(path)).unwrap(), content, "{path}");
}

fn is_not(root: &Path, path: &str) {
    assert!(fs::symlink_metadata(root.join(path)).is_err(), "{path} is there");
}

/// A file of zeros, compressed to almost nothing.
fn zeros(bytes: u64) -> Vec<u8> {
    let mut layer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    layer.write_all(&Header::new(FILE, "bomb").size(bytes).then(b"")).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), bytes + 1024), &mut layer).unwrap();
    layer.finish().unwrap()
}

/// An xz file whose first block header asks for another dictionary, as xz counts their sizes.
fn with_dictionary(mut file: Vec<u8>, size: u8) -> Vec<u8> {
    const STREAM_HEADER: usize = 12;
    let length = (usize::from(file[STREAM_HEADER]) + 1) * 4;
    let header = &mut file[STREAM_HEADER..STREAM_HEADER + length];
    // Size, flags, then the one filter: its id, the length of its properties, and the property.
    assert_eq!(header[1..4], [0, 0x21, 1]);
    header[4] = size;
    let mut check = flate2::Crc::new();
    check.update(&header[..length - 4]);
    header[length - 4..].copy_from_slice(&check.sum().to_le_bytes());
    file
}

fn sparse(size: &str, map: &str, content: &[u8]) -> Layout {
    let records = [("GNU.sparse.major", "0"), ("GNU.sparse.minor", "1"), ("GNU.sparse.size", size), ("GNU.sparse.map", map)];
    one(&[pax(&records), file("sparse", content)])
}

fn damage(directory: &Path, which: fn(&[u8]) -> bool, how: fn(&mut Vec<u8>)) {
    for entry in fs::read_dir(directory.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if which(&bytes) {
            how(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
    }
}

fn is_layer(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"{")
}

fn holds(word: &'static str) -> impl Fn(&[u8]) -> bool {
    move |bytes| bytes.starts_with(b"{") && String::from_utf8_lossy(bytes).contains(word)
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Names
    Row("a name that leads upwards", || one(&[file(format!("{UP}/evil"), "x")]), Refused("leads upwards")),
    Row("a name that leads down and then further up", || one(&[file(format!("a/../{UP}/evil"), "x")]), Refused("leads upwards")),
    Row("a name that leads up and comes back", || one(&[file("a/../b", "x")]), Refused("leads upwards")),
    Row("the parent itself", || one(&[directory("..")]), Refused("leads upwards")),
    Row("an absolute name", || one(&[file("/outside/evil", "x")]), Harmless(|root| is(root, "outside/evil", "x"))),
    Row("a name with many slashes", || one(&[file("////a//.//b", "x")]), Harmless(|root| is(root, "a/b", "x"))),
    Row("a long name of GNU that leads upwards", || one(&[long_name(format!("{UP}/evil")), file("a", "x")]), Refused("leads upwards")),
    Row("a PAX name that leads upwards", || one(&[pax(&[("path", format!("{UP}/evil"))]), file("a", "x")]), Refused("leads upwards")),
    Row("a PAX name with a zero byte", || one(&[pax(&[("path", "a\0b")]), file("a", "x")]), Refused("zero byte")),
    Row("backslashes for slashes", || one(&[file("..\\..\\..\\evil", "x")]), Harmless(|root| is(root, "..\\..\\..\\evil", "x"))),
    Row("dots of another script", || one(&[file("．．/．．/evil", "x")]), Harmless(|root| is(root, "．．/．．/evil", "x"))),
    Row("dots in overlong UTF-8", || one(&[file(b"\xc0\xae\xc0\xae/evil", "x")]), Harmless(|root| assert_eq!(fs::read_dir(root).unwrap().count(), 1))),
    Row("a name that is no UTF-8", || one(&[file(b"\xff\xfe", "x")]), Harmless(|root| assert_eq!(fs::read_dir(root).unwrap().count(), 1))),
    Row("two names that differ only in case", || one(&[file("Etc", "A"), file("etc", "b")]), Harmless(|root| { is(root, "Etc", "A"); is(root, "etc", "b") })),
    Row("a link and a directory that differ only in case", || one(&[symlink("A", UP), file("a/evil", "x")]), Harmless(|root| is(root, "a/evil", "x"))),
    Row("two names that differ only in Unicode's form", || one(&[symlink("\u{e9}", UP), file("e\u{301}/evil", "x")]), Harmless(|root| is(root, "e\u{301}/evil", "x"))),
    Row("a name with control characters", || one(&[file("a\n\x1b[2Jb", "x")]), Harmless(|root| is(root, "a\n\x1b[2Jb", "x"))),
    Row("a name too long for the filesystem", || one(&[long_name("n".repeat(300)), file("a", "x")]), Refused("too long")),
    Row("a path too long for the kernel", || one(&[long_name("n/".repeat(3000)), file("a", "x")]), Refused("bytes in a path")),
    Row("directories nested too deeply", || one(&[long_name("n/".repeat(200)), directory("a")]), Refused("nested too deeply")),
    Row("directories nested ever deeper through links", || {
        let deep = "n/".repeat(40);
        let mut parts = vec![directory(&deep), symlink("l0", &deep)];
        for number in 1..40 {
            parts.push(file(format!("l{}/{deep}f", number - 1), "x"));
            parts.push(symlink(format!("l{number}"), format!("/l{}/{deep}", number - 1)));
        }
        one(&parts)
    }, Harmless(|root| is(root, &("n/".repeat(80) + "f"), "x"))),
    Row("a file with no name", || one(&[file("", "x")]), Refused("replaces the root")),
    Row("the root as a link", || one(&[symlink("./", UP), file("evil", "x")]), Refused("replaces the root")),
    // Symbolic links
    Row("a file through a link upwards", || one(&[symlink("up", UP), file("up/evil", "x")]), Harmless(|root| is(root, "outside/evil", "x"))),
    Row("a file through an absolute link", || one(&[symlink("abs", "/outside"), file("abs/evil", "x")]), Harmless(|root| is(root, "outside/evil", "x"))),
    Row("a file through a chain of links", || one(&[symlink("a", "b"), symlink("b", "c/.."), symlink("c", UP), directory("outside"), file("a/evil", "x")]), Harmless(|root| is(root, "evil", "x"))),
    Row("a file through a circle of links", || one(&[symlink("a", "b"), symlink("b", "a"), file("a/evil", "x")]), Refused("symbolic links")),
    Row("a file through /proc", || one(&[symlink("p", "/proc/self/cwd"), file("p/evil", "x")]), Harmless(|root| is(root, "proc/self/cwd/evil", "x"))),
    Row("a file over a link to a canary", || one(&[symlink("f", format!("{UP}/canary")), file("f", "x")]), Harmless(|root| is(root, "f", "x"))),
    Row("a directory over a link to a directory", || one(&[symlink("d", UP), Header::new(DIRECTORY, "d").mode(0o777).then(b"")]), Harmless(|root| assert!(fs::symlink_metadata(root.join("d")).unwrap().is_dir()))),
    Row("a directory becomes a link in the next layer", || layers(&[&[directory("d"), file("d/f", "x")], &[symlink("d", UP)], &[file("d/evil", "x")]]), Harmless(|root| is(root, "outside/evil", "x"))),
    Row("a directory becomes a link while files go into it", || one(&[directory("d"), file("d/f", "x"), symlink("d", UP), file("d/evil", "x")]), Harmless(|root| is(root, "outside/evil", "x"))),
    Row("a parent becomes a link while files go below it", || one(&[directory("a/b"), file("a/b/f", "x"), symlink("a", UP), file("a/b/evil", "x")]), Harmless(|root| is(root, "outside/b/evil", "x"))),
    Row("a link becomes a directory, and a link again", || layers(&[&[symlink("d", UP)], &[directory("d"), file("d/f", "x")], &[symlink("d", UP), file("d/evil", "x")]]), Harmless(|root| is(root, "outside/evil", "x"))),
    // Hard links
    Row("a hard link upwards", || one(&[hard_link("evil", format!("{UP}/canary"))]), Refused("leads upwards")),
    Row("a hard link to an absolute path of the host", || one(&[hard_link("evil", "/etc/passwd")]), Refused("No such file")),
    Row("a hard link through a link upwards", || one(&[symlink("up", UP), hard_link("evil", "up/canary")]), Refused("No such file")),
    Row("a hard link to a link, then a file over it", || one(&[symlink("s", format!("{UP}/canary")), hard_link("h", "s"), file("h", "x")]), Harmless(|root| is(root, "h", "x"))),
    Row("a hard link to itself", || one(&[file("a", "x"), hard_link("a", "a")]), Harmless(|root| is(root, "a", "x"))),
    Row("hard links in a circle", || one(&[hard_link("a", "b"), hard_link("b", "a")]), Refused("No such file")),
    Row("a hard link to a directory", || one(&[directory("d"), hard_link("d/e", "d")]), Refused("not permitted")),
    Row("a hard link to the root", || one(&[hard_link("a", "./")]), Refused("to the root")),
    Row("a link without a target", || one(&[Header::new(HARD_LINK, "a").then(b"")]), Refused("without a target")),
    // Whiteouts
    Row("a whiteout of the parent", || layers(&[&[file("a", "x")], &[file(".wh...", "")]]), Refused("whiteout of nothing")),
    Row("a whiteout of the directory itself", || layers(&[&[file("a", "x")], &[file(".wh..", "")]]), Refused("whiteout of nothing")),
    Row("a whiteout of nothing", || layers(&[&[file("a", "x")], &[file(".wh.", "")]]), Refused("whiteout of nothing")),
    Row("a whiteout above the root", || layers(&[&[file("a", "x")], &[file(format!("{UP}/.wh.canary"), "")]]), Refused("leads upwards")),
    Row("a whiteout through a link upwards", || layers(&[&[symlink("up", UP)], &[file("up/.wh.canary", "")]]), Harmless(|root| is_not(root, "outside"))),
    Row("an opaque directory through a link upwards", || layers(&[&[symlink("up", UP)], &[file("up/.wh..wh..opq", "")]]), Harmless(|root| is_not(root, "outside"))),
    Row("an opaque root", || layers(&[&[file("a", "x"), directory("d")], &[file(".wh..wh..opq", ""), file("b", "y")]]), Harmless(|root| { is_not(root, "a"); is_not(root, "d"); is(root, "b", "y") })),
    Row("a whiteout of a link to a directory of canaries", || layers(&[&[symlink("d", UP), file("a", "x")], &[file(".wh.d", "")]]), Harmless(|root| is_not(root, "d"))),
    // Entries with effects outside of the image
    Row("a disk of the host", || one(&[Header::new(BLOCK_DEVICE, "disk").then(b""), file("a", "x")]), Harmless(|root| is_not(root, "disk"))),
    Row("the kernel's memory", || one(&[Header::new(CHARACTER_DEVICE, "mem").then(b""), file("a", "x")]), Harmless(|root| is_not(root, "mem"))),
    Row("a device over a file", || layers(&[&[file("f", "x"), file("a", "x")], &[Header::new(CHARACTER_DEVICE, "f").then(b"")]]), Harmless(|root| is_not(root, "f"))),
    Row("a set-uid program", || one(&[Header::new(FILE, "su").mode(0o6755).then(b"")]), Harmless(|root| assert_eq!(tree::of(root)[Path::new("su")].mode, 0o755))),
    Row("a set-gid directory", || one(&[Header::new(DIRECTORY, "d").mode(0o2775).then(b"")]), Harmless(|root| assert_eq!(tree::of(root)[Path::new("d")].mode, 0o775))),
    Row("a program with capabilities", || one(&[pax(&[("SCHILY.xattr.security.capability", b"\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00")]), file("a", "x")]), Harmless(|root| assert!(tree::of(root)[Path::new("a")].xattrs.is_empty()))),
    Row("attributes of overlayfs", || one(&[pax(&[("SCHILY.xattr.trusted.overlay.redirect", "/etc")]), directory("d")]), Harmless(|root| assert!(tree::of(root)[Path::new("d")].xattrs.is_empty()))),
    Row("an owner that means no user", || one(&[pax(&[("uid", "4294967295")]), file("a", "x")]), Refused("owner out of range")),
    // Headers
    Row("an extended header of 100 MB", || {
        let mut layer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        layer.write_all(&Header::new(b'x', "x").size(100 << 20).then(b"")).unwrap();
        std::io::copy(&mut std::io::Read::take(std::io::repeat(b'1'), 100 << 20), &mut layer).unwrap();
        Layout::of(vec![layer.finish().unwrap()])
    }, Refused("bytes in the headers")),
    Row("a long name that announces a gigabyte", || one(&[Header::new(b'L', "x").size(1 << 30).gnu().then(b""), file("a", "x")]), Refused("bytes in the headers")),
    Row("many extended headers for one entry", || one(&vec![pax(&[("comment", "c".repeat(60_000))]); 10]), Refused("bytes in the headers")),
    Row("extended headers without an entry", || one(&[file("a", "x"), pax(&[("path", "b")])]), Harmless(|root| is_not(root, "b"))),
    Row("a PAX record that lies about its length", || one(&[raw_pax(b"9999 path=a\n"), file("a", "x")]), Refused("wrong length")),
    Row("a size of eight exbibytes", || one(&[{ let mut header = Header::new(FILE, "a"); header.set(124, &[0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]); header.then(b"") }]), Refused("bytes")),
    Row("a negative size", || one(&[{ let mut header = Header::new(FILE, "a"); header.set(124, &[0xff; 12]); header.then(b"") }]), Refused("negative")),
    Row("a size that is no number", || one(&[{ let mut header = Header::new(FILE, "a"); header.set(124, b"99999999999\0"); header.then(b"") }]), Refused("number")),
    Row("a wrong checksum", || one(&[{ let mut bytes = file("a", "x"); bytes[0] = b'b'; bytes }]), Refused("checksum")),
    Row("an archive that ends in a file", || Layout::of(vec![Header::new(FILE, "a").size(4096).then(b"short")]), Refused("middle of a file")),
    Row("an archive that ends in a file that is not wanted", || Layout::of(vec![[file("b", "x"), Header::new(b'Z', "a").size(4096).then(b"short")].concat()]), Refused("middle of a file")),
    Row("an archive that ends in a file by one byte", || Layout::of(vec![Header::new(FILE, "a").size(6).then(b"short")[..517].to_vec()]), Refused("middle of a file")),
    Row("an archive that ends in a long name", || Layout::of(vec![[file("b", "x"), long_name("n".repeat(700))[..900].to_vec()].concat()]), Refused("middle of a file")),
    Row("an archive that ends right behind a file", || Layout::of(vec![file("a", "short")[..517].to_vec()]), Harmless(|root| is(root, "a", "short"))),
    Row("an archive that ends in what fills a file's block", || Layout::of(vec![file("a", "short")[..600].to_vec()]), Harmless(|root| is(root, "a", "short"))),
    Row("an archive without its end", || Layout::of(vec![file("a", "short")]), Harmless(|root| is(root, "a", "short"))),
    Row("an archive with half its end", || Layout::of(vec![[file("a", "short"), vec![0; 512]].concat()]), Harmless(|root| is(root, "a", "short"))),
    Row("an archive that ends in its end", || Layout::of(vec![[file("a", "short"), vec![0; 100]].concat()]), Refused("middle of a header")),
    Row("an archive that ends in a header", || Layout::of(vec![file("a", "x")[..300].to_vec()]), Refused("middle of a header")),
    Row("no archive at all", || Layout::of(vec![b"#!/bin/sh\n".repeat(500)]), Refused("checksum")),
    Row("a sparse file whose map overflows", || sparse("1000", "18446744073709551615,10", b"0123456789"), Refused("map is wrong")),
    Row("a sparse file whose map goes backwards", || sparse("1000", "500,5,0,5", b"0123456789"), Refused("map is wrong")),
    Row("a sparse file larger than any disk", || sparse("9223372036854775807", "0,10", b"0123456789"), Refused("bytes")),
    Row("a sparse map without an end", || {
        let mut header = Header::new(b'S', "a").gnu();
        header.0[482] = 1;
        let mut extension = [0u8; 512];
        extension[504] = 1;
        Layout::of(vec![[header.then(b""), extension.repeat(2000)].concat()])
    }, Refused("map of a sparse file")),
    Row("an attribute of a megabyte", || one(&[pax(&[("SCHILY.xattr.user.a", "a".repeat(100_000))]), file("a", "x")]), Refused("extended attribute")),
    // Bombs
    Row("a gigabyte in a kilobyte", || Layout::of(vec![zeros(1 << 30)]), Refused("bytes")),
    Row("a gigabyte after the end of the archive", || {
        let mut layer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        layer.write_all(&archive(&[file("a", "x")])).unwrap();
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 1 << 30), &mut layer).unwrap();
        Layout::of(vec![layer.finish().unwrap()])
    }, Refused("longer than")),
    Row("a window of 128 MB for the decompressor", || {
        let mut layer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        layer.window_log(27).unwrap();
        layer.write_all(&archive(&[file("a", "x")])).unwrap();
        Layout::of(vec![layer.finish().unwrap()])
    }, Refused("cannot read")),
    Row("the largest window that is allowed", || {
        let mut layer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        layer.window_log(25).unwrap();
        let plain = archive(&[file("a", vec![7; 30 << 20])]);
        layer.write_all(&plain).unwrap();
        Layout { diff_ids: vec![Digest::of(&plain)], ..Layout::of(vec![layer.finish().unwrap()]) }
    }, Harmless(|root| assert_eq!(fs::metadata(root.join("a")).unwrap().len(), 30 << 20))),
    Row("a dictionary of a gigabyte for the decompressor", || {
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        // Compressed with a small dictionary; then the header is changed to claim a large one, which is all that a hostile archive has to do.
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(options.dict_size(1 << 20));
        let mut layer = liblzma::write::XzEncoder::new_stream(Vec::new(), liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::None).unwrap());
        layer.write_all(&archive(&[file("a", "x")])).unwrap();
        Layout::of(vec![with_dictionary(layer.finish().unwrap(), 36)])
    }, Refused("memory limit")),
    Row("too many entries", || one(&(0..6000).map(|number| file(format!("f{number}"), "")).collect::<Vec<_>>()), Refused("entries")),
    Row("too many entries over all layers", || Layout::of(vec![archive(&(0..100).map(|number| file(format!("f{number}"), "")).collect::<Vec<_>>()); 60]), Refused("entries")),
    Row("too many layers", || Layout::of(vec![archive(&[file("a", "x")]); 120]), Refused("layers")),
    Row("too many bytes over all layers", || Layout::of(vec![archive(&[file("a", vec![7; 1 << 20])]); 40]), Refused("bytes")),
    // Digests and manifests
    Row("a layer that was changed", || Layout { tamper: |at| damage(at, is_layer, |bytes| bytes[600] ^= 1), ..one(&[file("a", "x")]) }, Refused("digest is")),
    Row("a layer that was cut", || Layout { tamper: |at| damage(at, is_layer, |bytes| bytes.truncate(1024)), ..one(&[file("a", "x")]) }, Refused("bytes, not")),
    Row("a layer that is longer than announced", || Layout { size_lie: -1, ..one(&[file("a", "x")]) }, Refused("longer than announced")),
    Row("a layer that is shorter than announced", || Layout { size_lie: 1, ..one(&[file("a", "x")]) }, Refused("bytes, not")),
    Row("a layer with another content's digest", || Layout { diff_ids: vec![Digest::of(b"")], ..one(&[file("a", "x")]) }, Refused("content's digest")),
    Row("fewer digests than layers", || Layout { diff_ids: vec![], ..one(&[file("a", "x")]) }, Refused("configuration lists 0")),
    Row("a manifest that was changed", || Layout { tamper: |at| damage(at, |bytes| holds("layers\":[")(bytes), |bytes| bytes.push(b' ')), ..one(&[file("a", "x")]) }, Refused("is damaged")),
    Row("a configuration that was changed", || Layout { tamper: |at| damage(at, |bytes| holds("diff_ids")(bytes), |bytes| bytes.push(b' ')), ..one(&[file("a", "x")]) }, Refused("is damaged")),
    Row("indexes without an end", || Layout { indexes: 50, ..one(&[file("a", "x")]) }, Refused("refer to each other")),
    Row("an index that names itself", || Layout { tamper: |at| {
        let index = fs::read_to_string(at.join("index.json")).unwrap();
        damage(at, |bytes| holds("layers\":[")(bytes), Vec::clear);
        for entry in fs::read_dir(at.join("blobs/sha256")).unwrap() {
            let path = entry.unwrap().path();
            if fs::read(&path).unwrap().is_empty() { fs::write(path, &index).unwrap() }
        }
    }, ..one(&[file("a", "x")]) }, Refused("is damaged")),
    Row("a digest that is a path", || Layout { tamper: |at| fs::write(at.join("index.json"), r#"{"manifests":[{"digest":"sha256:../../../../outside/canary","size":1}]}"#).unwrap(), ..one(&[file("a", "x")]) }, Refused("not a digest")),
    Row("a digest of another kind", || Layout { tamper: |at| fs::write(at.join("index.json"), r#"{"manifests":[{"digest":"md5:d41d8cd98f00b204e9800998ecf8427e","size":1}]}"#).unwrap(), ..one(&[file("a", "x")]) }, Refused("not a digest")),
    Row("an index of five megabytes", || Layout { tamper: |at| fs::write(at.join("index.json"), vec![b' '; 5 << 20]).unwrap(), ..one(&[file("a", "x")]) }, Refused("far too long")),
    Row("an index that nests JSON without an end", || Layout { tamper: |at| fs::write(at.join("index.json"), "[".repeat(1 << 20)).unwrap(), ..one(&[file("a", "x")]) }, Refused("cannot use")),
    Row("a blob that is a link to a canary", || Layout { tamper: |at| {
        let layer = fs::read_dir(at.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path()).find(|path| is_layer(&fs::read(path).unwrap())).unwrap();
        fs::remove_file(&layer).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", layer).unwrap();
    }, ..one(&[file("a", "x")]) }, Refused("cannot")),
    Row("an image for another machine", || Layout { architecture: "pdp11".to_owned(), ..one(&[file("a", "x")]) }, Refused("not for this machine")),
    Row("a layer that is no archive of files", || Layout { media_type: "application/vnd.wasm.content.layer.v1+wasm".to_owned(), ..one(&[file("a", "x")]) }, Refused("no archive of files")),
    Row("an encrypted layer", || Layout { media_type: "application/vnd.oci.image.layer.v1.tar+gzip+encrypted".to_owned(), ..one(&[file("a", "x")]) }, Refused("no archive of files")),
    Row("an image of no layers", || layers(&[]), Refused("holds no files")),
    Row("an image of nothing", || one(&[]), Refused("holds no files")),
    // Our own files
    Row("files called like the store's", || one(&[file("lock", "x"), file("names/other", "x"), directory("rootfs"), file("rootfs/x.part", "x")]), Harmless(|root| is(root, "names/other", "x"))),
    Row("links to the store's own files", || one(&[symlink("names", "../../names"), symlink("rootfs", "../"), file("rootfs/evil", "x"), file("names/other", "x")]), Refused("symbolic links")),
    Row("files called like ours in the sandbox", || one(&[symlink("shorefast", UP), file("shorefast/source", "x")]), Harmless(|root| is(root, "outside/source", "x"))),
    Row("an unknown type over our files", || one(&[Header::new(b'Z', "../lock").then(b""), file("a", "x")]), Refused("leads upwards")),
    Row("a link with an endless target", || one(&[Header::new(b'K', "x").size(5000).gnu().then(&[b'a'; 5000]), Header::new(SYMLINK, "a").then(b"")]), Refused("bytes in a path")),
];

#[test]
fn no_hostile_image_gets_out_or_gets_large() {
    let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.0).collect();
    assert_eq!(names.len(), ROWS.len(), "two rows have the same name");
    assert!(ROWS.len() >= 40);
    let mut wrong = Vec::new();
    let mut most = 0;
    for Row(name, build, outcome) in ROWS {
        match std::panic::catch_unwind(|| attack(build(), outcome)) {
            Ok(memory) => most = most.max(memory),
            Err(problem) => {
                let text = problem.downcast_ref::<String>().cloned();
                let text = text.or_else(|| problem.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                wrong.push(format!("{name}: {}", text.unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
    println!("{} rows, most memory {most} kB", ROWS.len());
}

/// Returns how much memory it took.
fn attack(image: Layout, outcome: &Outcome) -> u64 {
    // In memory where there is such a place: a store syncs what it unpacks.
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let outside = home.path().join("outside");
    fs::create_dir_all(outside.join("directory")).unwrap();
    fs::write(outside.join("canary"), "sings").unwrap();
    fs::write(outside.join("directory/canary"), "sings").unwrap();
    let store = store(home.path());
    one(&[file("good", "x")]).write(&home.path().join("good"));
    let good =
        store.pull(&format!("oci:{}", home.path().join("good").display()).parse().unwrap(), Some(&"other".parse().unwrap()), &[]).unwrap();
    image.write(&home.path().join("image"));
    drop(image);
    let before = tree::of(home.path());

    let (pulled, memory) = pulled_elsewhere(home.path());
    assert!(memory < MEMORY, "it takes {memory} kB of memory");
    match (outcome, &pulled) {
        (Refused(words), Err(said)) => assert!(said.contains(words), "should say {words:?}, but says: {said}"),
        (Refused(words), Ok(_)) => panic!("accepted, though {words:?}"),
        (Harmless(check), Ok(digest)) => {
            let root = store.rootfs(*digest);
            let size: u64 = tree::of(&root).values().map(|node| node.blocks * 512).sum();
            assert!(size <= LIMITS.bytes, "it takes {size} bytes");
            check(&root);
            store.remove(&image_below(home.path()).to_string(), || Ok::<_, shorefast_image::Error>(Default::default())).unwrap();
        }
        (Harmless(_), Err(said)) => panic!("refused: {said}"),
    }
    let (mut before, mut after) = (before, tree::of(home.path()));
    for nodes in [&mut before, &mut after] {
        // Files are created and removed in these.
        for path in ["store/rootfs", "store/names", "store"] {
            nodes.get_mut(Path::new(path)).unwrap().mtime = (0, 0);
        }
    }
    assert_eq!(before, after);
    assert_eq!(fs::read_to_string(store.rootfs(good).join("good")).unwrap(), "x");
    memory
}

fn store(home: &Path) -> Store {
    Store::at(home.join("store")).with_limits(LIMITS)
}

fn image_below(home: &Path) -> Reference {
    format!("oci:{}", home.join("image").display()).parse().unwrap()
}

/// Tells the other process where to work.
const HOME: &str = "SHOREFAST_HOSTILE_HOME";

/// Pulls the image in a new process. Returns its digest or the error, and how many kilobytes of memory that took.
fn pulled_elsewhere(home: &Path) -> (Result<Digest, String>, u64) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "one_row_by_itself", "--ignored", "--nocapture"]).env(HOME, home);
    let ran = command.output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let memory = field("memory: ").unwrap_or_else(|| panic!("it died: {text}{}", String::from_utf8_lossy(&ran.stderr)));
    let pulled = field("digest: ").map(|digest| digest.parse().unwrap()).ok_or_else(|| field("refused: ").unwrap());
    (pulled, memory.parse().unwrap())
}

#[test]
#[ignore = "a part of the other test: the process that pulls one row"]
fn one_row_by_itself() {
    let home = std::env::var_os(HOME).expect("the other test says where");
    let home = Path::new(&home);
    println!();
    match store(home).pull(&image_below(home), None, &[]) {
        Ok(digest) => println!("digest: {digest}"),
        Err(error) => {
            let causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
            println!("refused: {}", causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}")).replace('\n', " "));
        }
    }
    println!("memory: {}", peak_memory());
}

/// In kilobytes, of this process.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()).unwrap()
}

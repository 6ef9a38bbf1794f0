//! Each client's example (`client show NAME --example`, docs/EXAMPLES.md) works: its line is run as it stands, with the names of a server of the
//! test's own in place of those that it has. Here those of the clients that have images of the set-up; `packages/mounts.rs` runs the others.

use std::fs;
use std::path::Path;

use shorefast_tests::path::text;
use shorefast_tests::servers::{Gluster, S3, Sshd, Webdav};
use shorefast_tests::{Client, Host, mountinfo};

/// The words of the line behind `shorefast`.
fn example(host: &Host, name: &str) -> Vec<String> {
    let text = host.shorefast(&["client", "show", name, "--example"]).succeeds().stdout;
    let line = text.lines().find(|line| line.starts_with("shorefast ")).unwrap_or_else(|| panic!("no line in {text}")).to_owned();
    line.split(' ').skip(1).map(str::to_owned).collect()
}

/// Runs it with other names, and looks for a file that the server has.
fn works(host: &Host, name: &str, image: &'static str, names: &[(&str, &str)], more: &[&str]) {
    let mut words = example(host, name);
    let target = host.directory(format!("target-{name}"));
    for (from, to) in names.iter().chain(&[("/mnt", text(&target))]) {
        let found = words.iter_mut().filter(|word| word.contains(from)).map(|word| *word = word.replace(from, to)).count();
        assert_eq!(found, 1, "{from} in {words:?}");
    }
    let image = format!("dir:{}", Client::named(image).image_directory().display());
    words.splice(1..1, ["--image".to_owned(), image]);
    words.splice(1..1, more.iter().map(|word| (*word).to_owned()));
    host.shorefast(&words).succeeds();
    assert_eq!(fs::read_to_string(target.join("greeting")).unwrap_or_else(|error| panic!("{name}: {error}")), "hello", "{name}");
    host.shorefast(&["umount", text(&target)]).succeeds();
    assert_eq!(mountinfo::at(&target), []);
}

fn greet(share: &Path) {
    fs::write(share.join("greeting"), "hello").expect("the test's own");
}

#[test]
fn every_client_has_a_line_that_can_be_planned() {
    let Some(host) = Host::new() else { return };
    let list = host.shorefast(&["client", "list", "--json"]).succeeds().json();
    let names: Vec<_> = list.as_array().expect("an array").iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.len() >= 36, "{names:?}");
    for name in names {
        let mut words = example(&host, name);
        words.insert(1, "--dry-run".to_owned());
        let plan = host.shorefast(&words).succeeds().json();
        assert_eq!(plan["client"], name, "{plan}");
    }
}

#[test]
fn the_lines_of_clients_with_a_server_here_work() {
    let Some(host) = Host::new() else { return };
    let data = host.directory("data");
    greet(&data);
    works(&host, "bindfs", "bindfs", &[("/srv/data", text(&data))], &[]);

    let sshd = Sshd::start(&host);
    greet(&sshd.share);
    let names = [("/root/.ssh/id_ed25519", text(&sshd.key)), ("user@server.example:/data", &sshd.source())];
    works(&host, "sshfs", "sshfs", &names, &["-o", "port=2222,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"]);

    let dav = Webdav::start(&host);
    greet(&dav.share);
    let secret = host.file("dav.secret", "me right\n");
    works(&host, "davfs", "davfs2", &[("/root/dav.secret", text(&secret)), ("https://server.example/dav/", &dav.url())], &[]);

    let settings = host.file("rclone.conf", format!("[remote]\ntype = webdav\nurl = {}\n", dav.url()));
    let names = [("/root/.config/rclone/rclone.conf", text(&settings)), ("remote:path", "remote:")];
    works(&host, "rclone", "rclone", &names, &[]);

    let s3 = S3::start(&host);
    s3.put("greeting", b"hello");
    let url = format!("http://{}", s3.address);
    let names = [("https://s3.example", url.as_str()), ("/root/s3.secret", text(&s3.password_file))];
    works(&host, "s3fs", "s3fs", &names, &[]);
    host.assert_nothing_left();
}

#[test]
fn the_line_of_glusterfs_works() {
    let Some(host) = Host::new() else { return };
    let server = Gluster::start(&host);
    greet(&server.brick);
    works(&host, "glusterfs", "glusterfs", &[("server.example:/volume", &server.source())], &[]);
    host.assert_nothing_left();
}

//! The client's own reason is in the error of a mount that failed: a table of faults per client, each with the words that tell it from the others.

use std::fs;

use shorefast_tests::client::Request;
use shorefast_tests::command;
use shorefast_tests::path::text;
use shorefast_tests::servers::{Gluster, S3, Sshd, Webdav};
use shorefast_tests::{Client, Host};

/// What was wrong, the options and the source, and the sentence that says so.
type Fault = (&'static str, String, String, &'static str);

#[track_caller]
fn each_has_its_reason(host: &Host, client: &Client, fstype: &str, faults: &[Fault]) {
    let target = host.directory("target");
    for (name, options, source, reason) in faults {
        let ran = Request::new(client, fstype, source, &target).options(options).sandboxed(host);
        assert_ne!(ran.code, Some(0), "{name}: it was mounted");
        assert!(ran.stderr.contains(reason), "{name}: no {reason:?} in: {}", ran.stderr);
        assert!(!ran.stderr.contains("is the server reachable?"), "{name}: {}", ran.stderr);
    }
    host.assert_nothing_left();
}

fn catalogue(host: &Host, image: &'static str, definition: &str) -> Client {
    Client::defined(host, image, definition)
}

#[test]
fn of_sshfs() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/root/.ssh").expect("root may");
    command::run(&["mount", "-t", "tmpfs", "none", "/root/.ssh"]);
    host.settle();
    let client = catalogue(&host, "sshfs", include_str!("../../../crates/engine/catalogue/sshfs.toml"));
    let sshd = Sshd::start(&host);
    fs::write(sshd.share.join("file"), "").expect("the test's own");
    let home = sshd.key.parent().expect("it has one").to_owned();
    let other = home.join("other");
    command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", text(&other)]);
    let (source, good) = (sshd.source(), sshd.options());
    let with_key = |key: &str| good.replace(text(&sshd.key), key);
    let at_port = |port: &str| good.replace("port=2222", &format!("port={port}"));
    let faults = [
        ("a host without an address", good.clone(), "root@no-such-host.invalid:/".to_owned(), "Could not resolve hostname"),
        ("a port where nobody listens", at_port("1"), source.clone(), "port 1: Connection refused"),
        ("a host without a way to it", good.clone(), "root@192.0.2.1:/".to_owned(), "192.0.2.1 port 2222: "),
        ("another key", with_key(text(&other)), source.clone(), "Permission denied (publickey"),
        ("a user that is not there", good.clone(), "nosuchuser@127.0.0.1:/".to_owned(), "nosuchuser@127.0.0.1: Permission denied"),
        ("a server that nobody knows", sshd.careful_options(), source.clone(), "Host key verification failed"),
        ("a directory that is not there", good.clone(), format!("{source}/nosuch"), "/nosuch: No such file or directory"),
        ("a file as directory", good.clone(), format!("{source}/file"), "/file: Not a directory"),
        ("an option that nobody knows", format!("{good},nosuchoption=1"), source.clone(), "unknown option"),
        ("a cipher that is none", format!("{good},Ciphers=nosuch"), source.clone(), "Bad SSH2 cipher spec 'nosuch'"),
        ("a key that is not there", with_key("/srv/nosuch"), source.clone(), "cannot read \"/srv/nosuch\""),
        ("a password that is wrong", format!("{},password=wrong", with_key("/dev/null")), source, "Permission denied"),
    ];
    each_has_its_reason(&host, &client, "sshfs", &faults);
}

#[test]
fn of_s3fs() {
    let Some(host) = Host::new() else { return };
    let client = catalogue(&host, "s3fs", include_str!("../../../crates/engine/catalogue/s3fs.toml"));
    let (server, web) = (S3::start(&host), Webdav::start(&host));
    let options = |url: &str, more: &str| format!("url={url},use_path_request_style,retries=1,connect_timeout=3{more}");
    let password = format!(",passwd_file={}", server.password_file.display());
    let bad = host.file("bad", "garbage\n");
    let (url, bucket) = (format!("http://{}", server.address), server.source().to_owned());
    let faults = [
        ("a bucket that is not there", options(&url, &password), "nosuchbucket".to_owned(), "bucket or key not found"),
        (
            "a host without an address",
            options("http://no-such-host.invalid", &password),
            bucket.clone(),
            "unable to connect(host=http://no-such-host.invalid",
        ),
        (
            "a port where nobody listens",
            options("http://127.0.0.1:1", &password),
            bucket.clone(),
            "unable to connect(host=http://127.0.0.1:1",
        ),
        ("TLS where there is none", options(&url.replace("http:", "https:"), &password), bucket.clone(), "unable to connect(host=https:"),
        ("no S3 server", options(&web.url(), &password), bucket.clone(), "checking service"),
        ("no password", options(&url, ""), bucket.clone(), "could not determine how to establish security credentials"),
        ("a password of another form", options(&url, &format!(",passwd_file={}", bad.display())), bucket.clone(), "access key/secret key"),
        ("a password that is not there", options(&url, ",passwd_file=/srv/nosuch"), bucket.clone(), "cannot read \"/srv/nosuch\""),
        ("an option that nobody knows", options(&url, &format!("{password},nosuchoption=1")), bucket.clone(), "nosuchoption"),
        ("a bucket's name that is none", options(&url, &password), "A_B/:c:d".to_owned(), "helper:"),
    ];
    each_has_its_reason(&host, &client, "s3fs", &faults);
}

/// It mounts without a server, too, and connects later: a server that is not there is no fault of the mount.
#[test]
fn of_davfs() {
    let Some(host) = Host::new() else { return };
    let client = catalogue(&host, "davfs2", include_str!("../../../crates/engine/catalogue/davfs.toml"));
    let (server, s3) = (Webdav::start(&host), S3::start(&host));
    let (guarded, encrypted) = (Webdav::with_login(&host), Webdav::with_tls(&host));
    let none = String::new;
    let with = |name: &str, content: &str| format!("shorefast-secret={}", host.file(name, content).display());
    let faults = [
        ("a host without an address", none(), "http://no-such-host.invalid/".to_owned(), "Could not resolve hostname"),
        ("TLS where there is none", none(), server.url().replace("http:", "https:"), "SSL handshake failed"),
        ("a directory that is not there", none(), format!("{}nosuch/", server.url()), "404 Not Found"),
        ("no WebDAV server", none(), format!("http://{}/bucket/", s3.address), "Mounting failed"),
        ("a scheme that is none", none(), "ftp://127.0.0.1/".to_owned(), "invalid URL"),
        ("no login", none(), guarded.url(), "Could not authenticate to server"),
        ("a password that is wrong", with("wrong", "me wrong\n"), guarded.url(), "rejected Basic challenge"),
        ("a login without a password", with("half", "me\n"), guarded.url(), "Could not authenticate to server"),
        ("a login that is not there", "shorefast-secret=/srv/nosuch".to_owned(), guarded.url(), "cannot read \"/srv/nosuch\""),
        ("a CA that nobody knows", none(), encrypted.url().replace("http:", "https:"), "issuer is not trusted"),
    ];
    each_has_its_reason(&host, &client, "davfs", &faults);
}

/// It connects when it is used: only what it can judge without a server is a fault of the mount.
#[test]
fn of_rclone() {
    let Some(host) = Host::new() else { return };
    let client = catalogue(&host, "rclone", include_str!("../../../crates/engine/catalogue/rclone.toml"));
    let none = String::new;
    let configured = |name: &'static str, content: &str, reason: &'static str| {
        (name, format!("config={}", host.file(name.replace(' ', "-"), content).display()), "remote:".to_owned(), reason)
    };
    let faults = [
        ("a remote that is not there", none(), "nosuch:".to_owned(), "didn't find section in config file"),
        ("a backend that is not there", none(), ":nosuch:".to_owned(), "didn't find backend called \"nosuch\""),
        ("an option that nobody knows", "nosuchoption=1".to_owned(), ":memory:".to_owned(), "unknown flag: --nosuchoption"),
        ("a configuration that is not there", "config=/srv/nosuch".to_owned(), "x:".to_owned(), "cannot read \"/srv/nosuch\""),
        configured("a configuration that is none", "garbage\n", "could not parse line: garbage"),
        configured("a remote of no type", "[remote]\nurl = x\n", "didn't find section in config file"),
        configured("a password that is not obscured", "[remote]\ntype = sftp\nhost = x\npass = plain\n", "is it obscured?"),
        configured(
            "a key that is not there",
            "[remote]\ntype = sftp\nhost = x\nkey_file = /nosuch\n",
            "failed to read private key file: open /nosuch",
        ),
        configured("half a login", "[remote]\ntype = s3\nprovider = Other\naccess_key_id = a\n", "secret_access_key not found"),
        configured("a remote of a remote", "[remote]\ntype = alias\n", "alias can't point to an empty remote"),
        ("a value that is none", "vfs_cache_mode=nosuch".to_owned(), ":memory:".to_owned(), "unknown cache mode level \"nosuch\""),
        ("a time that is none", "dir_cache_time=soon".to_owned(), ":memory:".to_owned(), "invalid duration \"soon\""),
    ];
    each_has_its_reason(&host, &client, "rclone", &faults);
}

/// A volume that is there, and all that can be wrong around it. Its own words come between many others.
#[test]
fn of_glusterfs() {
    let Some(host) = Host::new() else { return };
    let client = catalogue(&host, "glusterfs", include_str!("../../../crates/engine/catalogue/glusterfs.toml"));
    let server = Gluster::start(&host);
    let source = server.source();
    let address = source.split(':').next().expect("it has one").to_owned();
    let none = String::new;
    let faults = [
        ("a host without an address", none(), "no-such-host.invalid:/v0".to_owned(), "disconnected from remote-host: no-such-host.invalid"),
        ("a host without a way to it", none(), "192.0.2.1:/v0".to_owned(), "disconnected from remote-host: 192.0.2.1"),
        ("a volume that is not there", none(), format!("{address}:/nosuch"), "failed to fetch volume file (key:/nosuch)"),
        ("a directory that is not there", none(), format!("{source}/nosuch"), "subdirectory for mount \"/nosuch\" is not found"),
        ("no volume", none(), address.clone(), "Server name/volume name unspecified"),
        ("a transport that is not there", "transport=nosuch".to_owned(), source.clone(), "failed to fetch volume file (key:/v0.nosuch)"),
        ("a port that is none", "server-port=abc".to_owned(), source.clone(), "unknown volfile server port abc"),
        ("a port where nobody listens", "server-port=1".to_owned(), source.clone(), "Exhausted all volfile servers"),
        ("a value that is none", "direct-io-mode=maybe".to_owned(), source.clone(), "unknown direct I/O mode setting \"maybe\""),
        ("an option that nobody knows", "nosuchoption=1".to_owned(), source, "Invalid option: nosuchoption"),
    ];
    each_has_its_reason(&host, &client, "glusterfs", &faults);
}

/// What a client says is seen while it lives.
#[test]
fn what_s3fs_says_is_in_the_log_at_once() {
    let Some(host) = Host::new() else { return };
    let client = catalogue(&host, "s3fs", include_str!("../../../crates/engine/catalogue/s3fs.toml"));
    let server = S3::start(&host);
    let target = host.directory("target");
    let options = format!("url=http://{},use_path_request_style,passwd_file={}", server.address, server.password_file.display());
    Request::new(&client, "s3fs", server.source(), &target).options(options).sandboxed(&host).succeeds();
    let said = host.shorefast(&["logs", text(&target)]).succeeds().stdout;
    assert!(said.contains("s3fs version"), "{said}");
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

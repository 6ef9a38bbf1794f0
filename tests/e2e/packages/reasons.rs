//! The client's own reason is in the error of a mount that failed, for network clients of the catalogue: a table of faults per client, each with
//! the words that tell it from the others. (`truth/reasons.rs` has those of sshfs, s3fs, davfs, rclone and glusterfs.)

use std::net::SocketAddr;

use shorefast_tests::client;
use shorefast_tests::path::text;
use shorefast_tests::servers::{Program, S3};

use crate::mounts::{Scene, Server};

/// What was wrong, the options, the source, and the sentence that says so.
type Fault<'a> = (&'a str, &'a str, &'a str, &'a str);

#[track_caller]
fn each_has_its_reason(scene: &Scene, fstype: &str, secret: Option<&str>, faults: &[Fault<'_>]) {
    let (store, target) = (client::store(), scene.host.directory("target"));
    scene.host.settle();
    for (name, options, source, reason) in faults {
        let mut words = vec!["--root", text(&store), "mount", "--timeout", "60s", "-t", fstype];
        words.extend(if options.is_empty() { vec![] } else { vec!["-o", options] });
        words.extend(secret.into_iter().flat_map(|file| ["--secret-file", file]));
        words.extend([*source, text(&target)]);
        let ran = scene.host.shorefast(&words);
        assert_eq!(ran.code, Some(32), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{name}: no {reason:?} in: {}", ran.stderr);
        assert!(!ran.stderr.contains("is the server reachable?"), "{name}: {}", ran.stderr);
    }
    scene.host.assert_nothing_left();
}

#[test]
fn of_httpdirfs() {
    let Some(scene) = Scene::new() else { return };
    let words = ["rclone", "serve", "http", "--addr", "127.0.0.1:8080", "/srv/data/plain"];
    let server = Program::start(&scene.host, "http", &words, SocketAddr::from(([127, 0, 0, 1], 8080)));
    scene.keep(Server::Program(server));
    let here = "http://127.0.0.1:8080/";
    let faults = [
        ("a host without an address", "", "http://no-such-host.invalid/", "Could not resolve hostname <http://no-such-host.invalid/>"),
        ("a port where nobody listens", "", "http://127.0.0.1:1/", "Could not connect to server <http://127.0.0.1:1/>"),
        ("a host without a way to it", "", "http://192.0.2.1/", "Could not connect to server <http://192.0.2.1/>"),
        ("TLS where there is none", "", "https://127.0.0.1:8080/", "SSL connect error <https://127.0.0.1:8080/>"),
        (
            "a directory that is not there",
            "",
            "http://127.0.0.1:8080/nosuch/",
            "cannot retrieve URL: http://127.0.0.1:8080/nosuch/, HTTP 404",
        ),
        ("another scheme", "", "ftp://127.0.0.1/", "Please supply a valid URL"),
        ("no address at all", "", "nonsense", "Please supply a valid URL"),
        ("an option that nobody knows", "nosuchoption=1", here, "unknown option(s): `-o nosuchoption=1'"),
        ("an option of the kernel that is none", "max_read=abc", here, "invalid parameter in option `max_read=abc'"),
    ];
    each_has_its_reason(&scene, "httpdirfs", None, &faults);
}

#[test]
fn of_curlftpfs() {
    let Some(scene) = Scene::new() else { return };
    scene.serve("ftp", "exec python3 -m pyftpdlib -i 127.0.0.1 -p 2121 -w -d plain", "127.0.0.1:2121");
    scene.serve("ftp-login", "exec python3 -m pyftpdlib -i 127.0.0.1 -p 2122 -w -d plain -u me -P right", "127.0.0.1:2122");
    let (here, guarded) = ("ftp://127.0.0.1:2121/", "ftp://127.0.0.1:2122/");
    let faults = [
        ("a host without an address", "", "ftp://no-such-host.invalid/", "Could not resolve host: no-such-host.invalid"),
        ("a port where nobody listens", "", "ftp://127.0.0.1:1/", "Failed to connect to 127.0.0.1 port 1"),
        ("a host without a way to it", "", "ftp://192.0.2.1/", "Failed to connect to 192.0.2.1 port 21"),
        ("another scheme", "", "nonsense://x/", "Could not resolve host: nonsense"),
        ("a directory that is not there", "", "ftp://127.0.0.1:2121/nosuch/", "Server denied you to change to the given directory"),
        ("no login", "", guarded, "Access denied: 530"),
        ("a password that is wrong", "user=me:wrong", guarded, "Access denied: 530"),
        // It has no more to say.
        ("TLS where there is none", "ssl", here, "Error connecting to ftp:"),
        ("a time that is none", "connect_timeout=abc", here, "invalid parameter in option `connect_timeout=abc'"),
        ("an option that nobody knows", "nosuchoption=1", here, "unknown option `nosuchoption=1'"),
    ];
    each_has_its_reason(&scene, "curlftpfs", None, &faults);
}

#[test]
fn of_nbdfuse() {
    let Some(scene) = Scene::new() else { return };
    scene.serve("nbd", "truncate -s 1M disk; exec nbdkit -f -i 127.0.0.1 -p 10809 file disk", "127.0.0.1:10809");
    scene.serve("ftp", "exec python3 -m pyftpdlib -i 127.0.0.1 -p 2121 -d plain", "127.0.0.1:2121");
    let here = "nbd://127.0.0.1:10809";
    let faults = [
        ("a host without an address", "", "nbd://no-such-host.invalid", "getaddrinfo: hostname \"no-such-host.invalid\""),
        ("a port where nobody listens", "", "nbd://127.0.0.1:1", "127.0.0.1:1: could not connect to remote host: Connection refused"),
        ("a host without a way to it", "", "nbd://192.0.2.1", "192.0.2.1:10809: could not connect to remote host: Network is unreachable"),
        ("another scheme", "", "nonsense://x", "unknown NBD URI scheme: nonsense"),
        ("no address at all", "", "nonsense", "NBD URI does not have a scheme"),
        ("TLS where there is none", "", "nbds://127.0.0.1:10809", "server refused TLS"),
        ("no NBD server", "", "nbd://127.0.0.1:2121", "server did not send expected NBD magic"),
        ("a socket that is not there", "", "nbd+unix:///?socket=/nosuch", "connect: No such file or directory"),
        ("an option that nobody knows", "nosuchoption=1", here, "unknown option(s): `-o nosuchoption=1'"),
        ("an option of the kernel that is none", "max_read=abc", here, "invalid parameter in option `max_read=abc'"),
    ];
    each_has_its_reason(&scene, "nbdfuse", None, &faults);
}

/// What its server answers, it says to syslog alone.
#[test]
fn of_s3backer() {
    let Some(scene) = Scene::new() else { return };
    let s3 = S3::start(&scene.host);
    let bucket = s3.source().to_owned();
    let secret = text(&s3.password_file).to_owned();
    scene.keep(Server::S3(s3));
    let with = |url: &str, more: &str| format!("baseURL={url},maxRetryPause=300,blockSize=4k,quiet{more}");
    let here = "http://127.0.0.1:9000/";
    let rows = [
        ("a host without an address", with("http://no-such-host.invalid/", ",size=1M"), "Could not resolve hostname (final attempt)"),
        ("a port where nobody listens", with("http://127.0.0.1:1/", ",size=1M"), "Could not connect to server (final attempt)"),
        ("a host without a way to it", with("http://192.0.2.1/", ",size=1M"), "giving up on: HEAD http://192.0.2.1/bucket/"),
        ("TLS where there is none", with("https://127.0.0.1:9000/", ",size=1M"), "SSL connect error (final attempt)"),
        ("an address that is none", "baseURL=nonsense,size=1M".to_owned(), "invalid base URL `nonsense'"),
        ("no size", with(here, ""), "auto-detection of filesystem size failed"),
        ("a size that is none", with(here, ",size=1X"), "invalid file size `1X'"),
        (
            "a block's size that is none",
            format!("baseURL={here},size=1M,blockSize=3k,maxRetryPause=300"),
            "block size must be a power of 2",
        ),
        ("an access that is none", with(here, ",size=1M,accessType=nosuch"), "illegal access type `nosuch'"),
    ];
    let faults: Vec<Fault<'_>> = rows.iter().map(|(name, options, reason)| (*name, options.as_str(), bucket.as_str(), *reason)).collect();
    each_has_its_reason(&scene, "s3backer", Some(&secret), &faults);
    let options = with(here, ",size=1M");
    let no_bucket =
        ("a bucket that is not there", options.as_str(), "nosuchbucket", "error creating s3backer_store: No such file or directory");
    each_has_its_reason(&scene, "s3backer", Some(&secret), &[no_bucket]);
}

#[test]
fn of_moosefs() {
    let Some(scene) = Scene::new() else { return };
    let faults = [
        (
            "a host without an address",
            "",
            "no-such-host.invalid",
            "can't resolve master hostname and/or portname (no-such-host.invalid:9421)",
        ),
        ("a port where nobody listens", "mfsport=1", "127.0.0.1", "can't connect to mfsmaster (\"127.0.0.1\":\"1\")"),
        ("a host without a way to it", "", "192.0.2.1", "can't connect to mfsmaster (\"192.0.2.1\":\"9421\")"),
        ("a port that is none", "mfsport=nosuch", "127.0.0.1", "can't resolve master hostname and/or portname (127.0.0.1:nosuch)"),
        ("a value that is none", "mfscachemode=NOSUCH", "127.0.0.1", "unrecognized cachemode option"),
    ];
    each_has_its_reason(&scene, "moosefs", None, &faults);
}

//! Registries that send whoever comes to a token server first, as all large ones do.

use std::fs;
use std::path::{Path, PathBuf};

use shorefast_image::Digest;
use shorefast_tests::Host;
use shorefast_tests::servers::registry::{Access, Transport};
use shorefast_tests::servers::tokens::{Asker, Given, IDENTITY, PUBLIC};
use shorefast_tests::servers::{Registry, Tokens};

use super::{BASE64_OF_LOGIN, BASE64_OF_WRONG_LOGIN, LARGE, PORT, block, configure, image_pull, noise, plain, tools};

const IMAGES: [&str; 2] = ["public/tools:1", "team/tools:1"];

fn start(host: &Host) -> (Tokens, Registry) {
    let tokens = Tokens::start(host);
    let registry = Registry::start(host, PORT, Transport::Plain, Access::Token(tokens.address));
    let layout = tools(host);
    IMAGES.iter().for_each(|image| registry.push(&layout.path, "tools", image));
    configure(&format!("{}[\"{}\"]\nplain_http = true\n", with_token_server(&registry, &tokens), tokens.address));
    tokens.given(); // those were skopeo's
    (tokens, registry)
}

fn with_token_server(registry: &Registry, tokens: &Tokens) -> String {
    format!("{}token_servers = [\"{}\"]\n", plain(registry), tokens.address)
}

/// A home whose podman is logged in with `entry`.
fn home(host: &Host, name: &str, registry: &Registry, entry: &str) -> PathBuf {
    let home = host.directory(name);
    let file = home.join(".config/containers/auth.json");
    fs::create_dir_all(file.parent().expect("it has a parent")).expect("/srv is the test's own");
    fs::write(file, format!(r#"{{"auths": {{"{}": {{{entry}}}}}}}"#, registry.address)).expect("/srv is the test's own");
    home
}

/// It gets the whole image with a single token, which allows no more than it needs.
#[track_caller]
fn pulls(host: &Host, home: &Path, registry: &Registry, tokens: &Tokens, image: &str, asker: Asker) {
    let name = registry.name(image);
    let pulled = image_pull(host, home, &name).succeeds();
    let digest: Digest = pulled.stdout.trim().parse().expect("it says the digest");
    let rootfs = Path::new("/var/lib/shorefast/rootfs").join(digest.hex());
    assert_eq!(fs::read(rootfs.join("a")).expect("it is unpacked"), block("one"));
    assert_eq!(fs::read(rootfs.join("big")).expect("it is unpacked"), noise(LARGE, 7));
    let repository = image.split(':').next().unwrap_or_default();
    assert_eq!(tokens.given(), [Given { to: asker, scope: format!("repository:{repository}:pull") }], "{image}");
    host.shorefast(&["image", "remove", &name]).succeeds();
}

#[test]
fn a_login_is_exchanged_for_a_token() {
    let Some(host) = Host::new() else { return };
    let (tokens, registry) = start(&host);
    let rows = [
        ("password", format!(r#""auth": "{BASE64_OF_LOGIN}""#), Asker::Password),
        ("identity", format!(r#""auth": "{BASE64_OF_WRONG_LOGIN}", "identitytoken": "{IDENTITY}""#), Asker::Identity),
    ];
    for (name, entry, asker) in rows {
        let home = home(&host, name, &registry, &entry);
        IMAGES.iter().for_each(|image| pulls(&host, &home, &registry, &tokens, image, asker));
    }
}

#[test]
fn what_is_public_needs_a_token_but_no_login() {
    let Some(host) = Host::new() else { return };
    let (tokens, registry) = start(&host);
    let nobody = host.directory("nobody");
    for image in IMAGES {
        if image.starts_with(PUBLIC) {
            pulls(&host, &nobody, &registry, &tokens, image, Asker::Anybody);
        } else {
            // It gets a token, which does not open the door.
            image_pull(&host, &nobody, &registry.name(image)).exits(32).says("there are no credentials").says("hint: log in");
            assert!(tokens.given().iter().all(|given| given.to == Asker::Anybody));
        }
    }
    image_pull(&host, &nobody, &registry.name("public/tools:2")).exits(32).says("has no public/tools:2").says("hint: ");
}

#[test]
fn a_wrong_login_is_told_and_not_replaced_by_none() {
    let Some(host) = Host::new() else { return };
    let (tokens, registry) = start(&host);
    let rows = [
        ("password", format!(r#""auth": "{BASE64_OF_WRONG_LOGIN}""#), "wrong-password"),
        ("identity", format!(r#""auth": "{BASE64_OF_LOGIN}", "identitytoken": "wrong-identity""#), "wrong-identity"),
    ];
    for (name, entry, secret) in rows {
        let home = home(&host, name, &registry, &entry);
        for image in IMAGES {
            let ran = image_pull(&host, &home, &registry.name(image)).exits(32);
            let ran = ran.says("does not accept the credentials for").says("hint: log in again");
            assert!(!ran.stderr.contains(secret) && !ran.stderr.contains(BASE64_OF_WRONG_LOGIN), "{}", ran.stderr);
        }
    }
    assert_eq!(tokens.given(), []);
}

#[test]
fn a_login_does_not_travel_in_the_clear_because_a_registry_says_so() {
    let Some(host) = Host::new() else { return };
    let (tokens, registry) = start(&host);
    configure(&with_token_server(&registry, &tokens));
    let home = home(&host, "password", &registry, &format!(r#""auth": "{BASE64_OF_LOGIN}""#));
    let name = registry.name("team/tools:1");
    image_pull(&host, &home, &name).exits(32).says(&tokens.address.to_string()).says("hint: ");
    assert_eq!(tokens.given(), []);
}

#[test]
fn a_login_goes_to_no_other_server_because_a_registry_says_so() {
    let Some(host) = Host::new() else { return };
    let (tokens, registry) = start(&host);
    configure(&format!("{}[\"{}\"]\nplain_http = true\n", plain(&registry), tokens.address));
    let entries = [format!(r#""auth": "{BASE64_OF_LOGIN}""#), format!(r#""auth": "", "identitytoken": "{IDENTITY}""#)];
    for (number, entry) in entries.iter().enumerate() {
        let home = home(&host, &number.to_string(), &registry, entry);
        let line = format!("token_servers = [\"{}\"] below [\"{}\"]", tokens.address, registry.address);
        image_pull(&host, &home, &registry.name("team/tools:1")).exits(32).says("wants its login sent to").says(&line).says("hint: ");
    }
    assert_eq!(tokens.given(), []);
    // Nothing is told by who has nothing to tell.
    pulls(&host, &host.directory("nobody"), &registry, &tokens, "public/tools:1", Asker::Anybody);
}

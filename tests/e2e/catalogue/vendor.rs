//! `client new` and `client test`: what a vendor starts from, and what shows that it works.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use shorefast_tests::client::images;
use shorefast_tests::path::text;
use shorefast_tests::{Host, Ran};

#[test]
fn a_new_definition_is_a_good_one() {
    let Some(host) = Host::new() else { return };
    let rows: [&[&str]; 4] = [
        &["--image", "registry.example/clients/mine:1"],
        &["--image", "packages:debian/trixie?mine", "--type", "mine", "--type", "fuse.mine", "--kernel-type", "fuse.mine", "--foreground"],
        &["--image", "dir:/srv/mine", "--path", "--secret-at", "/run/secret"],
        &["--image", "dir:/srv/mine", "--secret-option", "keyfile", "--", "mine", "--mount", "{source}", "{target}", "-o", "{options}"],
    ];
    for row in rows {
        let written = host.shorefast(&[&["client", "new", "mine"], row].concat()).succeeds().stdout;
        assert!(written.lines().filter(|line| line.starts_with('#')).count() > 5, "it is commented: {written}");
        let file = host.file("mine.toml", &written);
        host.shorefast(&["client", "check", text(&file)]).succeeds();
        let shown = host.shorefast(&["--clients", "/srv", "client", "show", "--json", "mine"]).succeeds().json();
        assert_eq!(shown["keys"]["image"]["value"], row[1], "{shown}");
        assert_eq!(shown["keys"]["daemon"]["value"] == "foreground", row.contains(&"--foreground"), "{shown}");
        assert_eq!(shown["keys"]["source"]["value"] == "path", row.contains(&"--path"), "{shown}");
    }
    let wrong: [(&[&str], &str); 4] = [
        (&[], "no image"),
        (&["--image", "zip:/x"], "no known scheme"),
        (&["--image", "dir:/x", "--secret-at", "/usr/secret"], "mine.toml"),
        (&["--image", "dir:/x", "--", "mine", "{sauce}"], "mine.toml"),
    ];
    for (row, said) in wrong {
        let ran = host.shorefast(&[&["client", "new", "mine"], row].concat());
        assert!(ran.code == Some(1) && ran.stderr.contains(said) && ran.stdout.is_empty(), "{row:?}: {ran:?}");
    }
}

fn definition(host: &Host) -> PathBuf {
    let image = format!("dir:{}", images().join("bindfs").display());
    let words = ["client", "new", "mine", "--image", &image, "--path", "--", "bindfs", "-o", "{options}", "{source}", "{target}"];
    host.file("mine.toml", host.shorefast(&words).succeeds().stdout)
}

fn tried(host: &Host, source: &Path, more: &[&str]) -> Ran {
    let file = definition(host);
    host.settle();
    host.shorefast(&[&["client", "test", text(&file), "--source", text(source), "--json"], more].concat())
}

fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let checks = report["checks"].as_array().expect("a list of checks");
    checks.iter().map(|check| (check["check"].as_str().unwrap_or_default(), check["outcome"].as_str().unwrap_or_default())).collect()
}

#[test]
fn a_client_that_works_passes_and_leaves_nothing() {
    let Some(host) = Host::new() else { return };
    let source = host.directory("source");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("/srv is the test's own");
    let report = tried(&host, &source, &[]).succeeds().json();
    assert_eq!(report["passed"], true, "{report}");
    assert!(outcomes(&report).len() == 8 && outcomes(&report).iter().all(|(_, outcome)| *outcome == "passed"), "{report}");
    host.assert_nothing_left();
    assert_eq!(fs::read_dir(&source).expect("it is there").count(), 0, "what was written was removed");
    // Read-only, nothing is written.
    let report = tried(&host, &source, &["-o", "ro"]).succeeds().json();
    assert!(outcomes(&report).contains(&("writes and reads back", "skipped")), "{report}");
    host.assert_nothing_left();
    let shown = host.shorefast(&["client", "test", "/srv/mine.toml", "--source", text(&source)]).succeeds().stdout;
    assert!(shown.contains("has no privileges") && shown.ends_with("passed\n"), "{shown}");
    host.assert_nothing_left();
}

#[test]
fn a_client_that_does_not_work_fails_with_its_reason_and_leaves_nothing() {
    let Some(host) = Host::new() else { return };
    // Only root may write there: a client is not root.
    let report = tried(&host, &host.directory("source"), &[]).exits(32).json();
    assert_eq!(report["passed"], false);
    let failed: Vec<_> = outcomes(&report).into_iter().filter(|(_, outcome)| *outcome == "failed").collect();
    assert_eq!(failed, [("writes and reads back", "failed")], "{report}");
    assert!(outcomes(&report).iter().rev().take(5).all(|(_, outcome)| *outcome == "skipped"), "{report}");
    host.assert_nothing_left();
    let report = tried(&host, Path::new("/srv/no-such-source"), &[]).exits(32).json();
    assert!(report["checks"][0]["detail"].as_str().is_some_and(|detail| detail.contains("no-such-source")), "{report}");
    host.assert_nothing_left();
    host.shorefast(&["client", "test", "/srv/none.toml", "--source", "x"]).exits(1).says("none.toml");
}

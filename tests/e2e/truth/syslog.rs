//! What a client says with syslog(3) is in its log, where the rest of what it says is.

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::servers::S3;
use shorefast_tests::{Client, Host, wait};

/// In the background it speaks to syslog alone.
const IN_BACKGROUND: &str = "types = [\"s3fs\"]
kernel_types = [\"fuse.s3fs\"]
files = [\"passwd_file\"]
command = [\"s3fs\", \"{source}\", \"{target}\", \"-o\", \"{options}\"]
";

#[test]
fn of_a_client_in_the_background_is_in_its_log_while_it_lives_and_after() {
    let Some(host) = Host::new() else { return };
    let client = Client::defined(&host, "s3fs", IN_BACKGROUND);
    let server = S3::start(&host);
    let target = host.directory("target");
    let options = format!("url=http://{},use_path_request_style,passwd_file={}", server.address, server.password_file.display());
    Request::new(&client, "s3fs", server.source(), &target).options(options).sandboxed(&host).succeeds();
    let id = host.list()[0]["id"].as_str().expect("an id").to_owned();
    let logs = |of: &str| host.shorefast(&["logs", of]).succeeds().stdout;
    // It begins with what syslog(3) puts there: time, name and number of the process. Facility and level are left out.
    let said = wait::until("its first words", || Some(logs(text(&target))).filter(|said| said.contains("s3fs[")));
    assert!(said.contains("version") && !said.contains('<'), "{said}");
    host.shorefast(&["umount", text(&target)]).succeeds();
    assert!(logs(&id).starts_with(&said), "{}", logs(&id));
    host.assert_nothing_left();
}

#[test]
fn of_a_client_that_fails_is_in_the_error() {
    let Some(host) = Host::new() else { return };
    let client = Client::defined(&host, "s3fs", IN_BACKGROUND);
    let server = S3::start(&host);
    let options = format!("url=http://{},use_path_request_style,retries=1,passwd_file={}", server.address, server.password_file.display());
    let request = Request::new(&client, "s3fs", "nosuchbucket", host.directory("target")).options(options);
    request.sandboxed(&host).exits(32).says("bucket or key not found");
    host.assert_nothing_left();
}

//! Credential helpers: `docker-credential-NAME get`, with the host on standard input and JSON on standard output.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::registry::error::Error;
use crate::registry::login::Login;

/// A helper may ask a key store or a cloud; none needs longer, and no mount should wait for an invisible dialog.
const PATIENCE: Duration = Duration::from_secs(30);
const LARGEST: u64 = 64 * 1024;

/// `None`: the helper has no credentials for this host.
pub(crate) fn ask(name: &str, host: &str) -> Result<Option<Login>, Error> {
    let program = format!("docker-credential-{name}");
    let failed = |problem: String| Error::Helper { program: program.clone(), problem };
    if name.contains('/') {
        return Err(failed("its name is a path".to_owned()));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| failed(format!("cannot start it: {error}")))?;
    let (answer, success) = converse(child, host).map_err(failed)?;
    if success { read(&answer).map(Some).map_err(failed) } else { refusal(&answer).map_err(failed) }
}

fn converse(mut child: Child, host: &str) -> Result<(Vec<u8>, bool), String> {
    // A helper that reads nothing, or ends early, is judged by its exit status.
    let _ = child.stdin.take().map(|mut input| input.write_all(host.as_bytes()));
    let output = child.stdout.take().ok_or("it has no output")?;
    let reader = thread::spawn(move || {
        let mut answer = Vec::new();
        output.take(LARGEST).read_to_end(&mut answer).map(|_| answer)
    });
    let deadline = Instant::now() + PATIENCE;
    let status = shorefast_sys::deadline::exit_or_kill(&mut child, deadline).map_err(|error| error.to_string())?;
    let status = status.ok_or_else(|| format!("no answer within {PATIENCE:?}"))?;
    let answer = reader.join().map_err(|_| "its output cannot be read".to_owned())?.map_err(|error| error.to_string())?;
    Ok((answer, status.success()))
}

fn read(answer: &[u8]) -> Result<Login, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        username: String,
        secret: String,
    }
    // Its output is not repeated: it may be the secret.
    let Answer { username, secret } =
        serde_json::from_slice(answer).map_err(|_| "its answer is not in the format of credential helpers".to_owned())?;
    Ok(match username.as_str() {
        "<token>" => Login::Identity(secret),
        _ => Login::Password { user: username, password: secret },
    })
}

/// The protocol has no code for "not found": all helpers print these words.
fn refusal(answer: &[u8]) -> Result<Option<Login>, String> {
    let text = String::from_utf8_lossy(answer);
    if text.contains("credentials not found") {
        return Ok(None);
    }
    Err(format!("it failed: {}", text.lines().next().unwrap_or_default().chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_passwords_identities_or_none() {
        let user = br#"{"ServerURL":"x","Username":"me","Secret":"s"}"#;
        assert_eq!(read(user), Ok(Login::Password { user: "me".into(), password: "s".into() }));
        assert_eq!(read(br#"{"Username":"<token>","Secret":"s"}"#), Ok(Login::Identity("s".into())));
        assert!(!read(b"secret").unwrap_err().contains("secret"));
        assert_eq!(refusal(b"credentials not found in native keychain\n"), Ok(None));
        assert!(refusal(b"locked\nmore").unwrap_err().ends_with("locked"));
    }

    #[test]
    fn a_helper_that_is_not_there_or_elsewhere_is_an_error() {
        for name in ["no-such-helper", "../../bin/sh"] {
            assert!(matches!(ask(name, "a.example"), Err(Error::Helper { .. })), "{name}");
        }
    }
}

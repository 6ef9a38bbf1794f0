//! What comes over the volume plugin's socket: as it is, or as the body of a call. Whatever comes: it is answered as HTTP and JSON, nothing in the
//! answer steers a terminal, names lead to files of ours alone, and what would be written down has no secret in it.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use shorefast_docker::call::{self, Call};
use shorefast_docker::messages::Answer;
use shorefast_docker::{http, options};
use shorefast_engine::mode::Mode;
use shorefast_engine::options::parse;
use shorefast_engine::request::SecretFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

const CALLS: [&str; 9] = ["Create", "Remove", "Get", "Path", "Mount", "Unmount", "List", "Capabilities", "Nothing"];

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match CALLS.get(usize::from(*kind)) {
        Some(name) => {
            if let Ok(call) = call::parse(&format!("/VolumeDriver.{name}"), bytes) {
                judge(&call);
            }
        }
        None => on_the_wire(bytes),
    }
});

fn on_the_wire(bytes: &[u8]) {
    thread_local!(static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() });
    let answered = RUNTIME.with(|runtime| {
        let runtime = runtime.get_or_init(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
        runtime.block_on(async {
            let (mut caller, plugin) = tokio::io::duplex(64 << 10);
            // The caller closes its half, so no further data is awaited.
            let ask = async {
                caller.write_all(bytes).await.expect("it fits");
                let _ = caller.shutdown().await;
                let mut answered = Vec::new();
                let _ = caller.read_to_end(&mut answered).await;
                answered
            };
            let serve = http::serve(plugin, async |call| {
                judge(&call);
                Ok(Answer::default())
            });
            tokio::join!(ask, serve).0
        })
    });
    let text = String::from_utf8(answered).expect("text");
    if let Some((head, body)) = text.split_once("\r\n\r\n").filter(|(_, body)| !body.is_empty()) {
        assert!(head.starts_with("HTTP/1."), "{head}");
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let said = body["Err"].as_str().expect("a text");
        assert!(!said.chars().any(char::is_control), "{said:?}");
    }
}

fn judge(call: &Call) {
    match call {
        Call::Activate | Call::Capabilities | Call::List => {}
        Call::Remove { name } | Call::Get { name } | Call::Path { name } => is_file_name(name),
        Call::Mount { name, id } | Call::Unmount { name, id } => [name, id].into_iter().for_each(|text| is_file_name(text)),
        Call::Create { name, options: given } => {
            is_file_name(name);
            assert!(options::differences(given, given).is_empty());
            // Once accepted, always accepted: it is read again after a restart.
            assert_eq!(options::check(given.clone()).as_ref().ok(), Some(given));
            for value in given.values() {
                assert!(!value.contains('\0') && !value.is_empty());
            }
            // What cannot be taken apart is refused by the worker that checks it.
            let items = given.get("o").and_then(|text| parse(text).ok()).map(|options| options.items).unwrap_or_default();
            let has_password = items.iter().any(|item| item.name.eq_ignore_ascii_case("password") && item.value.is_some());
            assert!(!has_password, "{items:?}");
            let request = options::request(String::new(), given);
            assert_eq!((request.mode, request.target.as_os_str().len()), (Some(Mode::Container), 0));
            assert!(matches!(request.secret_file, SecretFile::OfRoot));
        }
    }
}

fn is_file_name(text: &str) {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    assert!(is_plain && !text.starts_with(['.', '-', '_']) && (1..=255).contains(&text.len()), "{text:?}");
}

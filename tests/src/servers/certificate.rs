//! A CA that no program trusts by default, and a certificate of it for this machine.

use std::fs;
use std::path::Path;

use crate::command;

/// Leaves `ca.pem`, `cert.pem` and `key.pem` in `directory`.
pub(super) fn certify(directory: &Path) {
    let path = |name: &str| directory.join(name).display().to_string();
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("cannot write the certificate's names");
    let openssl = |arguments: &str| {
        let with_paths: Vec<_> = arguments.split(' ').map(|word| word.strip_prefix('@').map_or(word.to_owned(), path)).collect();
        let words: Vec<_> = std::iter::once("openssl").chain(with_paths.iter().map(String::as_str)).collect();
        command::run(&words);
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout @ca.key -out @ca.pem -days 2 -subj /CN=Test-CA");
    openssl("req -newkey rsa:2048 -nodes -keyout @key.pem -out @request.pem -subj /CN=localhost");
    openssl("x509 -req -in @request.pem -CA @ca.pem -CAkey @ca.key -CAcreateserial -days 2 -extfile @names -out @cert.pem");
}

//! `shorefast image outdated` and `image pull --all`: what is newer at its origin, and getting it.

use std::process::ExitCode;

use serde_json::{Value, json};
use shorefast_engine::{Error, text};
use shorefast_image::store::{Change, Image, Newest};
use shorefast_image::{Reference, Store};

use crate::front::signers::Signers;
use crate::front::table;
use crate::report;

/// Each is asked for; the first failure decides the exit code.
pub fn run(store: &Store, json: bool) -> Result<ExitCode, Error> {
    let mut code = ExitCode::SUCCESS;
    let mut rows = Vec::new();
    for (reference, image) in store.refreshable()? {
        match store.newest(&reference, &image) {
            Ok(newest) => rows.push((reference, image, newest)),
            Err(error) => {
                let failed = report::failure(&error.into());
                code = if code == ExitCode::SUCCESS { failed } else { code };
            }
        }
    }
    report::print(&if json { format!("{:#}\n", Value::from(rows.iter().map(as_json).collect::<Vec<_>>())) } else { table(&rows) });
    Ok(code)
}

/// One line for each: its name and digest.
pub fn pull_all(store: &Store, signers: &Signers<'_>) -> Result<ExitCode, Error> {
    let mut code = ExitCode::SUCCESS;
    for (reference, _) in store.refreshable()? {
        match signers.of(&reference).and_then(|keys| Ok(store.pull(&reference, None, &keys)?)) {
            Ok(digest) => report::print(&format!("{reference} {digest}\n")),
            Err(error) => {
                let failed = report::failure(&error);
                code = if code == ExitCode::SUCCESS { failed } else { code };
            }
        }
    }
    Ok(code)
}

type Row = (Reference, Image, Newest);

fn as_json((reference, image, newest): &Row) -> Value {
    json!({
        "name": reference.to_string(),
        "digest": image.digest,
        "newest": newest.digest,
        "outdated": image.digest != newest.digest,
        "security": newest.changes.iter().any(|change| change.security),
        "changes": newest.changes,
    })
}

fn table(rows: &[Row]) -> String {
    let outdated: Vec<_> = rows.iter().filter(|(_, image, newest)| image.digest != newest.digest).collect();
    if outdated.is_empty() {
        return format!("all {} images that have an origin are current\n", rows.len());
    }
    let mut lines = vec![["NAME", "DIGEST", "NEWEST", "CHANGES"].map(str::to_owned)];
    for (reference, image, newest) in outdated {
        let name = text::escape(reference.to_string().as_bytes());
        lines.push([name, image.digest.short(), newest.digest.short(), newest.changes.iter().map(shown).collect::<Vec<_>>().join(", ")]);
    }
    table::table(&lines)
}

fn shown(change: &Change) -> String {
    let versions = match (&change.from, &change.to) {
        (Some(from), Some(to)) => format!("{from} -> {to}"),
        (None, Some(to)) => format!("new: {to}"),
        _ => "gone".to_owned(),
    };
    let security = if change.security { " (security)" } else { "" };
    text::escape(format!("{} {versions}{security}", change.package).as_bytes())
}

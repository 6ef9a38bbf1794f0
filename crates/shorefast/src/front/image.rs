//! `shorefast image …`: adds, lists, gives away and removes images of the store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shorefast_engine::records::Records;
use shorefast_engine::{Error, images, text};
use shorefast_image::store::{Collected, Extent, Image, Users};
use shorefast_image::{Keys, Reference, Store};

use crate::front::places::Places;
use crate::front::signers::Signers;
use crate::front::{build, candidates, examples, outdated, show, table};
use crate::report;

#[derive(Debug, Args)]
pub struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Get an image, or update it to the newest of its name; live mounts keep theirs
    #[command(after_long_help = examples::OF_PULL)]
    Pull {
        /// NAME[:TAG] of a registry, oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], tar:FILE
        #[arg(value_name = "REF", required_unless_present = "all", conflicts_with = "all")]
        references: Vec<String>,
        /// All images of registries and packages in the store, under their present names
        #[arg(long)]
        all: bool,
        /// Accept it only if one of these keys has signed it, in addition to what the image's clients require
        #[arg(long, value_name = "FILE", conflicts_with = "all")]
        signed_by: Option<PathBuf>,
    },
    /// Say which images of registries and packages have newer versions, without getting them
    #[command(after_long_help = examples::OF_OUTDATED)]
    Outdated {
        /// A JSON array of {name, digest, newest, outdated, security, changes}, current ones included
        #[arg(long)]
        json: bool,
    },
    /// Import an image from a file, under a name
    #[command(after_long_help = examples::OF_IMPORT)]
    Import {
        /// oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], oci:DIR[:TAG] or tar:FILE
        #[arg(value_name = "REF")]
        reference: String,
        /// As in `--image NAME`; default: the reference itself
        name: Option<String>,
    },
    /// Build an image from distribution packages, verified, without running any of their scripts
    #[command(after_long_help = examples::OF_BUILD)]
    Build(build::BuildArguments),
    /// Write an image to a file or directory, for other machines and tools; the same image has the same digest everywhere
    #[command(after_long_help = examples::OF_EXPORT)]
    Export {
        /// A name, a digest, or the first digits of one
        name: String,
        /// oci-archive:FILE[:TAG], oci:DIR[:TAG], docker-archive:FILE[:NAME]
        #[arg(value_name = "REF")]
        to: String,
    },
    /// Send an image to a registry; parts that the registry already has are not sent again
    #[command(after_long_help = examples::OF_PUSH)]
    Push {
        /// A name, a digest, or the first digits of one
        name: String,
        /// HOST/REPOSITORY[:TAG]; default: the image's own name
        #[arg(value_name = "NAME")]
        to: Option<String>,
    },
    /// Show all images
    #[command(after_long_help = examples::OF_IMAGE_LIST)]
    List {
        /// A JSON array of {name, names, digest, size, used_by, source, created}
        #[arg(long)]
        json: bool,
    },
    /// Show everything that is known about one image
    #[command(after_long_help = examples::OF_IMAGE_INSPECT)]
    Inspect {
        /// A JSON object, with entries, size, digest and path
        #[arg(long)]
        json: bool,
        /// A name, a digest, or the first digits of one
        #[arg(add = candidates::images())]
        name: String,
    },
    /// Remove names, and images with their last name; refuses images that a live mount uses
    #[command(after_long_help = examples::OF_REMOVE)]
    Remove {
        /// Names, digests, or the first digits of one
        #[arg(value_name = "NAME", required = true, add = candidates::images())]
        names: Vec<String>,
    },
    /// Remove images that have neither a name nor a user, and leftovers of killed processes
    #[command(after_long_help = examples::OF_GC)]
    Gc {
        /// A JSON object of {images, bytes, leftovers}
        #[arg(long)]
        json: bool,
    },
    /// Free space: do what `gc` does, and remove downloads of packages that are kept to make images again
    #[command(after_long_help = examples::OF_PRUNE)]
    Prune {
        /// Also remove every image that no live mount uses, with its names; the next mount gets it again
        #[arg(long)]
        all: bool,
        /// A JSON object of {images, bytes, leftovers, downloads}, the last in bytes
        #[arg(long)]
        json: bool,
    },
}

pub fn run(arguments: ImageArguments, places: &Places) -> Result<ExitCode, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let (store, records) = (&places.store(), &Records::at(&places.run_dir));
    match arguments.command {
        ImageCommand::Pull { all, references, signed_by } => {
            let configuration = places.configuration()?;
            let signers = Signers { named: signed_by.as_deref(), configuration: &configuration };
            if all {
                return outdated::pull_all(store, &signers);
            }
            let pull_one = |text: &str| {
                let reference = text.parse()?;
                pull(store, &reference, None, &signers.of(&reference)?)
            };
            return Ok(each(&references, pull_one));
        }
        ImageCommand::Outdated { json } => return outdated::run(store, json),
        ImageCommand::Import { reference, name } => {
            refuse_bare_file(&reference)?;
            pull(store, &reference.parse()?, name.as_deref(), &[])?;
        }
        ImageCommand::Build(arguments) => report::print(&build::run(&arguments, store)?),
        ImageCommand::Export { name, to } => report::print(&format!("{}\n", store.export(&name, &to.parse()?)?)),
        ImageCommand::Push { name, to } => {
            let to = to.as_deref().unwrap_or(&name).parse()?;
            report::print(&format!("{}\n", store.push(&name, &to)?));
        }
        ImageCommand::List { json } => report::print(&list(store, records, json)?),
        ImageCommand::Inspect { json, name } => report::print(&inspect(store, records, &name, json)?),
        ImageCommand::Remove { names } => return Ok(each(&names, |name| images::remove(store, records, name))),
        ImageCommand::Gc { json } => {
            let collected = images::collect(store, records, Extent::Unnamed)?;
            report::print(&if json { format!("{:#}\n", json!(collected)) } else { format!("{}\n", in_words(&collected)) });
        }
        ImageCommand::Prune { all, json } => {
            let collected = images::collect(store, records, if all { Extent::All } else { Extent::Unnamed })?;
            let downloads = store.discard_downloads().map_err(images::about_the_store_itself)?;
            let Collected { images, bytes, leftovers } = &collected;
            report::print(&if json {
                format!("{:#}\n", json!({ "images": images, "bytes": bytes, "leftovers": leftovers, "downloads": downloads }))
            } else {
                format!("{}, {} of downloads\n", in_words(&collected), size(downloads))
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(collected: &Collected) -> String {
    let count = collected.images.len();
    format!("{count} images removed ({}), {} leftovers", size(collected.bytes), collected.leftovers)
}

/// Each is tried; the first failure decides the exit code.
fn each(texts: &[String], act: impl Fn(&str) -> Result<(), Error>) -> ExitCode {
    let mut result = ExitCode::SUCCESS;
    for text in texts {
        if let Err(error) = act(text) {
            let code = report::failure(&error);
            result = if result == ExitCode::SUCCESS { code } else { result };
        }
    }
    result
}

/// The name of a file alone would be looked for in a public registry.
fn refuse_bare_file(text: &str) -> Result<(), Error> {
    let is_name = matches!(text.parse(), Ok(Reference::Registry(_)));
    if is_name && !text.starts_with("docker://") && Path::new(text).exists() {
        let problem = "it is a local file of unknown kind: write oci-archive:, docker-archive:, tar: or oci: before it";
        return Err(images::about_the_store_itself(shorefast_image::Error::Reference { text: text.to_owned(), problem }));
    }
    Ok(())
}

fn pull(store: &Store, reference: &Reference, name: Option<&str>, keys: &[Keys]) -> Result<(), Error> {
    let name = name.map(str::parse::<Reference>).transpose()?;
    let digest = store.pull(reference, name.as_ref(), keys)?;
    report::print(&format!("{digest}\n"));
    Ok(())
}

fn list(store: &Store, records: &Records, json: bool) -> Result<String, Error> {
    let users = images::users(records)?;
    let images = store.list().map_err(images::about_the_store_itself)?;
    if json {
        let rows: Vec<_> = images.iter().flat_map(|(image, names)| rows(image, names, &users)).collect();
        return Ok(format!("{:#}\n", Value::from(rows)));
    }
    let mut lines = vec![["NAME", "DIGEST", "SIZE", "USED BY"].map(str::to_owned)];
    for (image, names) in &images {
        let used_by = users.get(&image.digest).map_or_else(|| "-".to_owned(), |users| users.join(" "));
        let short = image.digest.short();
        let names = if names.is_empty() { &["-".to_owned()][..] } else { names };
        lines.extend(names.iter().map(|name| [text::escape(name.as_bytes()), short.clone(), size(image.size), used_by.clone()]));
    }
    Ok(table::table(&lines))
}

/// The documented rows of `image list --json`: one per name; one without a name for an unnamed image.
fn rows(image: &Image, names: &[String], users: &Users) -> Vec<Value> {
    let row = |name: Option<&String>| {
        json!({
            "name": name,
            "names": names,
            "digest": image.digest,
            "size": image.size,
            "used_by": users.get(&image.digest).cloned().unwrap_or_default(),
            "source": image.source,
            "created": image.created,
        })
    };
    if names.is_empty() { vec![row(None)] } else { names.iter().map(|name| row(Some(name))).collect() }
}

fn inspect(store: &Store, records: &Records, name: &str, json: bool) -> Result<String, Error> {
    let digest = store.named(name).map_err(images::about_the_store_itself)?;
    let image = store.inspect(digest).map_err(images::about_the_store_itself)?;
    let names: Vec<_> = store
        .list()
        .map_err(images::about_the_store_itself)?
        .into_iter()
        .filter(|(other, _)| other.digest == digest)
        .flat_map(|(_, names)| names)
        .collect();
    let value = json!({
        "names": names,
        "digest": image.digest,
        "size": image.size,
        "entries": image.entries,
        "ignored": image.ignored,
        "source": image.source,
        "created": image.created,
        "signatures": image.signatures,
        "rootfs": store.rootfs(digest).display().to_string(),
        "used_by": images::users(records)?.remove(&digest).unwrap_or_default(),
    });
    Ok(if json { format!("{value:#}\n") } else { show::lines(&value) })
}

pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 9.95 && unit > 0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let rows = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9_960_000, "10 MB"), (123_456_789, "123 MB"), (999_600_000, "1.0 GB")];
        for (bytes, expected) in rows {
            assert_eq!(size(bytes), expected);
        }
    }
}

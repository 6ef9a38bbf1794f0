//! In: options that hold secrets, and the secret file of a request. Out: files that only the client can read. No secret appears on a
//! command line of ours, in a record, in a log or in an error.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use shorefast_sandbox::spec::{self, Content, File, Hidden, Secret, SecretForm};
use shorefast_trust::Chosen;

use crate::definition::{Definition, SecretWay};
use crate::error::Error;
use crate::options::Item;
use crate::request::{Author, Request};

/// An error unless the file is root's alone, to read and to replace.
pub fn require_roots(path: &Path) -> Result<(), Error> {
    let look = || {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let status = std::fs::metadata(shorefast_trust::check_file(path, Chosen::ByPlace)?)?;
        match status.mode() {
            _ if !path.is_absolute() => refuse("its name does not begin with /"),
            _ if !status.is_file() => refuse("it is no file"),
            mode if mode & 0o077 != 0 => refuse("others than root may read it"),
            _ => Ok(()),
        }
    };
    look().map_err(|source| Error::SecretFile { path: path.to_owned(), source })
}

/// Why a secret cannot be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The definition has no way to pass a secret.
    NoWay,
    /// Two secrets for one file.
    TooMany,
}

impl Problem {
    pub fn of(self, client: &str) -> Error {
        let client = client.to_owned();
        match self {
            Self::NoWay => Error::NoSecretWay { client },
            Self::TooMany => Error::TooManySecrets { client },
        }
    }
}

/// The option by which fstab, units and others who have no flags name the file that holds the secret.
pub const OPTION: &str = "shorefast-secret";

/// Takes that option out, and returns the file that holds the secret: the option's or the request's.
pub fn take_named(items: &mut Vec<Item>, request: &Request, client: &str) -> Result<Option<PathBuf>, Error> {
    let (named, others): (Vec<_>, Vec<_>) = std::mem::take(items).into_iter().partition(|item| item.name == OPTION);
    *items = others;
    if request.author == Author::Guest && !named.is_empty() {
        return Err(Error::NotForGuests { what: format!("option {OPTION:?} names a file of the host") });
    }
    let mut files = named.into_iter().filter_map(|item| item.value).map(PathBuf::from).chain(request.secret.clone());
    match (files.next(), files.next()) {
        (Some(_), Some(_)) => Err(Problem::TooMany.of(client)),
        (file, _) => Ok(file),
    }
}

/// `named`: the file or pipe that the caller named. Each secret among the options becomes the path of a file, at the same position: helpers
/// read their options in order, and the last one counts.
pub fn hand_over(items: Vec<Item>, named: Option<&Path>, definition: &Definition) -> Result<(Vec<Item>, Vec<File>), Problem> {
    let Some(way) = &definition.secret else {
        return if named.is_some() { Err(Problem::NoWay) } else { Ok((items, Vec::new())) };
    };
    let mut files = Vec::new();
    let mut left = Vec::new();
    for item in items {
        match item.value {
            Some(value) if way.from_options.contains(&item.name) => {
                let secret = Secret::Given(Hidden::new(value));
                left.extend(hand_over_one(secret, way, &mut files));
            }
            value => left.push(Item { name: item.name, value }),
        }
    }
    if let Some(path) = named {
        left.extend(hand_over_one(Secret::Host(path.to_owned()), way, &mut files));
    }
    let is_double = way.to_file.is_some() && files.len() > 1;
    if is_double { Err(Problem::TooMany) } else { Ok((left, files)) }
}

/// Begins the name of a token of a pod's service account; the audience follows. A client that does not ask for it does not get it.
pub const TOKEN: &str = "serviceAccount.token/";

/// Secrets by name: each is the content of a file that an option names, a secret of the definition's own way, or an option beside it.
pub fn hand_over_named(
    secrets: &BTreeMap<String, PathBuf>,
    client: &str,
    definition: &Definition,
) -> Result<(Vec<Item>, Vec<File>), Error> {
    let (mut items, mut files) = (Vec::new(), Vec::new());
    let known = named(definition);
    let as_file = |option: &str, path: &Path| {
        let inside = PathBuf::from(spec::FILES).join("named").join(option);
        let item = Item { name: option.to_owned(), value: Some(inside.to_string_lossy().into_owned()) };
        (item, File { inside, content: Content::Secret { secret: Secret::Host(path.to_owned()), form: SecretForm::default() } })
    };
    for (name, path) in secrets {
        if let Some(audience) = name.strip_prefix(TOKEN) {
            let asked = definition.tokens.iter().filter(|(_, of)| *of == audience);
            for (item, file) in asked.map(|(option, _)| as_file(option, path)) {
                items.push(item);
                files.push(file);
            }
        } else if definition.files.contains(name) {
            let (item, file) = as_file(name, path);
            items.push(item);
            files.push(file);
        } else if let Some(way) = definition.secret.as_ref().filter(|way| of_way(way).any(|known| known == name)) {
            items.extend(hand_over_one(Secret::Host(path.clone()), way, &mut files));
        } else if definition.secret.as_ref().is_some_and(|way| way.with_options.contains(name)) {
            let problem = || Error::SecretsOption { client: client.to_owned(), name: name.clone() };
            let value = std::fs::read_to_string(path).map_err(|_| problem())?;
            let value = value.strip_suffix('\n').unwrap_or(&value);
            if value.contains([',', '"', '\n', '\0']) {
                return Err(problem());
            }
            items.push(Item { name: name.clone(), value: Some(value.to_owned()) });
        } else {
            return Err(Error::UnknownSecret { client: client.to_owned(), name: name.clone(), known });
        }
    }
    if definition.secret.as_ref().is_some_and(|way| way.to_file.is_some()) && files.len() > 1 {
        return Err(Problem::TooMany.of(client));
    }
    Ok((items, files))
}

/// The names that secrets can have.
fn named(definition: &Definition) -> Vec<String> {
    let way = definition.secret.iter().flat_map(|way| of_way(way).chain(&way.with_options));
    let mut names: Vec<_> = definition.files.iter().chain(way).cloned().collect();
    names.sort();
    names.dedup();
    names
}

fn of_way(way: &SecretWay) -> impl Iterator<Item = &String> {
    way.from_options.iter().chain(&way.to_option)
}

fn hand_over_one(secret: Secret, way: &SecretWay, files: &mut Vec<File>) -> Option<Item> {
    let own_place = || PathBuf::from(spec::FILES).join(format!("secret{}", files.len()));
    let inside = way.to_file.clone().unwrap_or_else(own_place);
    let item = way.to_option.as_ref().map(|name| Item { name: name.clone(), value: Some(inside.to_string_lossy().into_owned()) });
    files.push(File { inside, content: Content::Secret { secret, form: way.form.clone() } });
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{definition, options};

    const CIFS: &str = "secret = { from_options = [\"password\"], to_option = \"credentials\", form = \"password={secret}\\n\" }";

    fn handed(keys: &str, text: &str, named: Option<&str>) -> Result<(String, Vec<String>), Problem> {
        let definition = definition::parse(&format!("types = [\"x\"]\n{keys}")).unwrap();
        let items = options::parse(text).unwrap().items;
        let (items, files) = hand_over(items, named.map(Path::new), &definition)?;
        let shown = |file: &File| format!("{} {:?}", file.inside.display(), file.content);
        Ok((options::join(&items), files.iter().map(shown).collect()))
    }

    #[test]
    fn a_secret_among_the_options_becomes_a_file() {
        let (items, files) = handed(CIFS, "user=me,password=hunter2,ro", None).unwrap();
        assert_eq!(items, "user=me,credentials=/shorefast/files/secret0,ro");
        assert_eq!(files.len(), 1);
        assert!(!files[0].contains("hunter2"), "{files:?}");
    }

    #[test]
    fn a_named_file_comes_last() {
        let (items, files) = handed(CIFS, "user=me", Some("/root/pw")).unwrap();
        assert_eq!(items, "user=me,credentials=/shorefast/files/secret0");
        assert!(files[0].contains("/root/pw"), "{files:?}");
    }

    #[test]
    fn a_fixed_place_needs_no_option() {
        let (items, files) = handed("secret = { to_file = \"/etc/davfs2/secrets\" }", "a=b", Some("/root/pw")).unwrap();
        assert_eq!(items, "a=b");
        assert!(files[0].starts_with("/etc/davfs2/secrets "), "{files:?}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(handed("", "password=x", None).unwrap().0, "password=x");
        assert_eq!(handed("", "", Some("/root/pw")), Err(Problem::NoWay));
        let fixed = "secret = { from_options = [\"password\"], to_file = \"/etc/x\" }";
        assert_eq!(handed(fixed, "password=x", Some("/root/pw")), Err(Problem::TooMany));
    }
}

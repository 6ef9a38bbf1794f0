//! In: a Kerberos profile of the host (krb5.conf). Out: one text with all includes resolved: the included files are not visible to a
//! service.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ends the recursion of a profile that includes itself.
const DEPTH: usize = 8;
const LIMIT: usize = 1 << 20;

pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    append(path, DEPTH, &mut text)?;
    Ok(text)
}

fn append(path: &Path, depth: usize, text: &mut String) -> io::Result<()> {
    let fail = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {path:?}: {error}"));
    let content = fs::read_to_string(path).map_err(fail)?;
    if depth == 0 || text.len() + content.len() > LIMIT {
        return Err(fail(io::Error::other("includes are nested too deeply, or exceed 1 MiB")));
    }
    // An included file has its own sections; after it, ours continues.
    let mut section = None;
    for line in content.lines() {
        match Line::of(line) {
            Line::Include(included) => append(included, depth - 1, text)?,
            Line::IncludeDirectory(directory) => {
                entries(directory).map_err(fail)?.iter().try_for_each(|included| append(included, depth - 1, text))?;
            }
            Line::Section => section = Some(line),
            Line::Other => {}
        }
        let shown = if matches!(Line::of(line), Line::Section | Line::Other) { Some(line) } else { section };
        text.extend(shown.into_iter().flat_map(|line| [line, "\n"]));
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Include(&'a Path),
    IncludeDirectory(&'a Path),
    Section,
    Other,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match word {
            "include" => Self::Include(Path::new(rest.trim())),
            "includedir" => Self::IncludeDirectory(Path::new(rest.trim())),
            _ if line.trim_start().starts_with('[') => Self::Section,
            _ => Self::Other,
        }
    }
}

/// Sorted, and only files with the names that krb5.conf(5) allows.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let counts = |name: &str| is_plain(name) || (name.ends_with(".conf") && !name.starts_with('.'));
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(counts) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_becomes_part_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("parts")).unwrap();
        fs::write(at("parts/b"), "[realms]\nB = 1\n").unwrap();
        fs::write(at("parts/a.conf"), "[realms]\nA = 1").unwrap();
        for ignored in [".hidden.conf", "a.conf~", "c.rpmnew"] {
            fs::write(at("parts").join(ignored), "[realms]\nX = 1\n").unwrap();
        }
        fs::write(at("one"), "[capaths]\nO = 1\n").unwrap();
        let text = format!(
            "includedir {}\n[libdefaults]\na = 1\ninclude {}\n b = 2\n# include nothing\n",
            at("parts").display(),
            at("one").display()
        );
        fs::write(at("krb5.conf"), text).unwrap();
        let read = read(&at("krb5.conf")).unwrap();
        let expected =
            "[realms]\nA = 1\n[realms]\nB = 1\n[libdefaults]\na = 1\n[capaths]\nO = 1\n[libdefaults]\n b = 2\n# include nothing\n";
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_missing_or_includes_itself_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("krb5.conf");
        for text in ["include /nonexistent/x", "includedir /nonexistent", &format!("include {}", path.display())] {
            fs::write(&path, text).unwrap();
            let problem = read(&path).unwrap_err().to_string();
            assert!(problem.contains("cannot read"), "{text}: {problem}");
        }
        assert!(read(Path::new("/nonexistent")).is_err());
    }
}

//! In: the text of apt's files. Out: archives, trusted keys and the proxy; see sources.list(5) and apt.conf(5).

use std::path::PathBuf;

use crate::control;

/// One archive as configured in apt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    pub signed_by: SignedBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedBy {
    /// Any key that this machine's apt trusts.
    Anybody,
    Files(Vec<PathBuf>),
    /// The key itself is in the file.
    Key(String),
}

/// `deb [options] uri suite component…`, one per line.
pub fn one_line_sources(text: &str) -> Vec<Entry> {
    text.lines().filter_map(one_line).collect()
}

fn one_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim().strip_prefix("deb")?;
    let line = line.strip_prefix([' ', '\t'])?.trim();
    let (options, rest) = match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", line),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    Some(Entry {
        uris: vec![uri],
        suites: vec![suite],
        components: words.collect(),
        signed_by: parse_signed_by(signed_by.unwrap_or_default()),
    })
}

/// The paragraphs of a `.sources` file.
pub fn deb822_sources(text: &str) -> Vec<Entry> {
    control::paragraphs(text).filter_map(deb822).collect()
}

fn deb822(paragraph: control::Paragraph<'_>) -> Option<Entry> {
    let words = |name| paragraph.get(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let enabled = !paragraph.get("Enabled").is_some_and(|value| matches!(value, "no" | "false" | "0" | "off"));
    let binary = words("Types").iter().any(|kind| kind == "deb");
    let entry = Entry {
        uris: words("URIs"),
        suites: words("Suites"),
        components: words("Components"),
        signed_by: parse_signed_by(paragraph.get("Signed-By").unwrap_or_default()),
    };
    (enabled && binary && !entry.uris.is_empty() && !entry.suites.is_empty()).then_some(entry)
}

fn parse_signed_by(text: &str) -> SignedBy {
    if text.contains("-----BEGIN") {
        // Continuation lines are indented, and an empty one is written as a dot.
        let lines = text.lines().map(|line| if line.trim() == "." { "" } else { line.trim() });
        return SignedBy::Key(lines.collect::<Vec<_>>().join("\n") + "\n");
    }
    let files: Vec<_> = text.split([',', ' ', '\n', '\t']).filter(|word| word.starts_with('/')).map(PathBuf::from).collect();
    if files.is_empty() { SignedBy::Anybody } else { SignedBy::Files(files) }
}

/// The value of a name such as `Acquire::http::Proxy` in apt.conf's nested or flat form; the last one counts.
pub fn setting(text: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    let mut scopes: Vec<String> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text) {
        match token {
            Token::Word(word) => words.push(word),
            Token::Open => scopes.push(std::mem::take(&mut words).concat()),
            Token::Close => {
                scopes.pop();
                words.clear();
            }
            Token::End => {
                if let [name, value] = &words[..] {
                    let full: Vec<_> = scopes.iter().map(String::as_str).chain([name.as_str()]).collect();
                    if full.join("::").eq_ignore_ascii_case(wanted) {
                        found = Some(value.clone());
                    }
                }
                words.clear();
            }
        }
    }
    found
}

enum Token {
    Word(String),
    Open,
    Close,
    End,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let until = |end: &str| rest.find(end).map_or("", |at| &rest[at + end.len()..]);
        rest = match first {
            '{' | '}' | ';' => {
                tokens.push(match first {
                    '{' => Token::Open,
                    '}' => Token::Close,
                    _ => Token::End,
                });
                after
            }
            '"' => {
                let (value, after) = after.split_once('"').unwrap_or((after, ""));
                tokens.push(Token::Word(value.to_owned()));
                after
            }
            '#' => until("\n"),
            '/' if after.starts_with('/') => until("\n"),
            '/' if after.starts_with('*') => until("*/"),
            _ if first.is_whitespace() => after,
            _ => {
                let end = rest.find(|symbol: char| symbol.is_whitespace() || "{};\"".contains(symbol)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                &rest[end..]
            }
        };
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(uri: &str, suites: &[&str], components: &[&str], signed_by: SignedBy) -> Entry {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Entry { uris: vec![uri.to_owned()], suites: owned(suites), components: owned(components), signed_by }
    }

    #[test]
    fn reads_both_forms_of_sources() {
        let line = "# deb http://off x main\ndeb-src http://s x main\ndeb [arch=amd64 signed-by=/k.gpg] http://a/debian x main contrib # why\ndeb http://b x-security main\n";
        let expected = [
            entry("http://a/debian", &["x"], &["main", "contrib"], SignedBy::Files(vec!["/k.gpg".into()])),
            entry("http://b", &["x-security"], &["main"], SignedBy::Anybody),
        ];
        assert_eq!(one_line_sources(line), expected);
        let paragraphs = "Types: deb deb-src\n# why\nURIs: http://a/debian\nSuites: x x-updates\nComponents: main\nSigned-By: /k.gpg\n\nTypes: deb\nEnabled: no\nURIs: http://c\nSuites: x\n\nTypes: deb-src\nURIs: http://d\nSuites: x\n";
        assert_eq!(
            deb822_sources(paragraphs),
            [entry("http://a/debian", &["x", "x-updates"], &["main"], SignedBy::Files(vec!["/k.gpg".into()]))]
        );
    }

    #[test]
    fn a_key_may_stand_in_the_file() {
        let text = "Types: deb\nURIs: http://a\nSuites: x\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n -----END PGP PUBLIC KEY BLOCK-----\n";
        let key = "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n".trim_start().to_owned();
        assert_eq!(deb822_sources(text)[0].signed_by, SignedBy::Key(key));
    }

    #[test]
    fn finds_a_setting_in_every_form() {
        let table = [
            ("Acquire::http::Proxy \"http://p:3128\";", Some("http://p:3128")),
            ("Acquire { http { Proxy \"http://p:3128/\"; }; };", Some("http://p:3128/")),
            ("// Acquire::http::Proxy \"x\";\n# Acquire::http::Proxy \"y\";\n/* Acquire::http::Proxy \"z\"; */", None),
            ("Acquire::http::Proxy \"a\";\nacquire::HTTP::proxy \"b\";", Some("b")),
            ("Acquire::https::Proxy \"a\";", None),
            ("Acquire { Retries \"3\"; http::Proxy \"n\"; }", Some("n")),
        ];
        for (text, expected) in table {
            assert_eq!(setting(text, "Acquire::http::Proxy").as_deref(), expected, "{text}");
        }
    }
}

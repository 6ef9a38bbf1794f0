//! The command line of a mount, under every name of ours: words in, options and operands out. It is the only parser of these words; clap
//! has their help, man page and completions, and prints errors. Building clap's definition would take a mount as long as building a root
//! filesystem.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use lexopt::Arg;

#[cfg(test)]
use crate::front::common_words::VARIABLES;
use crate::front::common_words::{COMMON, Common};
use crate::front::places::Places;
use crate::front::spelling::{Problem, Spelling, Takes, Value};
use crate::front::timeout::Timeout;

/// What an option means that is given twice, but takes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    Refused,
    /// As mount(8)'s callers expect.
    LastCounts,
}

#[derive(Debug)]
pub enum Word<I> {
    Flag(I),
    Valued(I, Value),
    Operand(OsString),
}

/// Reads words one after the other, and keeps what all fronts have in common.
#[derive(Debug)]
pub struct Reader<I: 'static> {
    words: lexopt::Parser,
    own: &'static [Spelling<I>],
    repeated: Repeated,
    /// By their spelling, which is the same for `-t` and `--type`.
    seen: Vec<(Option<char>, Option<&'static str>)>,
    common: Common,
}

impl<I: Copy> Reader<I> {
    /// `arguments`: without the program's name.
    pub fn new(arguments: &[OsString], own: &'static [Spelling<I>], repeated: Repeated) -> Self {
        Self { words: lexopt::Parser::from_args(arguments), own, repeated, seen: Vec::new(), common: Common::default() }
    }

    /// `None`: there are no more.
    pub fn next_word(&mut self) -> Result<Option<Word<I>>, Problem> {
        loop {
            let Some(word) = self.words.next().map_err(|error| Problem::Wrong(error.to_string()))? else { return Ok(None) };
            let name = match &word {
                Arg::Value(operand) => return Ok(Some(Word::Operand(operand.clone()))),
                Arg::Short(letter) => format!("-{letter}"),
                Arg::Long(name) => format!("--{name}"),
            };
            if let Some(own) = self.own.iter().find(|option| option.is(&word)) {
                let value = self.value(*own, &name)?;
                return Ok(Some(value.map_or(Word::Flag(own.id), |value| Word::Valued(own.id, value))));
            }
            let Some(common) = COMMON.iter().find(|option| option.is(&word)) else {
                let is_asked = ["-h", "--help", "-V", "--version"].contains(&name.as_str());
                return Err(if is_asked { Problem::Asked(name) } else { Problem::Wrong(format!("there is no option {name}")) });
            };
            if let Some(value) = self.value(*common, &name)? {
                self.common.set(common.id, value)?;
            }
        }
    }

    fn value<J>(&mut self, Spelling { short, long, takes, .. }: Spelling<J>, name: &str) -> Result<Option<Value>, Problem> {
        if takes != Takes::Values && self.repeated == Repeated::Refused {
            if self.seen.contains(&(short, long)) {
                return Err(Problem::Wrong(format!("{name} is given more than once")));
            }
            self.seen.push((short, long));
        }
        if takes == Takes::Nothing {
            return Ok(None);
        }
        let value = match self.words.optional_value() {
            Some(attached) => attached,
            // What looks like an option is one: its value was forgotten. Attached to it, by `=`, it can be any.
            None => {
                self.words.value().ok().filter(|next| !is_option(next)).ok_or_else(|| Problem::Wrong(format!("{name} needs a value")))?
            }
        };
        Ok(Some(Value::new(name.to_owned(), value)))
    }

    /// The environment has what no option says.
    pub fn finish(self) -> Result<(Places, Timeout), Problem> {
        self.common.finish(|name| std::env::var_os(name))
    }
}

fn is_option(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-") && word != "-"
}

/// Compares what the parser knows with clap's definition, in both directions.
#[cfg(test)]
pub fn knows_what_clap_knows<I>(own: &[Spelling<I>], command: &clap::Command) {
    let takes = |action: &clap::ArgAction| match action {
        clap::ArgAction::SetTrue => Some(Takes::Nothing),
        clap::ArgAction::Set => Some(Takes::Value),
        clap::ArgAction::Append => Some(Takes::Values),
        _ => None,
    };
    let of_clap = command.get_arguments().filter(|argument| !argument.is_positional());
    let mut of_clap: Vec<_> = of_clap
        .filter_map(|argument| Some((argument.get_short(), argument.get_long().map(str::to_owned), takes(argument.get_action())?)))
        .collect();
    let common = COMMON.iter().map(|option| (option.short, option.long.map(str::to_owned), option.takes));
    let own = own.iter().map(|option| (option.short, option.long.map(str::to_owned), option.takes));
    let mut ours: Vec<_> = own.chain(common).collect();
    let key = |option: &(Option<char>, Option<String>, Takes)| (option.0, option.1.clone());
    ours.sort_by_key(key);
    of_clap.sort_by_key(key);
    assert_eq!(ours, of_clap);
    let named = |name: &str| command.get_arguments().find(|argument| argument.get_long() == Some(name)).and_then(clap::Arg::get_env);
    for option in COMMON {
        let variable = VARIABLES.iter().find(|(id, _)| *id == option.id).map(|(_, name)| OsStr::new(*name));
        assert_eq!(option.long.and_then(named), variable, "{option:?}");
    }
    let variables = command.get_arguments().filter(|argument| argument.get_env().is_some()).count();
    assert_eq!(variables, VARIABLES.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Id {
        Kind,
        Many,
        Loud,
    }

    const OWN: &[Spelling<Id>] = &[
        Spelling::value(Id::Kind, Some('t'), Some("type")),
        Spelling::values(Id::Many, Some('o'), None),
        Spelling::flag(Id::Loud, Some('v'), Some("loud")),
    ];

    fn read(line: &str, repeated: Repeated) -> Result<String, Problem> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut reader = Reader::new(&words, OWN, repeated);
        let mut said = Vec::new();
        while let Some(word) = reader.next_word()? {
            said.push(match word {
                Word::Flag(id) => format!("{id:?}"),
                Word::Valued(id, value) => format!("{id:?}={}", value.text()?),
                Word::Operand(operand) => operand.to_string_lossy().into_owned(),
            });
        }
        Ok(said.join(" "))
    }

    #[test]
    fn words_come_in_any_order_and_form() {
        let rows = [
            ("a -t x b", Ok("a Kind=x b")),
            ("-tx -vo y --type=z", Err("--type is given more than once")),
            ("-tx -vo y a", Ok("Kind=x Loud Many=y a")),
            ("-t=x -o a -o b", Ok("Kind=x Many=a Many=b")),
            ("--type=-x -- -v", Ok("Kind=-x -v")),
            ("-o-x - a", Ok("Many=-x - a")),
            ("-t -", Ok("Kind=-")),
            ("-t -v", Err("-t needs a value")),
            ("a -t", Err("-t needs a value")),
            ("-v -v", Err("-v is given more than once")),
            ("--loud=x", Err("--loud")),
            ("--nosuch", Err("no option --nosuch")),
            ("-x", Err("no option -x")),
            ("a --root", Err("--root needs a value")),
        ];
        for (line, expected) in rows {
            match (read(line, Repeated::Refused), expected) {
                (Ok(said), Ok(expected)) => assert_eq!(said, expected, "{line}"),
                (Err(Problem::Wrong(why)), Err(expected)) => assert!(why.contains(expected), "{line}: {why}"),
                (other, _) => panic!("{line}: {other:?}"),
            }
        }
        assert_eq!(read("-v -v -t a -t b", Repeated::LastCounts), Ok("Loud Loud Kind=a Kind=b".to_owned()));
    }

    #[test]
    fn help_is_claps() {
        for word in ["-h", "--help", "-V", "--version"] {
            assert_eq!(read(&format!("a {word} --nosuch"), Repeated::Refused), Err(Problem::Asked(word.to_owned())));
        }
    }
}

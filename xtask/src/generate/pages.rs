//! Man pages: one per command in section 1, one per kind of file in section 5.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_mangen::Man;

use super::roff;

const FILES: &str = "\
.SH FILES
.TP
\\fI/etc/shorefast/clients.d/*.toml\\fR
Client definitions, \\fBshorefast\\-clients\\fR(5)
.TP
\\fI/etc/shorefast/registries.toml\\fR, \\fI/etc/shorefast/packages.toml\\fR, \\fI/etc/shorefast/auth.json\\fR
Where images come from, \\fBshorefast\\-configuration\\fR(5)
.TP
\\fI/var/lib/shorefast\\fR
Images, downloads, and what clients remember, such as known hosts
.TP
\\fI/run/shorefast\\fR
Records of live mounts
";

const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
As of \\fBmount\\fR(8):
.TP
0
success
.TP
1
wrong call or configuration, or no root rights
.TP
2
this machine prevents it: records, processes, memory
.TP
32
the mount or unmount failed
";

const SEE_ALSO: &str = "\
.SH \"SEE ALSO\"
\\fBshorefast\\fR(1), \\fBshorefast\\-clients\\fR(5), \\fBshorefast\\-configuration\\fR(5), \\fBmount\\fR(8), \\fBumount\\fR(8)
";

/// One page per command, and those of its own commands.
pub(super) fn of_commands(command: &clap::Command) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    add(command, "shorefast", &mut files)?;
    Ok(files)
}

fn add(command: &clap::Command, name: &str, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    files.push((PathBuf::from(format!("docs/man/{name}.1")), page(command.clone(), name)?));
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        add(subcommand, &format!("{name}-{}", subcommand.get_name()), files)?;
    }
    Ok(())
}

fn page(command: clap::Command, name: &str) -> Result<Vec<u8>> {
    let examples = command.get_after_long_help().with_context(|| format!("{name} has no examples"))?.to_string();
    // Without a date: the same definitions give the same page.
    let command = command.name(name.to_owned()).bin_name(name.replace('-', " ")).after_long_help(None);
    let mut text = Vec::new();
    Man::new(command).date("").render(&mut text).context("cannot render a man page")?;
    text.extend(EXIT_STATUS.bytes());
    text.extend(FILES.bytes());
    text.extend(examples_section(&examples).bytes());
    text.extend(SEE_ALSO.bytes());
    Ok(text)
}

/// Pairs of lines, as `--help` shows them: what it does, and the line.
fn examples_section(examples: &str) -> String {
    let mut text = ".SH EXAMPLES\n".to_owned();
    for line in examples.lines().skip(1) {
        match line.strip_prefix("    ") {
            Some(command) => text += &format!(".PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", roff::escape(command)),
            None => text += &format!(".PP\n{}\n", roff::escape(line.trim())),
        }
    }
    text
}

/// From the documents: these pages say the same.
pub(super) fn of_files() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let rows = [
        ("shorefast-clients", "client definitions of Shorefast", &["CLIENTS"][..]),
        ("shorefast-configuration", "configuration of Shorefast", &["CONFIGURATION", "PACKAGES"]),
    ];
    let page = |(name, about, documents): (&str, &str, &[&str])| {
        let mut text = format!(".TH {} 5 \"\" shorefast\n.SH NAME\n{} \\- {about}\n", roff::escape(name), roff::escape(name));
        for document in documents {
            let file = format!("docs/{document}.md");
            text += &roff::from_markdown(&fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?);
        }
        // A document's last paragraph has no line break of its own, and a macro begins a line.
        text.truncate(text.trim_end().len());
        text += "\n";
        text += FILES;
        text += SEE_ALSO;
        Ok((PathBuf::from(format!("docs/man/{name}.5")), text.into_bytes()))
    };
    rows.into_iter().map(page).collect()
}

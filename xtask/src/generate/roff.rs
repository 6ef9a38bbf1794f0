//! Markdown in, roff for man(7) out: as much of it as our documents use.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

pub(super) fn from_markdown(text: &str) -> String {
    let mut out = Page::default();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        out.take(event);
    }
    out.text
}

/// Text that roff takes as it is.
pub(super) fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // A dot at the start of a line would be a request.
    escaped.lines().map(|line| if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() }).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Page {
    text: String,
    is_title: bool,
    is_code: bool,
    /// The cells of a row, as they come in.
    cells: Option<Vec<String>>,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_title => self.write(&escape(&text.to_uppercase())),
            Event::Text(text) if self.is_code => self.write(&format!("{}\n", escape(text.trim_end_matches('\n')))),
            Event::Text(text) => self.write(&escape(&text)),
            Event::Code(code) => self.write(&format!("\\fB{}\\fR", escape(&code))),
            Event::SoftBreak | Event::HardBreak => self.write(" "),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.is_title = true;
                self.line(".SH \"");
            }
            Tag::CodeBlock(_) => {
                self.is_code = true;
                self.line(".PP\n.EX\n");
            }
            Tag::Paragraph => self.line(".PP\n"),
            Tag::Item => self.line(".IP \\(bu 2\n"),
            Tag::Strong => self.write("\\fB"),
            Tag::Emphasis => self.write("\\fI"),
            Tag::TableHead | Tag::TableRow => self.cells = Some(Vec::new()),
            Tag::TableCell => self.cells.iter_mut().for_each(|cells| cells.push(String::new())),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.is_title = false;
                self.write("\"\n");
            }
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.line(".EE\n");
            }
            TagEnd::Strong | TagEnd::Emphasis => self.write("\\fR"),
            // What the columns are called goes without saying in a list of terms.
            TagEnd::TableHead => self.cells = None,
            TagEnd::TableRow => {
                let mut cells = self.cells.take().unwrap_or_default().into_iter().filter(|cell| !cell.is_empty());
                let (term, rest) = (cells.next().unwrap_or_default(), cells.collect::<Vec<_>>().join("; "));
                self.line(&format!(".TP\n{term}\n{rest}\n"));
            }
            _ => {}
        }
    }

    /// Into the cell of a table, if we are in one.
    fn write(&mut self, text: &str) {
        match self.cells.as_mut().and_then(|cells| cells.last_mut()) {
            Some(cell) => cell.push_str(text),
            None => self.text.push_str(text),
        }
    }

    /// Requests begin a line.
    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_documents_use_becomes_roff() {
        let text = "# A page\n\nSome `code` and **more**,\nin two lines.\n\n| key | meaning |\n|---|---|\n| `a-b` | c |\n\n- one\n\n```toml\n.x = 'y'\n```\n";
        let expected = ".SH \"A PAGE\"\n.PP\nSome \\fBcode\\fR and \\fBmore\\fR, in two lines.\n.TP\n\\fBa\\-b\\fR\nc\n.IP \\(bu 2\none\n.PP\n.EX\n\\&.x = \\(aqy\\(aq\n.EE\n";
        assert_eq!(from_markdown(text), expected);
    }
}

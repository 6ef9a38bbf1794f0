//! In: progress of image downloads. Out: a bar per download, on a terminal only.

use std::io::IsTerminal as _;
use std::sync::Arc;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use shorefast_engine::text::printable_line;
use shorefast_image::{Progress, Silent, Task};

/// Bars on a terminal, nothing otherwise. Costs nothing before something begins.
pub fn for_stderr() -> Arc<dyn Progress> {
    if std::io::stderr().is_terminal() { Arc::new(Bars(MultiProgress::new())) } else { Arc::new(Silent) }
}

struct Bars(MultiProgress);

const KNOWN: &str = "{msg:32!} {bar:24} {bytes:>10} / {total_bytes:<10} {bytes_per_sec:>12}";
const UNKNOWN: &str = "{msg:32!} {spinner:24} {bytes:>10}";

impl Progress for Bars {
    fn begin(&self, what: &str, total: Option<u64>) -> Box<dyn Task> {
        let bar = self.0.add(total.map_or_else(ProgressBar::no_length, ProgressBar::new));
        let template = if total.is_some() { KNOWN } else { UNKNOWN };
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        // Names come from registries and archives: filter control characters.
        bar.set_message(printable_line(what).into_owned());
        Box::new(Bar(bar))
    }
}

struct Bar(ProgressBar);

impl Task for Bar {
    fn at(&self, position: u64) {
        self.0.set_position(position);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

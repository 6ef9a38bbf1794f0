//! This process's command line, as other processes see it in /proc/PID/cmdline: byte ranges in, overwritten with `x`.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use rustix::io::Errno;

use crate::error::{Error, Result, call};

/// Overwrites parts of it, counted from its first byte. Existing copies keep their contents; [`std::env::args_os`]
/// changes.
pub fn blot_out(places: &[Range<usize>]) -> Result<()> {
    let stat = call(|| "read(\"/proc/self/stat\")".into(), std::fs::read_to_string("/proc/self/stat"))?;
    let (start, end) = extent(&stat).ok_or_else(|| Error::new("read(\"/proc/self/stat\")", Errno::PROTO))?;
    let memory = call(|| "open(\"/proc/self/mem\")".into(), std::fs::File::options().write(true).open("/proc/self/mem"))?;
    for place in places.iter().filter(|place| start + place.end as u64 <= end) {
        let blots = vec![b'x'; place.len()];
        call(|| "write(\"/proc/self/mem\")".into(), memory.write_all_at(&blots, start + place.start as u64))?;
    }
    Ok(())
}

/// Where the arguments are: fields 48 and 49. The name in parentheses may contain anything.
fn extent(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some((field(48)?, field(49)?)).filter(|(start, end)| start < end)
}

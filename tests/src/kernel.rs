//! Features of the running kernel on which the expected outcome of tests depends.

use std::fs;

/// Whether tmpfs, on which the tests' sources are, can be shown with other owners: from Linux 6.3. Where it cannot, a client with a source is a
/// dedicated user.
pub fn owners_can_be_mapped() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("every kernel has one");
    let numbers: Vec<u32> = release.split(['.', '-']).take(2).filter_map(|number| number.parse().ok()).collect();
    numbers >= vec![6, 3]
}

/// A guest of `cargo xtask e2e-kernels`: user-mode-linux, with one slow core.
pub fn is_guest() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}

/// Major and minor number.
pub fn version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("every kernel has one");
    let mut numbers = release.split(['.', '-']).filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

//! A mount client that is up to no good. Shorefast runs it from an image that holds nothing but this file; every row of
//! `rows.rs` is one attempt to get out, to mount what it may not, or to hurt the host. No row may succeed.
//!
//! ```text
//! hostile list                 every row: name, group, what it tries
//! hostile rows TARGET          all rows of the group `batch`
//! hostile row NAME TARGET      one row
//! hostile stall HOW TARGET     a client that stops answering (`stall.rs`)
//! hostile spy SECRET FINDINGS everybody|shorefast   no client, but what is in a container with one: see `spy.rs`
//! hostile serve-foreign DIR    no row: a filesystem of the host that stalls, to be shown to a row as its source
//! hostile hangs TARGET         a client with a process that hangs in execve(2) (`hang.rs`)
//! hostile hangs-in-execve DIR NAME...    no client: such processes of the host, with these names
//! hostile calls TARGET         a child calls mount(2) and is killed while the broker works for it: see `reuse.rs`
//! hostile loses-caller TARGET  the same, and the client says that all went well
//! hostile stands-in PID fuse|canary TARGET    on the host: the process that gets that child's number
//! ```
//! Each row gives a line `row<TAB>name<TAB>refused|succeeded|crashed|hung<TAB>detail` in /tmp/results, and on stderr with colons for tabs. At
//! the end the client makes its one legitimate mount, a tmpfs at TARGET (unless a row already spent it), and leaves the lines there as
//! `results` for the driver on the host: so each launch also shows that the broker still does its work.

#![expect(unsafe_code, reason = "a hostile program makes the system calls that no wrapper offers")]

mod rows;

mod fuse;
mod hang;
mod outcome;
mod reuse;
mod run;
mod sandbox;
mod spy;
mod stall;
mod sys;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use outcome::{Group, Row};
use sandbox::Sandbox;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match words.as_slice() {
        [verb] if *verb == "list" => list(),
        [verb, target] if *verb == "rows" => {
            let batch: Vec<&Row> = rows::ALL.iter().filter(|row| row.group == Group::Batch).collect();
            attempt(&batch, target)
        }
        [verb, name, target] if *verb == "row" => match rows::ALL.iter().find(|row| *name == row.name) {
            Some(row) => attempt(&[row], target),
            None => usage(),
        },
        [verb, how, target] if *verb == "stall" => stall::run(how, target),
        [verb, secret, findings, prey] if *verb == "spy" => spy::run(secret, findings, prey),
        [verb, target] if *verb == "serve-foreign" => {
            let served = fuse::serve_as_foreign(&sandbox::c_path(target));
            served.map_or_else(
                |errno| {
                    eprintln!("hostile: {errno}");
                    ExitCode::FAILURE
                },
                |_| ExitCode::SUCCESS,
            )
        }
        [verb, target] if *verb == "hangs" => hang::as_client(target),
        [verb, target, ..] if *verb == "hangs-in-execve" => hang::on_host(target, &arguments[2..]),
        [verb, target] if *verb == "calls" => reuse::call(target),
        [verb, target] if *verb == "loses-caller" => reuse::lose_caller(target),
        [verb, pid, fstype, target] if *verb == "stands-in" => reuse::stand_in(pid, fstype, target),
        // What rows exec themselves as.
        [verb] if *verb == "privileges" => rows::privilege::report(),
        [verb] if *verb == "idle" => idle(),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: hostile list | rows TARGET | row NAME TARGET");
    ExitCode::from(2)
}

fn list() -> ExitCode {
    let mut out = std::io::stdout().lock();
    for row in rows::ALL {
        let _ = writeln!(out, "{}\t{}\t{}", row.name, row.group, row.what);
    }
    ExitCode::SUCCESS
}

fn idle() -> ExitCode {
    std::thread::sleep(std::time::Duration::from_secs(1));
    ExitCode::SUCCESS
}

fn attempt(rows: &[&Row], target: &OsStr) -> ExitCode {
    let sandbox = Sandbox::look(target);
    let mut results = String::new();
    for row in rows {
        let verdict = run::row(&sandbox, row);
        let line = format!("row\t{}\t{verdict}\n", row.name);
        say(&line);
        results.push_str(&line);
        let _ = fs::write("/tmp/results", &results);
        if row.group == Group::Batch {
            clean_up(&sandbox);
        }
    }
    if rows.iter().any(|row| row.group == Group::Failing) {
        return ExitCode::FAILURE;
    }
    deliver(&sandbox, &results)
}

/// A program that displays a client's output may drop control characters, tabs among them.
fn say(line: &str) {
    eprint!("{}", line.replace('\t', ": "));
}

/// A row of the batch that did mount has been reported; the rows after it shall not meet its mount.
fn clean_up(sandbox: &Sandbox) {
    for mount in sandbox.new_mounts() {
        let _ = sandbox::umount(&sandbox::c_path(&mount.at), libc::MNT_DETACH);
    }
}

fn deliver(sandbox: &Sandbox, results: &str) -> ExitCode {
    let mounted = sandbox.new_mounts();
    if mounted.iter().any(|mount| mount.fstype.starts_with("fuse")) {
        // Perhaps no server serves it: the lines on stderr have to be enough.
        return ExitCode::SUCCESS;
    }
    if mounted.is_empty()
        && let Err(errno) = sandbox::mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"size=1m")
    {
        // Only the last lines are kept, and these are the ones that explain it.
        results.lines().filter(|line| !line.contains("\trefused\t")).for_each(|line| say(&format!("{line}\n")));
        eprintln!("hostile: the legitimate mount at {} was refused: {errno}", sandbox.target_path().display());
        return ExitCode::FAILURE;
    }
    match fs::write(sandbox.target_path().join("results"), results) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile: cannot leave the results in {}: {error}", sandbox.target_path().display());
            ExitCode::FAILURE
        }
    }
}

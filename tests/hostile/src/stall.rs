//! A client that mounts, answers the first requests of the kernel, and then no more: `hostile stall REQUESTS-WHO TARGET`.
//!
//! REQUESTS: how many are answered after FUSE_INIT, or `none` for not even that. WHO asks meanwhile, ten times: `process`, the helper,
//! which holds the FUSE device as well, or `thread`, a second thread of the server. Either way a process in the sandbox waits for
//! itself, beyond the reach of signals. If everything is answered, the helper ends well and the server serves on.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::thread;

use crate::fuse;
use crate::sandbox::Sandbox;
use crate::sys;

const QUESTIONS: u32 = 10;

pub(crate) fn run(how: &OsStr, target: &OsStr) -> ExitCode {
    let way = how.to_string_lossy();
    let Some((answers, who)) = way.split_once('-') else { return ExitCode::from(2) };
    let answers = answers.parse::<u32>().map_or(0, |requests| requests + 1);
    let sandbox = Sandbox::look(target);
    let mounted = fuse::open_device().and_then(|device| fuse::mount_device(&sandbox, &device).map(|_| device));
    let Ok(device) = mounted else { return ExitCode::FAILURE };
    let Ok((mut done, mut say_done)) = std::io::pipe() else { return ExitCode::FAILURE };
    match sys::fork() {
        Ok(None) => {
            let place = sandbox.target_path().to_owned();
            if who == "thread" {
                thread::spawn(move || {
                    ask(&place);
                    let _ = say_done.write_all(b"d");
                });
            } else {
                drop(say_done);
            }
            fuse::serve_some(device, answers, &way);
            sys::exit(0)
        }
        Ok(Some(_)) if who == "thread" => {
            drop(say_done);
            let answered = done.read(&mut [0]).is_ok_and(|length| length == 1);
            if answered { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Ok(Some(_)) => {
            ask(sandbox.target_path());
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn ask(target: &std::path::Path) {
    for question in 0..QUESTIONS {
        let _ = std::fs::metadata(target.join(format!("question-{question}")));
    }
}

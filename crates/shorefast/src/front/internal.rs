//! Internal commands, run by ourselves: the keeper's last step, and work in processes that can be abandoned.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;

use shorefast_engine::heal::{self, Next};
use shorefast_engine::records::Records;
use shorefast_engine::{keeper, origin, reconcile, services};
use shorefast_sandbox::cleaner::user;

use crate::front::demo;
use crate::report;

/// `None`: an ordinary call.
#[inline(never)]
pub fn dispatch(arguments: &[OsString]) -> Option<ExitCode> {
    let texts: Vec<_> = arguments.iter().skip(1).map(|argument| argument.to_str().unwrap_or_default()).collect();
    match texts.as_slice() {
        ["--run-dir", _, command, id, origin] if *command == keeper::ENDED => {
            // Before anything else is opened.
            let held = heal::Held::take();
            let records = Records::at(origin::return_to(origin, Path::new(&arguments[2])));
            // A failure cannot be reported to anyone; the next call tries again.
            match heal::ended(&records, id, held) {
                Ok(Next::Nothing) => Some(ExitCode::SUCCESS),
                Ok(Next::Again(pause)) => {
                    heal::wait(&records, id, pause);
                    let _ = keeper::become_again(arguments);
                    Some(ExitCode::FAILURE)
                }
                Err(_) => Some(ExitCode::FAILURE),
            }
        }
        ["--run-dir", _, command] if *command == services::START => {
            let started = services::start_from(&Records::at(&arguments[2]), std::io::stdin());
            Some(started.map_or_else(
                |problem| {
                    // Reported by the process that started us.
                    report::say(&problem);
                    ExitCode::FAILURE
                },
                |()| ExitCode::SUCCESS,
            ))
        }
        ["--run-dir", _, command] if *command == services::RELEASE => {
            services::release(&Records::at(&arguments[2]));
            Some(ExitCode::SUCCESS)
        }
        ["--run-dir", _, command] if *command == services::WATCH => {
            let watched = reconcile::watch_for_services(&Records::at(&arguments[2]));
            Some(watched.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
        }
        [command] if *command == shorefast_worker::ask::COMMAND => Some(ExitCode::from(shorefast_worker::work::run())),
        [command, uid] if *command == user::END_USER => {
            let ended = uid.parse().map(user::end_this);
            Some(if matches!(ended, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        [command, user] if *command == services::pipes::SERVICE_BROKER => {
            let listener = std::io::stdin().as_fd().try_clone_to_owned();
            let opened = user.parse().ok().zip(listener.ok()).map(|(user, listener)| services::pipes::open_for(user, listener));
            Some(if matches!(opened, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        [command, _, _] if *command == demo::server::COMMAND => Some(demo::server::run(Path::new(&arguments[2]), Path::new(&arguments[3]))),
        _ => None,
    }
}

//! How full a volume is whose server does not answer: nobody waits for long, and nothing piles up.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_csi::messages::*;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume, text};
use crate::silence::{in_container, servers, status};
use crate::{ABORTED, CANCELLED_OR_LATE};

/// Calls at once, and then one after the other.
const CALLS: usize = 50;

/// Workers that were killed and are still there: they wait in the kernel.
fn stuck() -> Vec<Process> {
    let is_worker =
        |process: &Process| fs::read(process.file("cmdline")).is_ok_and(|words| words.windows(8).any(|part| part == b"__worker"));
    let has_sigkill = |mask: String| u64::from_str_radix(&mask, 16).is_ok_and(|mask| mask & 1 << (Signal::KILL.as_raw() - 1) != 0);
    let is_killed = |process: &Process| ["SigPnd", "ShdPnd"].into_iter().filter_map(|field| process.status(field)).any(has_sigkill);
    processes::on_this_network().into_iter().filter(is_worker).filter(is_killed).collect()
}

#[test]
fn a_volume_whose_server_says_nothing_is_asked_by_one_process() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::sshfs(&host, "volume", &server);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    let target = kubelet.target("pod");
    // As long as this lives, nobody ends the client.
    let mut lives = in_container(&target, "exec sleep 1000");
    wait::until("the container", || (status(&lives, "Name") == "sleep").then_some(()));
    let message = NodeGetVolumeStatsRequest { volume_id: "volume".to_owned(), volume_path: text(&target), ..Default::default() };
    let ask_all = || {
        let channel = kubelet.channel();
        let method = "/csi.v1.Node/NodeGetVolumeStats";
        let calls: Vec<_> = (0..CALLS).map(|_| channel.begin::<NodeGetVolumeStatsResponse>(method, &message, None)).collect();
        calls.into_iter().map(|call| channel.end(call)).collect::<Vec<_>>()
    };
    // Many pods of one volume that is well: all are told.
    let answers = ask_all();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");

    let client = host.wait_for_client("sshfs");
    for frozen in [servers(), vec![Process { pid: client.pid }]] {
        frozen.iter().for_each(|process| process.signal(Signal::STOP));
        let asked = Instant::now();
        for answer in ask_all() {
            let code = answer.expect_err("nobody can know").0;
            assert!(code == ABORTED || CANCELLED_OR_LATE.contains(&code), "{code}");
        }
        assert!(asked.elapsed() < Duration::from_secs(40), "{:?}", asked.elapsed());
        assert!(stuck().len() <= 1, "{:?}", stuck().iter().map(Process::describe).collect::<Vec<_>>());
        // A request that the client has not read yet can be taken back; one that is at the server cannot.
        if frozen[0].pid != client.pid {
            assert_eq!(stuck().len(), 1, "this proves nothing");
            let asked = Instant::now();
            for _ in 0..CALLS {
                let said = crate::refused(kubelet.stats("volume", &target), ABORTED);
                assert!(said.contains("has not answered"), "{said}");
            }
            assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
            assert_eq!(stuck().len(), 1);
        }
        frozen.iter().for_each(|process| process.signal(Signal::CONT));
        wait::until("its answer", || kubelet.stats("volume", &target).ok());
        wait::until("the end of the process that asked", || stuck().is_empty().then_some(()));
    }
    lives.kill().and_then(|()| lives.wait()).expect("it runs");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

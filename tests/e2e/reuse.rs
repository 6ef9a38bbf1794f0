//! A client that is killed while the broker works for it, and whose process number an innocent program of the host then gets. Between
//! any two system calls of the broker, from the one that hears of the client's mount(2) to the one that answers it: the broker is
//! stopped there with ptrace, the client killed, its number given away (clone3 with set_tid), and the broker goes on.

#![cfg(target_arch = "x86_64")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use shorefast_tests::client::Request;
use shorefast_tests::command::Running;
use shorefast_tests::kernel::is_guest;
use shorefast_tests::{Client, Host, Way, hostile, wait};

const IMAGE: &str = "/srv/image";
/// Where a client is told to mount, which is also what the innocent has in its memory.
const TARGET_INSIDE: &str = "/shorefast/target";
const CANARY: &str = "memory-of-a-stranger";

const NOTIF_RECV: u64 = 0xc050_2100;
const NOTIF_SEND: u64 = 0xc018_2101;

/// More system calls than the broker makes for one mount.
const MOST_STEPS: usize = 400;

#[test]
fn the_memory_of_whoever_gets_a_clients_number_is_not_read() {
    at_every_step("canary");
}

#[test]
fn the_descriptors_of_whoever_gets_a_clients_number_are_not_taken() {
    at_every_step("fuse");
}

#[test]
fn a_mount_whose_caller_was_killed_before_the_answer_is_undone() {
    if is_guest() {
        return println!("left out: {NO_STOPS}");
    }
    let Some(host) = Host::new() else { return };
    let scene = Scene::set(&host, "tmpfs", "loses-caller");
    let (mount, broker) = scene.start();
    let caller = broker.run_until_it_hears();
    broker.run_until_it_answers();
    end(caller);
    broker.let_go();
    mount.finish().exits(32);
    host.assert_nothing_left();
}

const NO_STOPS: &str = "user-mode-linux cannot stop a process at its system calls for another";

fn at_every_step(fstype_of_innocent: &str) {
    if is_guest() {
        return println!("left out: {NO_STOPS}");
    }
    let Some(host) = Host::new() else { return };
    let scene = Scene::set(&host, "fuse", "calls");
    let steps = (0..MOST_STEPS).take_while(|step| scene.swap_at(*step, fstype_of_innocent) == Swap::Done).count();
    println!("{steps} steps between the call and its answer");
    assert!(steps > 5 && steps < MOST_STEPS, "the broker makes {steps} calls between hearing and answering");
}

#[derive(Debug, PartialEq, Eq)]
enum Swap {
    Done,
    /// The broker answered before it had made that many calls.
    Answered,
}

struct Scene<'a> {
    host: &'a Host,
    client: Client,
    target: PathBuf,
}

impl<'a> Scene<'a> {
    /// `verb`: what the client is told to do with its target.
    fn set(host: &'a Host, kernel_type: &str, verb: &str) -> Self {
        hostile::make_image(Path::new(IMAGE));
        let definition = format!(
            "types = [\"hostile\"]\nkernel_types = [\"{kernel_type}\"]\ncommand = [\"/usr/bin/hostile\", \"{verb}\", \"{{target}}\"]\n"
        );
        let client = Client::defined(host, IMAGE, &definition);
        host.settle();
        Self { host, client, target: host.directory("target") }
    }

    /// `shorefast mount` under way, stopped.
    fn start(&self) -> (Running, Broker) {
        let request = Request::new(&self.client, "hostile", "hostile", &self.target);
        // Not before it is traced: it could be done by then.
        let mut command = Command::new("sh");
        command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(self.host.binary());
        command.args(request.arguments(Way::Directory, &["--timeout", "20s"]));
        let mount = Running::start(command);
        let broker = Broker::seize(Pid::from_raw(mount.pid().cast_signed()));
        (mount, broker)
    }

    /// One mount, in which the client's number changes hands before the broker's `step`th call after it heard of the mount.
    fn swap_at(&self, step: usize, fstype: &str) -> Swap {
        let (mount, broker) = self.start();
        let caller = broker.run_until_it_hears();
        let innocent = broker.run_steps(step).then(|| {
            end(caller);
            Innocent::with_number(caller, fstype)
        });
        broker.let_go();
        let ran = mount.finish().exits(32);
        assert!(!ran.stderr.contains(CANARY), "step {step}: the broker read a stranger's memory: {}", ran.stderr);
        let untouched = innocent.map(Innocent::finish);
        self.host.assert_nothing_left();
        match untouched {
            Some(code) => {
                assert_eq!(code, Some(0), "step {step}: the broker took a stranger's descriptor: {}", ran.stderr);
                Swap::Done
            }
            None => Swap::Answered,
        }
    }
}

/// SIGKILL, and waits until nobody has that number any more.
fn end(process: Pid) {
    kill(process, Signal::SIGKILL).expect("the client waits for the broker's answer");
    wait::until("the client to be gone", || kill(process, None).is_err().then_some(()));
}

/// `shorefast mount`, stopped at its system calls.
struct Broker {
    pid: Pid,
}

impl Broker {
    fn seize(pid: Pid) -> Self {
        let is_stopped = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
        wait::until("the shell to stop itself", || is_stopped().then_some(()));
        ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).expect("root may trace its child");
        ptrace::interrupt(pid).expect("it is traced");
        waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stops");
        kill(pid, Signal::SIGCONT).expect("it is our child");
        Self { pid }
    }

    /// Up to the return of the call that hears of the client's mount(2). Says who called.
    fn run_until_it_hears(&self) -> Pid {
        loop {
            self.next_stop();
            let Call { number, request, argument, result } = self.call();
            // At the entry of a call, the result is -ENOSYS.
            if (number, request, result) == (libc_ioctl(), NOTIF_RECV, 0) {
                // struct seccomp_notif: the id, then the caller's number.
                let word = ptrace::read(self.pid, (argument + 8) as ptrace::AddressType).expect("its own memory");
                return Pid::from_raw(word as i32);
            }
        }
    }

    /// Up to the entry of another call, after that many whole ones. False: it answers before that.
    fn run_steps(&self, steps: usize) -> bool {
        for step in 0..=steps {
            self.next_stop();
            let Call { number, request, .. } = self.call();
            if (number, request) == (libc_ioctl(), NOTIF_SEND) {
                return false;
            }
            if step < steps {
                self.next_stop();
            }
        }
        true
    }

    /// Up to the entry of the call that answers.
    fn run_until_it_answers(&self) {
        loop {
            self.next_stop();
            let Call { number, request, .. } = self.call();
            if (number, request) == (libc_ioctl(), NOTIF_SEND) {
                return;
            }
        }
    }

    fn next_stop(&self) {
        loop {
            ptrace::syscall(self.pid, None).expect("it is stopped");
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("it is traced") {
                WaitStatus::PtraceSyscall(_) => return,
                WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => {}
                ended => panic!("shorefast mount ended before it answered: {ended:?}"),
            }
        }
    }

    fn call(&self) -> Call {
        let registers = ptrace::getregs(self.pid).expect("it is stopped");
        Call { number: registers.orig_rax, request: registers.rsi, argument: registers.rdx, result: registers.rax.cast_signed() }
    }

    fn let_go(self) {
        ptrace::detach(self.pid, None).expect("it is stopped");
    }
}

struct Call {
    number: u64,
    request: u64,
    argument: u64,
    result: i64,
}

fn libc_ioctl() -> u64 {
    nix::libc::SYS_ioctl as u64
}

/// A program of the host that has nothing to do with the mount.
struct Innocent(Child);

impl Innocent {
    fn with_number(number: Pid, fstype: &str) -> Self {
        let mut command = Command::new(hostile::client());
        command.args(["stands-in", &number.to_string(), fstype, TARGET_INSIDE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("cannot start the innocent");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("its output can be read");
        assert_eq!(line, "ready\n", "no process got the number {number}");
        Self(child)
    }

    fn finish(mut self) -> Option<i32> {
        drop(self.0.stdin.take());
        self.0.wait().expect("it is our child").code()
    }
}

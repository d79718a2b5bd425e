//! A process that uses a key: this test program, started again. It can be killed for real.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use daemon::agent::store::{Store, StoreRole};
use engine::agent::host::{Answer, Ask, State};
use engine::agent::target::Progress;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};

use crate::base::*;

/// What a process does. It says each step that is on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// All that Host and Target write of a tunnel.
    Use,
    /// Only what Target writes, as if a Host had lied.
    Spend,
    /// Opens the database as Host, and looks a key up at each line that it is told.
    HoldHost,
    /// Issues keys of all numbers.
    Issue,
    /// Says the state of a key, and whether a Target would still spend it.
    Look,
}

/// A started process that waits for its order.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The thread that works.
    thread: Pid,
}

const VARIABLES: [&str; 4] = [
    "CARAVAN_STORE_DATABASE",
    "CARAVAN_STORE_DEED",
    "CARAVAN_STORE_KEY",
    "CARAVAN_STORE_NUMBER",
];
/// What a process is told to do.
const DEEDS: [(&str, Deed); 5] = [
    ("use", Deed::Use),
    ("spend", Deed::Spend),
    ("hold", Deed::HoldHost),
    ("issue", Deed::Issue),
    ("look", Deed::Look),
];
/// Starts each line that a process says. Before it may stand what the test harness prints.
const MARK: &str = "says: ";
/// Where a process is to go on.
const READY: &str = "ready ";

impl Process {
    /// Starts process `number`, which has opened the database when this returns.
    pub(crate) fn start(base: &Base, deed: Deed, key: u8, number: u8) -> Self {
        let (deed, _) = DEEDS
            .iter()
            .find(|(_, it)| *it == deed)
            .expect("all are listed");
        let values = [&base.text, *deed, &key.to_string(), &number.to_string()];
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "process::a_key_is_used_once", "--nocapture"])
            .envs(VARIABLES.into_iter().zip(values))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = child.stdout.take().expect("a pipe");
        let mut process = Self {
            child,
            lines: BufReader::new(output),
            thread: Pid::from_raw(0),
        };
        let ready = process.next_line().expect("it is ready");
        let thread = ready.strip_prefix(READY).and_then(|it| it.parse().ok());
        process.thread = Pid::from_raw(thread.expect("its thread"));
        process
    }

    /// The next thing that it says. None: it has ended.
    fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("a line") > 0 {
            if let Some((_, said)) = line.trim_end().split_once(MARK) {
                return Some(said.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Lets it go.
    pub(crate) fn go(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"go\n").expect("it listens");
    }

    /// Everything that it says until it ends.
    pub(crate) fn said(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.next_line()).collect();
        self.child.wait().expect("it ends");
        said
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
    }

    /// Lets it go, and kills it before its `nth` write since then, counted from 1: to a file, a
    /// socket or the disk. False: it has ended after fewer.
    pub(crate) fn kill_before_write(&mut self, nth: usize) -> bool {
        let thread = self.thread;
        let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
        ptrace::seize(thread, options).expect("traced");
        ptrace::interrupt(thread).expect("stopped");
        wait(thread);
        self.go();
        let (mut writes, mut is_entry, mut signal) = (0, true, None);
        loop {
            ptrace::syscall(thread, signal.take()).expect("it goes on");
            match wait(thread) {
                WaitStatus::PtraceSyscall(_) => {
                    writes += usize::from(is_entry && is_write(thread));
                    if writes == nth {
                        let process = Pid::from_raw(self.child.id().cast_signed());
                        kill(process, Signal::SIGKILL).expect("killed");
                        while !is_over(wait(thread)) {}
                        return true;
                    }
                    is_entry = !is_entry;
                }
                WaitStatus::Stopped(_, it) => signal = Some(it),
                status if is_over(status) => return false,
                _ => {}
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(thread: Pid) -> WaitStatus {
    waitpid(thread, Some(WaitPidFlag::__WALL)).expect("a traced thread")
}

fn is_over(status: WaitStatus) -> bool {
    matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..))
}

/// Whether the system call at which a thread has stopped changes anything that others see.
fn is_write(thread: Pid) -> bool {
    let registers = ptrace::getregs(thread).expect("its registers");
    #[cfg(target_arch = "x86_64")]
    let (call, unlink) = (registers.orig_rax as i64, libc::SYS_unlink);
    #[cfg(target_arch = "aarch64")]
    let (call, unlink) = (registers.regs[8] as i64, libc::SYS_unlinkat);
    let writes = [
        unlink,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_ftruncate,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
    ];
    writes.contains(&call)
}

fn say(what: &str) {
    // Not by a macro: the test harness would keep it.
    let line = format!("{MARK}{what}\n");
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("somebody listens");
}

/// In a started process: says that it is ready, and waits for its order. False: none comes.
fn wait_for_order() -> bool {
    say(&format!("{READY}{}", gettid()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("an order") > 0
}

async fn do_it(
    text: &str,
    deed: Deed,
    key: u8,
    number: u8,
    mut wait: impl FnMut() -> bool,
) -> Vec<String> {
    let mut said = Said(Vec::new());
    match deed {
        Deed::HoldHost => {
            let mut host = open(text, StoreRole::Host).await;
            while wait() {
                said.tell(match host.answer(&Ask::Find(handle(key))).await {
                    Answer::Found(Some(_)) => "found",
                    Answer::Found(None) => "unknown",
                    _ => "unavailable",
                });
            }
        }
        Deed::Issue => {
            let keys: Vec<_> = (0..=u8::MAX).map(|it| (handle(it), record(it))).collect();
            let mut desk = open(text, StoreRole::Administrator).await;
            let issued = desk.issue(&keys).await;
            said.tell(issued.map_or("unavailable", |()| "issued"));
        }
        Deed::Use | Deed::Spend | Deed::Look => {
            let mut host = open(text, StoreRole::Administrator).await;
            let mut at_target = open(text, target(number)).await;
            wait();
            match deed {
                Deed::Look => look(&mut host, &mut at_target, key, number, &mut said).await,
                Deed::Use => use_key(&mut host, &mut at_target, key, number, &mut said).await,
                _ => {
                    spend(&mut at_target, key, number, &mut said).await;
                }
            }
        }
    }
    said.0
}

/// What a process has said.
struct Said(Vec<String>);

impl Said {
    fn tell(&mut self, what: &str) {
        say(what);
        self.0.push(what.to_owned());
    }
}

async fn look(host: &mut Store, at_target: &mut Store, key: u8, number: u8, said: &mut Said) {
    let Answer::Found(Some(record)) = host.answer(&Ask::Find(handle(key))).await else {
        panic!("key {key} is not found");
    };
    said.tell(match record.state {
        State::Valid => "valid",
        State::Taken { .. } => "taken",
        State::Used { .. } => "used",
        State::Failed { .. } | State::Revoked => "failed",
    });
    let is_new = at_target.spend(&spending(key, number)).await;
    said.tell(match is_new.expect("an answer") {
        true => "unspent",
        false => "spent",
    });
}

async fn use_key(host: &mut Store, at_target: &mut Store, key: u8, number: u8, said: &mut Said) {
    let (handle, request) = (handle(key), request(number));
    let found = host.answer(&Ask::Find(handle)).await;
    assert!(matches!(
        found,
        Answer::Found(Some(_)) | Answer::Unavailable
    ));
    let take = Ask::Take {
        handle,
        request,
        at: AT,
    };
    match host.answer(&take).await {
        Answer::Taken => said.tell("taken"),
        Answer::Unchanged(_) => return said.tell("refused"),
        _ => return said.tell("unavailable"),
    }
    let answer = spend(at_target, key, number, said).await;
    let finish = Ask::Finish {
        handle,
        request,
        answer,
    };
    match host.answer(&finish).await {
        Answer::Finished => said.tell("finished"),
        _ => said.tell("unavailable"),
    }
}

/// What Target does. Some: there is a tunnel, and this is the answer.
async fn spend(at_target: &mut Store, key: u8, number: u8, said: &mut Said) -> Option<Vec<u8>> {
    let spending = spending(key, number);
    match at_target.spend(&spending).await {
        Ok(true) => said.tell("spent"),
        Ok(false) => {
            said.tell("spent before");
            return None;
        }
        Err(_) => {
            said.tell("unavailable");
            return None;
        }
    }
    let noted = at_target.note(spending.tunnel, Progress::Arrived).await;
    said.tell(noted.map_or("unavailable", |()| "noted"));
    Some(vec![number; 300])
}

/// The work of a started process. Run as a test, it works by itself.
#[test]
fn a_key_is_used_once() {
    let [Ok(text), Ok(deed), Ok(key), Ok(number)] = VARIABLES.map(std::env::var) else {
        let base = Base::new("once");
        run(async {
            let mut desk = base.open(StoreRole::Administrator).await;
            desk.issue(&[(handle(1), record(1))]).await.expect("issued");
            let first = do_it(&base.text, Deed::Use, 1, 1, || true).await;
            assert_eq!(first, ["taken", "spent", "noted", "finished"]);
            assert_eq!(
                do_it(&base.text, Deed::Use, 1, 2, || true).await,
                ["refused"]
            );
            assert_eq!(
                do_it(&base.text, Deed::Spend, 1, 3, || true).await,
                ["spent before"]
            );
        });
        return;
    };
    let (_, deed) = *DEEDS
        .iter()
        .find(|(name, _)| *name == deed)
        .expect("a deed");
    let (key, number) = (
        key.parse().expect("a key"),
        number.parse().expect("a number"),
    );
    run(do_it(&text, deed, key, number, wait_for_order));
}

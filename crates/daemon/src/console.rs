//! Output to the user: answers on standard output, errors and the log on standard error. A full
//! disk, or a reader that is gone or does not read, never ends or stops a process that carries
//! traffic.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Lines of the log that could not be written to standard error.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Whether the reader of standard error had no room for the last line.
static IS_BEHIND: AtomicBool = AtomicBool::new(false);
/// How long one line of the log waits for a reader that falls behind. The next ones do not. The
/// last answers wait as long each time that there is no room.
const PATIENCE_MS: u16 = 100;
/// What a pipe or terminal that is ready takes without waiting (PIPE_BUF).
const READY_BYTES: usize = 4096;

/// Writes an answer to standard output. A closed reader is not an error: it wants no more output.
pub fn say(text: &str) -> io::Result<()> {
    say_to(&mut io::stdout().lock(), text)
}

fn say_to(output: &mut impl Write, text: &str) -> io::Result<()> {
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::other(format!(
            "cannot write to standard output: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Answers to orders, for a reader who may not read them: nothing waits for it but the next order.
#[derive(Debug, Default)]
pub struct Answers(VecDeque<u8>);

impl Answers {
    /// Adds a line.
    pub fn add(&mut self, line: &str) {
        self.0.extend(line.as_bytes());
        self.0.push_back(b'\n');
    }

    /// Whether the reader has them all. No order is read before.
    pub fn are_taken(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes what the reader has room for. After an error the rest is forgotten.
    pub fn give(&mut self, output: BorrowedFd<'_>) -> io::Result<()> {
        self.give_within(output, 0)
    }

    /// The same for the last ones: a reader that reads gets all of them. A closed reader is not an
    /// error, but one that does not read is.
    pub fn finish(&mut self, output: BorrowedFd<'_>) -> io::Result<()> {
        let fault = match self.give_within(output, PATIENCE_MS) {
            Ok(()) if self.are_taken() => return Ok(()),
            Ok(()) => io::Error::from(ErrorKind::TimedOut),
            Err(fault) if fault.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(fault) => fault,
        };
        Err(io::Error::other(format!(
            "cannot write to standard output: {fault}"
        )))
    }

    fn give_within(&mut self, output: BorrowedFd<'_>, patience_ms: u16) -> io::Result<()> {
        while !self.are_taken() {
            let mut polled = [PollFd::new(output, PollFlags::POLLOUT)];
            if poll(&mut polled, patience_ms) == Ok(0) {
                return Ok(());
            }
            let (first, _) = self.0.as_slices();
            let len = first.len().min(READY_BYTES);
            match nix::unistd::write(output, &first[..len]) {
                Ok(written) => drop(self.0.drain(..written)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(fault) => {
                    self.0.clear();
                    return Err(fault.into());
                }
            }
        }
        Ok(())
    }
}

/// Writes one sentence to standard error. A failure is ignored: there is nobody to tell.
pub fn complain(sentence: impl Display) {
    let priority = if is_journal() {
        priority(Level::ERROR)
    } else {
        ""
    };
    // One write, so that lines of two processes do not mix.
    let _ = io::stderr().write_all(format!("{priority}caravan: {sentence}\n").as_bytes());
}

/// Whether standard error is the journal of systemd, which adds the time to each line and reads its
/// priority from it (sd-daemon(3)). A terminal that a service started has the variable too.
pub fn is_journal() -> bool {
    let said = std::env::var("JOURNAL_STREAM").ok();
    let found = nix::sys::stat::fstat(io::stderr());
    let found = found.map(|it| format!("{}:{}", it.st_dev, it.st_ino));
    said.is_some_and(|said| found.is_ok_and(|found| found == said))
}

/// The priority of a line, as the journal reads it (syslog(3)).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Lines of the log that could not be written since the process began.
pub fn lost_lines() -> u64 {
    LOST.load(Ordering::Relaxed)
}

thread_local! {
    /// Lines of this thread that leave together.
    static GATHERED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Until this is dropped, lines of this thread's log wait, to leave in as few writes as possible.
/// Within another one it does nothing.
#[derive(Debug)]
pub struct Gathering {
    is_first: bool,
    _of_thread: PhantomData<*const ()>,
}

impl Gathering {
    /// Begins. What follows is short: if the process is killed, nobody sees its lines.
    pub fn begin() -> Self {
        let is_first = GATHERED.with_borrow_mut(|it| {
            let is_first = it.is_none();
            it.get_or_insert_default();
            is_first
        });
        Self {
            is_first,
            _of_thread: PhantomData,
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let lines = GATHERED.with_borrow_mut(|it| it.take_if(|_| self.is_first));
        lines.iter().for_each(|it| write_lines(it));
    }
}

/// Standard error as the log's writer. It counts and drops lines that cannot be written.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// It is the journal.
    pub is_journal: bool,
}

/// The writer of one line.
pub struct Line {
    priority: &'static str,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let whole = [self.priority.as_bytes(), line].concat();
        GATHERED.with_borrow_mut(|gathered| match gathered {
            Some(lines) if lines.len() + whole.len() <= READY_BYTES => {
                lines.extend_from_slice(&whole);
            }
            Some(lines) => {
                write_lines(lines);
                *lines = whole;
            }
            None => write_lines(&whole),
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes whole lines, or counts them as lost.
fn write_lines(lines: &[u8]) {
    let mut output = io::stderr();
    if lines.is_empty() {
        return;
    }
    if !has_room(output.as_fd(), &IS_BEHIND) || output.write_all(lines).is_err() {
        let lost = lines.iter().filter(|it| **it == b'\n').count();
        LOST.fetch_add(lost as u64, Ordering::Relaxed);
    }
}

/// Whether a line can be written without waiting for its reader: a pipe that is ready takes 4 KiB.
fn has_room(output: BorrowedFd<'_>, is_behind: &AtomicBool) -> bool {
    let patience = match is_behind.load(Ordering::Relaxed) {
        true => 0,
        false => PATIENCE_MS,
    };
    let mut polled = [PollFd::new(output, PollFlags::POLLOUT)];
    // After an error the write says what is wrong.
    let has_room = poll(&mut polled, patience) != Ok(0);
    is_behind.store(!has_room, Ordering::Relaxed);
    has_room
}

impl MakeWriter<'_> for Log {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { priority: "" }
    }

    fn make_writer_for(&self, meta: &Metadata<'_>) -> Line {
        match self.is_journal {
            true => Line {
                priority: priority(*meta.level()),
            },
            false => self.make_writer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_full_disk_is_an_error_in_one_sentence() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = say_to(&mut full, "text\n").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot write to standard output: "),
            "{error}"
        );
    }

    #[test]
    fn a_reader_that_does_not_read_stops_nobody() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let is_behind = AtomicBool::new(false);
        let mut lines = 0;
        while has_room(writer.as_fd(), &is_behind) {
            writer.write_all(&[b'x'; 1000]).unwrap();
            lines += 1;
        }
        assert!((4..1000).contains(&lines), "{lines}");
        assert!(!has_room(writer.as_fd(), &is_behind));
        io::Read::read_exact(&mut reader, &mut vec![0; lines * 1000]).unwrap();
        assert!(has_room(writer.as_fd(), &is_behind));
    }

    #[test]
    fn answers_that_nobody_reads_stop_nobody_and_a_reader_gets_them_all() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut answers, line) = (Answers::default(), "x".repeat(999));
        (0..500).for_each(|_| answers.add(&line));
        answers.give(writer.as_fd()).unwrap();
        assert!(!answers.are_taken());
        let fault = answers.finish(writer.as_fd()).unwrap_err().to_string();
        assert!(
            fault.starts_with("cannot write to standard output: "),
            "{fault}"
        );
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut reader, &mut all).map(|_| all.len())
        });
        answers.finish(writer.as_fd()).unwrap();
        assert!(answers.are_taken());
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), 500 * 1000);
    }

    #[test]
    fn lines_are_gathered_until_the_first_one_who_began_ends() {
        let line = |text: &str| {
            let mut line = Line { priority: "<6>" };
            line.write_all(text.as_bytes()).expect("it never fails");
        };
        let waiting = || GATHERED.with_borrow(|it| it.clone().map(String::from_utf8));
        assert_eq!(waiting(), None);
        let first = Gathering::begin();
        line("one\n");
        let second = Gathering::begin();
        line("two\n");
        drop(second);
        assert_eq!(waiting(), Some(Ok("<6>one\n<6>two\n".to_owned())));
        // What waits always fits into a pipe that is ready.
        line(&format!("{}\n", "x".repeat(READY_BYTES - 10)));
        let left = waiting().expect("gathering").expect("text");
        assert!(
            left.len() <= READY_BYTES && left.starts_with("<6>x"),
            "{}",
            left.len()
        );
        drop(first);
        assert_eq!(waiting(), None);
    }

    #[test]
    fn a_reader_that_is_gone_is_none() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        say_to(&mut writer, "text\n").unwrap();
        let mut answers = Answers::default();
        answers.add("text");
        answers.finish(writer.as_fd()).unwrap();
        answers.add("text");
        assert!(answers.give(writer.as_fd()).is_err() && answers.are_taken());
    }
}

//! What a link prints: answers to changes, and its counts at the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::poll::{PollFd, PollFlags, ppoll};

use crate::console::Answers;

/// Standard output. The thread that answers waits for the reader, and the end of the link does not
/// wait for that thread.
#[derive(Clone)]
pub(super) struct Output {
    to: Arc<OwnedFd>,
    answers: Arc<Mutex<Answers>>,
}

impl Output {
    pub(super) fn new(to: OwnedFd) -> Self {
        Self {
            to: Arc::new(to),
            answers: Arc::default(),
        }
    }

    /// Writes a line, and waits until the reader has room for all of it.
    pub(super) fn answer(&self, line: &str) -> io::Result<()> {
        self.answers().add(line);
        loop {
            let mut answers = self.answers();
            answers.give(self.to.as_fd())?;
            if answers.are_taken() {
                return Ok(());
            }
            drop(answers);
            let mut polled = [PollFd::new(self.to.as_fd(), PollFlags::POLLOUT)];
            // An interrupted wait counts as a wait that ended.
            let _ = ppoll(&mut polled, None, None);
        }
    }

    /// Writes the last line, if somebody reads.
    pub(super) fn finish(&self, line: &str) -> io::Result<()> {
        let mut answers = self.answers();
        answers.add(line);
        answers.finish(self.to.as_fd())
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollTimeout, poll};

    use super::*;

    #[test]
    fn answers_that_nobody_reads_do_not_keep_a_link_from_ending() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let output = Output::new(writer.into());
        let answering = output.clone();
        let thread = std::thread::spawn(move || {
            (0..100_000).try_for_each(|_| answering.answer("refused: there is no change"))
        });
        // It waits for a reader once the pipe is full.
        let to = output.to.clone();
        let has_room = || {
            let mut polled = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
            poll(&mut polled, PollTimeout::ZERO) != Ok(0)
        };
        while has_room() {
            std::thread::yield_now();
        }
        let fault = output.finish("{}").expect_err("nobody reads").to_string();
        assert!(
            fault.starts_with("cannot write to standard output"),
            "{fault}"
        );
        drop(reader);
        let answered = thread.join().expect("no panic");
        assert_eq!(
            answered.expect_err("gone").kind(),
            io::ErrorKind::BrokenPipe
        );
    }
}

//! The channel from a packet thread to control. It never waits, and loses only what strangers
//! cause.

use std::collections::VecDeque;

use engine::plane::Notice;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use crate::planes::News;

/// Facts that wait for a busy control. More are lost and counted, except those of [`is_needed`].
const BACKLOG: usize = 4096;

pub(super) struct Line {
    sender: Sender<News>,
    backlog: VecDeque<News>,
}

impl Line {
    pub(super) fn new(sender: Sender<News>) -> Self {
        Self {
            sender,
            backlog: VecDeque::new(),
        }
    }

    /// Sends to control, or keeps it for later, or counts it as lost.
    pub(super) fn tell(&mut self, news: News, unheard: &mut u64) {
        if !self.backlog.is_empty() && is_ours(&news) {
            return self.keep(news, unheard);
        }
        if let Err(TrySendError::Full(news)) = self.sender.try_send(news) {
            self.keep(news, unheard);
        }
    }

    /// Retries what was kept. Returns whether something still waits.
    pub(super) fn retry(&mut self) -> bool {
        while let Some(news) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(news)) = self.sender.try_send(news) {
                self.backlog.push_front(news);
                return true;
            }
        }
        false
    }

    fn keep(&mut self, news: News, unheard: &mut u64) {
        if is_needed(&news) || (is_ours(&news) && self.backlog.len() < BACKLOG) {
            self.backlog.push_back(news);
        } else {
            *unheard += 1;
        }
    }
}

/// A fact about our own associations, which is reported only once.
fn is_ours(news: &News) -> bool {
    match news {
        News::Message { .. }
        | News::Unreachable { .. }
        | News::Notice(Notice::UnknownSpi { .. }) => false,
        News::Notice(_) | News::Failed { .. } => true,
    }
}

/// The counts of an ended SA, and the failure of a direction. They are bounded by the number of
/// SAs and directions; accounts need all counts, and no other news tells of a failure.
fn is_needed(news: &News) -> bool {
    matches!(
        news,
        News::Notice(Notice::Removed(..)) | News::Failed { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::sa::ChildId;

    fn fact(number: u32) -> News {
        News::Notice(Notice::SoftLimit {
            child: ChildId(number),
        })
    }

    fn message() -> News {
        let any = ([127, 0, 0, 1], 1);
        News::Message {
            path: engine::sa::Path::udp(any, any),
            bytes: vec![1],
        }
    }

    #[test]
    fn a_busy_control_loses_messages_but_no_fact_and_no_order() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let mut line = Line::new(sender);
        let mut unheard = 0;
        for number in 0..3 {
            line.tell(fact(number), &mut unheard);
            line.tell(message(), &mut unheard);
        }
        assert_eq!(unheard, 3);
        for number in 0..3 {
            let Ok(News::Notice(Notice::SoftLimit { child })) = receiver.try_recv() else {
                panic!("fact {number} is missing");
            };
            assert_eq!(child, ChildId(number));
            assert_eq!(line.retry(), number == 0);
        }
        assert!(!line.retry());
    }

    #[test]
    fn a_failure_is_kept_beside_a_full_backlog() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let mut line = Line::new(sender);
        let mut unheard = 0;
        // One fact is in the channel, and one too many for the backlog is lost.
        for number in 0..BACKLOG as u32 + 2 {
            line.tell(fact(number), &mut unheard);
        }
        let failed = News::Failed {
            direction: engine::sa::Direction::Outbound,
            reason: "the device is gone".to_owned(),
        };
        line.tell(failed, &mut unheard);
        assert_eq!(unheard, 1);
        let mut last = receiver.try_recv();
        while line.retry() {
            last = receiver.try_recv();
        }
        assert!(last.is_ok());
        let told = receiver.try_recv();
        assert!(matches!(told, Ok(News::Failed { .. })), "{told:?}");
    }
}

//! News from the packet threads, in order. While a route to a peer without a pool address is
//! missing, messages wait: `docs/design/control-and-packets.md` says why. Everything else comes at
//! once. Without the counts of removed SAs no connection could end.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::planes::News;

/// Messages that wait. More are lost and counted: their senders repeat them.
const WAITING_MAX: usize = 1_024;
/// Octets of all that wait: anybody can send the longest message.
const WAITING_OCTETS_MAX: usize = 4 << 20;

/// The receiving end of the packet threads' channel.
pub(super) struct Inbox {
    news: mpsc::Receiver<News>,
    waiting: VecDeque<News>,
    waiting_octets: usize,
    lost: u64,
}

impl Inbox {
    pub(super) fn new(news: mpsc::Receiver<News>) -> Self {
        Self {
            news,
            waiting: VecDeque::new(),
            waiting_octets: 0,
            lost: 0,
        }
    }

    /// Messages that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// The next news, and no message while they wait. `None`: the packet threads are gone.
    /// Cancel-safe.
    pub(super) async fn next(&mut self, messages_wait: bool) -> Option<News> {
        if !messages_wait && let Some(message) = self.waiting.pop_front() {
            self.waiting_octets -= octets(&message);
            return Some(message);
        }
        loop {
            let news = self.news.recv().await?;
            if !messages_wait || !matches!(news, News::Message { .. }) {
                return Some(news);
            }
            let octets = octets(&news);
            if self.waiting.len() < WAITING_MAX
                && self.waiting_octets + octets <= WAITING_OCTETS_MAX
            {
                self.waiting_octets += octets;
                self.waiting.push_back(news);
            } else {
                self.lost += 1;
            }
        }
    }
}

/// The length of a message.
fn octets(news: &News) -> usize {
    match news {
        News::Message { bytes, .. } => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use engine::plane::Notice;
    use engine::sa::{ChildId, Path};
    use futures_util::FutureExt;

    use super::*;

    fn message(number: u8) -> News {
        let any = ([127, 0, 0, 1], 1);
        News::Message {
            path: Path::udp(any, any),
            bytes: vec![number],
        }
    }

    fn is_message(news: Option<Option<News>>, number: u8) -> bool {
        matches!(news, Some(Some(News::Message { bytes, .. })) if bytes == [number])
    }

    fn inbox() -> (mpsc::Sender<News>, Inbox) {
        let (sender, news) = mpsc::channel(2 * WAITING_MAX);
        (sender, Inbox::new(news))
    }

    #[test]
    fn notices_come_while_messages_wait_and_messages_come_later_in_order() {
        let (sender, mut inbox) = inbox();
        let child = ChildId(7);
        let notice = News::Notice(Notice::SoftLimit { child });
        for news in [message(1), message(2), notice, message(3)] {
            assert!(sender.try_send(news).is_ok());
        }
        let news = inbox.next(true).now_or_never();
        assert!(matches!(news, Some(Some(News::Notice(_)))));
        assert!(inbox.next(true).now_or_never().is_none());
        for number in 1..=3 {
            assert!(is_message(inbox.next(false).now_or_never(), number));
        }
        assert!(inbox.next(false).now_or_never().is_none());
        assert_eq!(inbox.lost(), 0);
    }

    #[test]
    fn long_messages_take_room_by_their_length() {
        let (sender, mut inbox) = inbox();
        let path = Path::udp(([127, 0, 0, 1], 1), ([127, 0, 0, 1], 1));
        for _ in 0..70 {
            let bytes = vec![0; 1 << 16];
            assert!(sender.try_send(News::Message { path, bytes }).is_ok());
        }
        assert!(inbox.next(true).now_or_never().is_none());
        assert_eq!(inbox.lost(), 6);
        assert!(inbox.next(false).now_or_never().is_some());
        assert!(sender.try_send(message(1)).is_ok());
        assert!(inbox.next(true).now_or_never().is_none());
        assert_eq!(inbox.lost(), 6);
    }

    #[test]
    fn messages_without_room_are_counted_as_lost() {
        let (sender, mut inbox) = inbox();
        for _ in 0..WAITING_MAX + 3 {
            assert!(sender.try_send(message(1)).is_ok());
        }
        assert!(inbox.next(true).now_or_never().is_none());
        assert_eq!(inbox.lost(), 3);
        drop(sender);
        assert!(matches!(inbox.next(true).now_or_never(), Some(None)));
        for _ in 0..WAITING_MAX {
            assert!(is_message(inbox.next(false).now_or_never(), 1));
        }
        assert!(matches!(inbox.next(false).now_or_never(), Some(None)));
    }
}

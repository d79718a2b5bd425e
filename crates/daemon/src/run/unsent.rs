//! Messages that the kernel refused to send, and to whom. The log says it once for an address and
//! reason, until something is sent there again. `status` and a waiting terminal say it as long as
//! the last message there was refused, and our addresses have not changed since.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// Addresses that are kept: a stranger may have chosen one.
const ADDRESSES_MAX: usize = 256;

/// Where the last message could not be sent, and why.
#[derive(Default)]
pub(super) struct Unsent {
    count: u64,
    by_address: BTreeMap<SocketAddr, Refused>,
}

/// The last message to an address was refused.
struct Refused {
    /// The error's number; 0 if it has none.
    number: i32,
    /// The whole sentence.
    why: String,
    /// How many messages had been refused when it was the first one.
    since: u64,
    /// Our addresses have not changed after it.
    is_current: bool,
    /// The error that is in the log.
    logged: Option<i32>,
}

impl Unsent {
    /// Messages so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A message was refused. Returns the sentence if it is news.
    pub(super) fn refused(&mut self, to: SocketAddr, error: &io::Error) -> Option<String> {
        self.count += 1;
        if !self.by_address.contains_key(&to) && self.by_address.len() >= ADDRESSES_MAX {
            self.forget_oldest();
        }
        let number = error.raw_os_error().unwrap_or_default();
        let why = sentence(to, error);
        let mut news = None;
        let it = self.by_address.entry(to).or_insert_with(|| {
            news = Some(why.clone());
            Refused {
                number,
                why: why.clone(),
                since: self.count,
                is_current: true,
                logged: None,
            }
        });
        it.is_current = true;
        if it.number != number {
            news = Some(why.clone());
            (it.number, it.why) = (number, why);
        }
        news
    }

    /// The sentence about this address, if the log does not have it.
    pub(super) fn unlogged(&self, to: SocketAddr) -> Option<&str> {
        let it = self.by_address.get(&to)?;
        (it.logged != Some(it.number)).then_some(&*it.why)
    }

    /// The log has the sentence about this address.
    pub(super) fn logged(&mut self, to: SocketAddr) {
        if let Some(it) = self.by_address.get_mut(&to) {
            it.logged = Some(it.number);
        }
    }

    /// A message was sent. Returns whether the log says that this could not be.
    pub(super) fn sent(&mut self, to: SocketAddr) -> bool {
        let ended = self.by_address.remove(&to);
        ended.is_some_and(|it| it.logged.is_some())
    }

    /// Our addresses have changed: nobody knows whether the next message can be sent.
    pub(super) fn addresses_changed(&mut self) {
        let all = self.by_address.values_mut();
        all.for_each(|it| it.is_current = false);
    }

    /// Why the last message to this address was not sent, in one sentence.
    pub(super) fn why(&self, to: SocketAddr) -> Option<&str> {
        let it = self.by_address.get(&to).filter(|it| it.is_current)?;
        Some(&it.why)
    }

    fn forget_oldest(&mut self) {
        let all = self.by_address.iter();
        let oldest = all.min_by_key(|(_, it)| it.since).map(|(to, _)| *to);
        oldest.and_then(|it| self.by_address.remove(&it));
    }
}

fn sentence(to: SocketAddr, error: &io::Error) -> String {
    let question = match error.kind() {
        io::ErrorKind::PermissionDenied => ": does a firewall of this host forbid it?",
        _ => "",
    };
    format!("cannot send to {to}: {error}{question}")
}

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::*;

    fn at(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 500).into()
    }

    fn errors() -> [io::Error; 2] {
        [libc::ENETUNREACH, libc::EPERM].map(io::Error::from_raw_os_error)
    }

    #[test]
    fn a_refusal_is_news_once_for_its_reason_until_something_is_sent() {
        let mut unsent = Unsent::default();
        let [unreachable, forbidden] = errors();
        assert!(!unsent.sent(at(1)) && unsent.why(at(1)).is_none());
        let told = format!("cannot send to 192.0.2.1:500: {unreachable}");
        assert_eq!(unsent.refused(at(1), &unreachable).as_ref(), Some(&told));
        assert_eq!(unsent.refused(at(1), &unreachable), None);
        assert_eq!(unsent.why(at(1)), Some(told.as_str()));
        let told = unsent.refused(at(1), &forbidden).expect("another reason");
        assert!(
            told.ends_with(": does a firewall of this host forbid it?"),
            "{told}"
        );
        assert_eq!(unsent.why(at(1)), Some(told.as_str()));
        unsent.sent(at(1));
        assert_eq!(unsent.why(at(1)), None);
        assert!(unsent.refused(at(1), &unreachable).is_some());
        assert_eq!(unsent.count(), 4);
        assert_eq!(unsent.why(at(2)), None);
    }

    #[test]
    fn what_the_log_had_no_room_for_is_logged_later() {
        let mut unsent = Unsent::default();
        let [unreachable, forbidden] = errors();
        for _ in 0..2 {
            unsent.refused(at(1), &unreachable);
            assert!(unsent.unlogged(at(1)).is_some());
        }
        assert!(!unsent.sent(at(1)), "the log says nothing of it");
        unsent.refused(at(1), &unreachable);
        unsent.logged(at(1));
        unsent.refused(at(1), &unreachable);
        assert_eq!(unsent.unlogged(at(1)), None);
        unsent.refused(at(1), &forbidden);
        assert!(unsent.unlogged(at(1)).is_some(), "another reason");
        assert!(unsent.sent(at(1)));
        assert!(!unsent.sent(at(1)));
    }

    #[test]
    fn a_refusal_from_before_our_addresses_changed_is_not_told() {
        let mut unsent = Unsent::default();
        let [unreachable, _] = errors();
        unsent.refused(at(1), &unreachable);
        unsent.logged(at(1));
        unsent.addresses_changed();
        assert_eq!(unsent.why(at(1)), None);
        assert_eq!(unsent.refused(at(1), &unreachable), None);
        assert!(unsent.why(at(1)).is_some());
        assert!(unsent.sent(at(1)), "the log has an end for it");
    }

    #[test]
    fn strangers_fill_no_memory_and_the_oldest_makes_room() {
        let mut unsent = Unsent::default();
        let [error, forbidden] = errors();
        let stranger = |number: u32| SocketAddr::new(std::net::Ipv4Addr::from(number).into(), 500);
        // The lowest address comes last.
        for number in (1..=ADDRESSES_MAX as u32).rev() {
            assert!(unsent.refused(stranger(number), &error).is_some());
        }
        // An address that is known takes no other's place.
        assert!(unsent.refused(stranger(1), &forbidden).is_some());
        assert_eq!(unsent.by_address.len(), ADDRESSES_MAX);
        assert!(unsent.refused(at(1), &error).is_some());
        assert_eq!(unsent.by_address.len(), ADDRESSES_MAX);
        assert!(unsent.why(stranger(1)).is_some());
        assert_eq!(unsent.why(stranger(ADDRESSES_MAX as u32)), None);
    }
}

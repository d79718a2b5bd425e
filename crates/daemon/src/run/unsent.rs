//! Messages that the kernel refused to send, and to whom. The log says it once for an address and
//! reason, until something is sent there again; `status` says it as long as it lasts.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

/// Addresses that are kept: a stranger may have chosen one.
const ADDRESSES_MAX: usize = 256;

/// Where nothing can be sent, and why.
#[derive(Default)]
pub(super) struct Unsent {
    count: u64,
    /// By address: the error's number, and its sentence.
    by_address: BTreeMap<IpAddr, (Option<i32>, String)>,
}

impl Unsent {
    /// Messages so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A message was refused. Returns whether that is news.
    pub(super) fn refused(&mut self, to: IpAddr, error: &io::Error) -> bool {
        self.count += 1;
        let number = error.raw_os_error();
        if self.by_address.get(&to).is_some_and(|it| it.0 == number) {
            return false;
        }
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.pop_first();
        }
        self.by_address.insert(to, (number, error.to_string()));
        true
    }

    /// A message was sent. Returns whether that is news.
    pub(super) fn sent(&mut self, to: IpAddr) -> bool {
        self.by_address.remove(&to).is_some()
    }

    /// Why the last message to this address was not sent.
    pub(super) fn why(&self, to: IpAddr) -> Option<String> {
        let (_, why) = self.by_address.get(&to)?;
        Some(format!("cannot send to {to}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::*;

    #[test]
    fn a_refusal_is_news_once_for_its_reason_until_something_is_sent() {
        let mut unsent = Unsent::default();
        let to = IpAddr::from([192, 0, 2, 1]);
        let [unreachable, forbidden] =
            [libc::ENETUNREACH, libc::EPERM].map(io::Error::from_raw_os_error);
        assert!(!unsent.sent(to) && unsent.why(to).is_none());
        assert!(unsent.refused(to, &unreachable));
        assert!(!unsent.refused(to, &unreachable));
        let why = unsent.why(to).expect("a reason");
        assert_eq!(why, format!("cannot send to 192.0.2.1: {unreachable}"));
        assert!(unsent.refused(to, &forbidden));
        assert!(unsent.sent(to) && !unsent.sent(to));
        assert!(unsent.refused(to, &unreachable));
        assert_eq!(unsent.count(), 4);
        assert_eq!(unsent.why([192, 0, 2, 2].into()), None);
    }

    #[test]
    fn strangers_fill_no_memory() {
        let mut unsent = Unsent::default();
        let error = io::Error::from_raw_os_error(libc::ENETUNREACH);
        for number in 0..2 * ADDRESSES_MAX as u32 {
            assert!(unsent.refused(IpAddr::V4(number.into()), &error));
        }
        assert_eq!(unsent.by_address.len(), ADDRESSES_MAX);
    }
}

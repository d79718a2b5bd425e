//! Our addresses at which a peer may reach us.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Addresses without a carrier that count because a session is there: the link may be back in a
/// moment.
#[derive(Default)]
pub(super) struct Lasting(BTreeSet<IpAddr>);

impl Lasting {
    /// The addresses of `own` at which a peer may reach us. `idle`: those without a carrier;
    /// `used`: those of sessions.
    pub(super) fn reached(
        &mut self,
        own: Vec<IpAddr>,
        mut idle: BTreeSet<IpAddr>,
        used: impl IntoIterator<Item = IpAddr>,
    ) -> BTreeSet<IpAddr> {
        self.0 = used.into_iter().filter(|it| idle.remove(it)).collect();
        own.into_iter().filter(|it| !idle.contains(it)).collect()
    }

    /// Whether there is one.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether the last session has left one of them. Then it is time to look again, once.
    pub(super) fn is_left(&mut self, used: impl IntoIterator<Item = IpAddr>) -> bool {
        let used: BTreeSet<IpAddr> = used.into_iter().collect();
        let before = self.0.len();
        self.0.retain(|it| used.contains(it));
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_carrier_counts_until_its_last_session_has_left() {
        let [up, down, other] = [1, 2, 3].map(|it| IpAddr::from([192, 0, 2, it]));
        let idle = || BTreeSet::from([down, other]);
        let own = || vec![up, down, other];
        let mut lasting = Lasting::default();
        let reached = lasting.reached(own(), idle(), [down, up]);
        assert_eq!(reached, BTreeSet::from([up, down]));
        assert!(!lasting.is_left([up, down]));
        assert!(lasting.is_left([up]));
        assert!(!lasting.is_left([up]), "it has been said");
        let reached = lasting.reached(own(), idle(), [up]);
        assert_eq!(reached, BTreeSet::from([up]));
        assert!(!lasting.is_left([up]));
    }

    #[test]
    fn several_sessions_at_one_address_are_one() {
        let down = IpAddr::from([192, 0, 2, 2]);
        let mut lasting = Lasting::default();
        let reached = lasting.reached(vec![down], BTreeSet::from([down]), [down, down]);
        assert_eq!(reached, BTreeSet::from([down]));
        assert!(lasting.is_any() && !lasting.is_left([down]));
        assert!(lasting.is_left([]) && !lasting.is_any());
    }
}

//! The gateway sends its peer to another gateway (RFC 5685).

use crypto::rand::Stream;
use wire::ikev2::Gateway;

use super::Session;
use crate::ike::Outbox;
use crate::time::Instant;

impl Session {
    /// Whether the peer goes to this gateway when it is sent there. It is not sent to where it is.
    pub fn may_be_sent_to(&self, gateway: &Gateway) -> bool {
        let is_here = *gateway == Gateway::Address(self.path.local.ip());
        let can = self.established().map(|it| it.may_be_sent_to(gateway));
        can.unwrap_or_default() && !is_here
    }

    /// Whether our answer to the peer's authentication sends it to another gateway.
    pub fn is_sent_away(&self) -> bool {
        self.established().is_some_and(|it| it.is_sent_away)
    }

    /// Sends the peer to another gateway. In answer to its authentication, it gets nothing else.
    pub fn send_away(
        &mut self,
        gateway: &Gateway,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.with(random, now, out, |it, at| it.send_away(gateway, at));
    }
}

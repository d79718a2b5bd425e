//! COOKIE: under load, a responder keeps nothing and computes nothing for a first message whose
//! sender has not shown that it receives at its address (RFC 7296 §2.6).
//!
//! A cookie is a number of a secret and a mac of what the initiator repeats: its nonce, its address
//! and its SPI. The secret is changed once a minute; the one before is still accepted.

use std::net::SocketAddr;

use crypto::hash::{Hash, HmacKey, is_equal};
use crypto::rand::Stream;

use crate::ike::Spi;
use crate::time::{Duration, Instant};

/// How long a secret makes cookies.
const SECRET_LIFETIME: Duration = Duration::from_secs(60);
/// Octets of a secret.
const SECRET_LEN: usize = 32;
/// Octets of a mac.
const MAC_LEN: usize = 16;

/// The secrets of a responder.
#[derive(Default)]
pub struct Cookies {
    /// The current one last, with its number.
    secrets: Vec<(u32, HmacKey)>,
    since: Instant,
    next: u32,
}

/// What a cookie is made of.
pub(super) struct Asker<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) address: SocketAddr,
    pub(super) spi: Spi,
}

impl Cookies {
    /// The cookie that this initiator must return.
    pub(super) fn make(&mut self, asker: &Asker<'_>, random: &mut Stream, now: Instant) -> Vec<u8> {
        self.turn(random, now);
        let Some((number, secret)) = self.secrets.last() else {
            return Vec::new();
        };
        asker.cookie(*number, secret)
    }

    /// Whether this is a cookie of ours for this initiator.
    pub(super) fn check(
        &mut self,
        cookie: &[u8],
        asker: &Asker<'_>,
        random: &mut Stream,
        now: Instant,
    ) -> bool {
        self.turn(random, now);
        let number = cookie.first_chunk().copied().map(u32::from_be_bytes);
        let mut secrets = self.secrets.iter();
        let secret = secrets.find(|(own, _)| Some(*own) == number);
        secret.is_some_and(|(own, secret)| is_equal(&asker.cookie(*own, secret), cookie))
    }

    /// Changes the secret if it is time.
    fn turn(&mut self, random: &mut Stream, now: Instant) {
        if !self.secrets.is_empty() && now.since(self.since) < SECRET_LIFETIME {
            return;
        }
        if now.since(self.since) >= SECRET_LIFETIME * 2 {
            self.secrets.clear();
        }
        let mut secret = zeroize::Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut secret[..]);
        self.next = self.next.wrapping_add(1);
        self.secrets
            .push((self.next, HmacKey::new(Hash::Sha256, &secret[..])));
        let surplus = self.secrets.len().saturating_sub(2);
        self.secrets.drain(..surplus);
        self.since = now;
    }
}

impl Asker<'_> {
    fn cookie(&self, number: u32, secret: &HmacKey) -> Vec<u8> {
        let address = self.address.to_string();
        let len = (self.nonce.len() as u32).to_be_bytes();
        let mac = secret.sign(&[&len, self.nonce, &self.spi.0, address.as_bytes()]);
        [&number.to_be_bytes()[..], &mac.as_ref()[..MAC_LEN]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::rand::Seed;

    fn asker(nonce: &[u8]) -> Asker<'_> {
        Asker {
            nonce,
            address: "192.0.2.7:500".parse().unwrap(),
            spi: Spi([7; 8]),
        }
    }

    fn second(at: u64) -> Instant {
        Instant(0) + Duration::from_secs(at)
    }

    #[test]
    fn a_cookie_is_for_one_initiator_and_two_lifetimes_of_a_secret_at_most() {
        let mut random = Seed::new([1; 32]).stream("cookies", 0);
        let mut cookies = Cookies::default();
        let nonce = [5; 32];
        let cookie = cookies.make(&asker(&nonce), &mut random, second(0));
        let mut is_right = |cookie: &[u8], asker: &Asker<'_>, at| {
            cookies.check(cookie, asker, &mut random, second(at))
        };
        assert!(is_right(&cookie, &asker(&nonce), 0));
        assert!(is_right(&cookie, &asker(&nonce), 59));
        for other in [
            Asker {
                address: "192.0.2.8:500".parse().unwrap(),
                ..asker(&nonce)
            },
            Asker {
                address: "192.0.2.7:501".parse().unwrap(),
                ..asker(&nonce)
            },
            Asker {
                spi: Spi([8; 8]),
                ..asker(&nonce)
            },
            asker(&[6; 32]),
            asker(&nonce[..31]),
        ] {
            assert!(!is_right(&cookie, &other, 59));
        }
        for at in 0..cookie.len() {
            let mut wrong = cookie.clone();
            wrong[at] ^= 1;
            assert!(!is_right(&wrong, &asker(&nonce), 59), "octet {at}");
            assert!(!is_right(&cookie[..at], &asker(&nonce), 59));
        }
        assert!(is_right(&cookie, &asker(&nonce), 61));
        assert!(!is_right(&cookie, &asker(&nonce), 122));
    }

    #[test]
    fn an_old_secret_is_forgotten_after_a_pause() {
        let mut random = Seed::new([1; 32]).stream("cookies", 0);
        let mut cookies = Cookies::default();
        let nonce = [5; 32];
        let cookie = cookies.make(&asker(&nonce), &mut random, second(0));
        assert!(!cookies.check(&cookie, &asker(&nonce), &mut random, second(3_600)));
    }
}

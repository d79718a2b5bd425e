//! The post-quantum pre-shared key of a tunnel, which its one-time key brings. In which exchange
//! IKE takes it is IKE's business ([`crate::ikev2::ppk`]).
//!
//! A one-time key of a sheet is 32 random octets. They are the seed of an Ed25519 key, and by
//! HKDF with a label of its own the seed of a PPK: who breaks the signature key by a quantum
//! computer has its scalar (RFC 8032 §5.1.5), from which SHA-512 hides the seed. Whoever makes the
//! key tells Host that seed of the PPK, [`KeyPpk`], and not the secret. For a request, Client and
//! Host derive the PPK of that tunnel alone, [`TunnelPpk`]; Host tells it Target with the referral,
//! and has forgotten the seed by then.
//!
//! A referral is sealed with X25519. So the PPK protects against whoever records where Client is,
//! and not against one who records between Host and Target too, unless something protects that way.
//! Left out: keys on a token, which gives no secret away, and shared pairs ([`super::legacy`]).

use core::fmt;

use crypto::hash::{Hash, HmacKey, expand, extract, is_equal};
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

use super::TunnelId;

/// Octets of both.
pub const PPK_LEN: usize = 32;

/// What a one-time key gives for PPKs.
#[derive(Clone)]
pub struct KeyPpk(Octets);

/// The PPK of one tunnel.
#[derive(Clone)]
pub struct TunnelPpk(Octets);

/// Wiped on drop. They never leave their box: what is moved leaves its octets where it was.
#[derive(Clone)]
struct Octets(Box<[u8; PPK_LEN]>);

impl KeyPpk {
    /// Of a one-time key's secret.
    pub fn of(secret: &[u8; 32]) -> Self {
        let seed = extract(Hash::Sha256, b"caravan tunnel-agent 3 ppk", secret);
        let mut octets = Octets::new();
        octets.0.copy_from_slice(seed.as_ref());
        Self(octets)
    }

    /// As a database or a file has it.
    pub fn of_octets(octets: &[u8; PPK_LEN]) -> Self {
        Self(Octets::of(octets))
    }

    /// For a database or a file.
    pub fn octets(&self) -> &[u8; PPK_LEN] {
        &self.0.0
    }

    /// The PPK of this tunnel.
    pub fn of_tunnel(&self, tunnel: TunnelId) -> TunnelPpk {
        let key = HmacKey::new(Hash::Sha256, self.octets());
        let mut octets = Octets::new();
        expand(&key, &[b"tunnel", &tunnel.0], &mut octets.0[..]);
        TunnelPpk(octets)
    }
}

impl Octets {
    fn new() -> Self {
        Self(Box::new([0; PPK_LEN]))
    }

    fn of(octets: &[u8; PPK_LEN]) -> Self {
        let mut own = Self::new();
        own.0.copy_from_slice(octets);
        own
    }
}

impl Drop for Octets {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Octets {}

impl PartialEq for KeyPpk {
    fn eq(&self, other: &Self) -> bool {
        is_equal(self.octets(), other.octets())
    }
}

impl Eq for KeyPpk {}

impl TunnelPpk {
    /// As a message or a file has it.
    pub fn of_octets(octets: &[u8; PPK_LEN]) -> Self {
        Self(Octets::of(octets))
    }

    /// For a message or a file.
    pub fn octets(&self) -> &[u8; PPK_LEN] {
        &self.0.0
    }

    /// As every implementation gets it: 64 hexadecimal digits, as text. Both ends take the same
    /// octets for the key, whatever they know of hexadecimal.
    pub fn text(&self) -> Zeroizing<String> {
        hex(self.octets())
    }
}

/// Hexadecimal digits of a secret, made without a buffer that grows.
pub(super) fn hex(octets: &[u8; 32]) -> Zeroizing<String> {
    use fmt::Write as _;
    let mut text = Zeroizing::new(String::with_capacity(2 * octets.len()));
    for octet in octets {
        let _ = write!(text, "{octet:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ppk_is_of_one_key_and_one_tunnel() {
        let ppk = |secret: u8, tunnel: u8| {
            let key = KeyPpk::of(&[secret; 32]);
            *key.of_tunnel(TunnelId([tunnel; 16])).octets()
        };
        assert_eq!(ppk(1, 1), ppk(1, 1));
        let all = [ppk(1, 1), ppk(1, 2), ppk(2, 1)];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        // Neither is the secret, nor what Host is told of it.
        let key = KeyPpk::of(&[1; 32]);
        assert!(!all.contains(&[1; 32]) && !all.contains(key.octets()));
        assert_ne!(key.octets(), &[1; 32]);
        let read = KeyPpk::of_octets(key.octets());
        assert!(read == key && read != KeyPpk::of(&[2; 32]));
    }

    /// HKDF of RFC 5869 §2 by HMAC alone.
    #[test]
    fn it_is_hkdf_with_the_labels_of_the_design_note() {
        let mac = |key: &[u8], parts: &[&[u8]]| HmacKey::new(Hash::Sha256, key).sign(parts);
        let seed = mac(b"caravan tunnel-agent 3 ppk", &[&[7; 32]]);
        assert_eq!(KeyPpk::of(&[7; 32]).octets(), seed.as_ref());
        let ppk = mac(seed.as_ref(), &[b"tunnel", &[9; 16], &[1]]);
        let made = KeyPpk::of(&[7; 32]).of_tunnel(TunnelId([9; 16]));
        assert_eq!(made.octets(), ppk.as_ref());
        assert_eq!(made.text().len(), 64);
    }

    /// A move copies where the octets are, and not the octets.
    #[test]
    fn a_ppk_that_is_moved_leaves_nothing_behind_and_is_wiped_at_its_end() {
        const fn is_wiped<T: ZeroizeOnDrop>() {}
        const { is_wiped::<Octets>() };
        let mut place = Some(KeyPpk::of_octets(&[7; PPK_LEN]));
        let before = place.as_ref().map(|it| it.octets().as_ptr());
        let moved = place.take();
        assert_eq!(moved.as_ref().map(|it| it.octets().as_ptr()), before);
        assert_eq!(size_of::<KeyPpk>(), size_of::<usize>());
        assert_eq!(size_of::<TunnelPpk>(), size_of::<usize>());
    }
}

//! MSCHAPv2: the proof of a password at both ends (RFC 2759 §8), and the key that follows from it
//! (RFC 3079 §3).
//!
//! It is weak: single DES and MD4, so that a recorded exchange gives the password's hash to anybody
//! with some hours of a fast machine, and the hash serves as the password. Use it only inside a
//! tunnel whose server has proven itself. Left out: LAN Manager's hashes, the change of a password.

use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::cipher::{CbcKey, Cipher};
use crate::hash::{Digest, Hash, is_equal};
use crate::sys::md4;

/// Octets of a challenge.
pub const CHALLENGE_LEN: usize = 16;
/// Octets of an NT hash.
pub const HASH_LEN: usize = 16;
/// Octets of NT-Response.
pub const RESPONSE_LEN: usize = 24;
/// Octets of the exported key.
pub const KEY_LEN: usize = 64;
/// Characters of a password at most (RFC 2759 §8.1).
pub const MAX_PASSWORD_CHARS: usize = 256;

/// NtPasswordHash of a password. Whoever has it can pose as the user. Wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct NtHash([u8; HASH_LEN]);

/// Both challenges of an exchange, and the user's name without a domain.
#[derive(Clone, Copy)]
pub struct Challenges<'a> {
    /// The server's.
    pub server: &'a [u8; CHALLENGE_LEN],
    /// The peer's own.
    pub peer: &'a [u8; CHALLENGE_LEN],
    /// What the peer calls itself.
    pub user: &'a [u8],
}

impl NtHash {
    /// A mac of it: what tells it from another one, for who has the key.
    pub fn mark(&self, key: &[u8]) -> Vec<u8> {
        Hash::Sha256.hmac(key, &[&self.0]).as_ref().to_vec()
    }

    /// Of a password, which is hashed as UTF-16 (RFC 2759 §8.3).
    pub fn of_password(password: &str) -> Self {
        // As much room as it may take: a vector that grows leaves copies.
        let mut octets = Zeroizing::new(Vec::with_capacity(2 * password.len()));
        octets.extend(password.encode_utf16().flat_map(u16::to_le_bytes));
        Self(*md4(&octets))
    }

    /// A hash that was stored.
    pub fn from_octets(octets: [u8; HASH_LEN]) -> Self {
        Self(octets)
    }

    /// For storing it.
    pub fn octets(&self) -> &[u8; HASH_LEN] {
        &self.0
    }

    /// NT-Response (RFC 2759 §8.1).
    pub fn respond(&self, challenges: Challenges<'_>) -> [u8; RESPONSE_LEN] {
        let challenge = challenges.hash();
        let mut keys = Zeroizing::new([0; 21]);
        keys[..HASH_LEN].copy_from_slice(&self.0);
        let mut response = [0; RESPONSE_LEN];
        for (third, seven) in response.chunks_exact_mut(8).zip(keys.chunks_exact(7)) {
            third.copy_from_slice(&challenge);
            let key = spread(seven);
            // One block without an IV is the cipher itself.
            CbcKey::new(Cipher::Des, &key[..]).encrypt(&[0; 8], third);
        }
        response
    }

    /// Whether this response proves the password.
    pub fn is_proven_by(&self, response: &[u8; RESPONSE_LEN], challenges: Challenges<'_>) -> bool {
        is_equal(&self.respond(challenges), response)
    }

    /// What proves the server, which knows the hash too (RFC 2759 §8.7).
    pub fn authenticator(
        &self,
        response: &[u8; RESPONSE_LEN],
        challenges: Challenges<'_>,
    ) -> [u8; 20] {
        let twice = md4(&self.0);
        let first = Hash::Sha1.digest(&[&twice[..], response, SIGNING]);
        let both = Hash::Sha1.digest(&[first.as_ref(), &challenges.hash(), PADDING]);
        both.as_ref().try_into().expect("SHA-1 has 20 octets")
    }

    /// The key of the exchange: what the server receives with, what it sends with, and zeros (RFC
    /// 3079 §3.3, RFC 3748 §7.10).
    pub fn key(&self, response: &[u8; RESPONSE_LEN]) -> Zeroizing<[u8; KEY_LEN]> {
        let twice = md4(&self.0);
        let master = Hash::Sha1.digest(&[&twice[..], response, MASTER]);
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key[..16].copy_from_slice(&half(&master, TO_SERVER).as_ref()[..16]);
        key[16..32].copy_from_slice(&half(&master, TO_PEER).as_ref()[..16]);
        key
    }
}

impl Challenges<'_> {
    /// ChallengeHash (RFC 2759 §8.2).
    fn hash(&self) -> [u8; 8] {
        let digest = Hash::Sha1.digest(&[self.peer, self.server, self.user]);
        digest.as_ref()[..8].try_into().expect("eight octets")
    }
}

/// GetAsymmetricStartKey with 128 bits (RFC 3079 §3.3).
fn half(master: &Digest, direction: &[u8]) -> Digest {
    let master = &master.as_ref()[..16];
    Hash::Sha1.digest(&[master, &[0; 40], direction, &[0xf2; 40]])
}

/// 56 bits as a key of DES, whose octets have seven each and a parity bit that nobody reads.
fn spread(seven: &[u8]) -> Zeroizing<[u8; 8]> {
    let bits = seven
        .iter()
        .fold(0_u64, |sum, it| sum << 8 | u64::from(*it));
    let mut key = Zeroizing::new([0; 8]);
    for (place, octet) in key.iter_mut().enumerate() {
        *octet = (bits >> (49 - 7 * place) << 1) as u8;
    }
    key
}

const SIGNING: &[u8] = b"Magic server to client signing constant";
const PADDING: &[u8] = b"Pad to make it do more than one iteration";
const MASTER: &[u8] = b"This is the MPPE Master Key";
const TO_SERVER: &[u8] =
    b"On the client side, this is the send key; on the server side, it is the \
                           receive key.";
const TO_PEER: &[u8] = b"On the client side, this is the receive key; on the server side, it is \
                         the send key.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    fn of<const N: usize>(text: &str) -> [u8; N] {
        hex(text).try_into().expect("octets")
    }

    /// RFC 1320 appendix A.5.
    #[test]
    fn md4_is_as_published() {
        for (text, hash) in [
            ("", "31d6cfe0d16ae931b73c59d7e0c089c0"),
            ("abc", "a448017aaf21d8525fc10ae87aa6729d"),
            ("message digest", "d9130a8164549fe818874806e1c7014b"),
        ] {
            assert_eq!(md4(text.as_bytes())[..], hex(hash), "{text}");
        }
    }

    /// RFC 2759 §9.2, and RFC 3079 §3.5.3 for the key of what the server sends.
    #[test]
    fn proofs_and_keys_are_as_published() {
        let server = of("5b5d7c7d7b3f2f3e3c2c602132262628");
        let peer = of("21402324255e262a28295f2b3a337c7e");
        let challenges = Challenges {
            server: &server,
            peer: &peer,
            user: b"User",
        };
        assert_eq!(challenges.hash()[..], hex("d02e4386bce91226"));
        let hash = NtHash::of_password("clientPass");
        assert_eq!(hash.octets()[..], hex("44ebba8d5312b8d611474411f56989ae"));
        let response = hash.respond(challenges);
        assert_eq!(
            response[..],
            hex("82309ecd8d708b5ea08faa3981cd83544233114a3d85d6df")
        );
        assert!(hash.is_proven_by(&response, challenges));
        assert_eq!(
            hash.authenticator(&response, challenges)[..],
            hex("407a5589115fd0d6209f510fe9c04566932cda56")
        );
        let key = hash.key(&response);
        assert_eq!(key[16..32], hex("8b7cdc149b993a1ba118cb153f56dccb"));
        assert_eq!(key[32..], [0; 32]);
    }

    #[test]
    fn another_password_name_or_challenge_is_no_proof() {
        let (server, peer, other) = ([1; 16], [2; 16], [3; 16]);
        let of = |server, user| Challenges {
            server,
            peer: &peer,
            user,
        };
        let hash = NtHash::of_password("password");
        let response = hash.respond(of(&server, b"alice"));
        assert!(hash.is_proven_by(&response, of(&server, b"alice")));
        assert!(!hash.is_proven_by(&response, of(&server, b"alic")));
        assert!(!hash.is_proven_by(&response, of(&other, b"alice")));
        let wrong = NtHash::of_password("Password");
        assert!(!wrong.is_proven_by(&response, of(&server, b"alice")));
        assert!(wrong.key(&response) != hash.key(&response));
    }

    #[test]
    fn a_password_is_hashed_as_utf_16() {
        // One character outside the basic plane is two units.
        let hash = NtHash::of_password("p\u{e4}ss\u{1f511}");
        let units = hex("70 00 e4 00 73 00 73 00 3d d8 11 dd");
        assert_eq!(hash.octets()[..], md4(&units)[..]);
    }
}

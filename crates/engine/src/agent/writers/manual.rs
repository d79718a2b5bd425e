//! Keys and SPIs of SAs that no IKE negotiates: both ends derive them from the delivered session
//! key ([`crate::agent::legacy`]) by HKDF.
//!
//! Such an SA is never renewed, has no forward secrecy and no protection against replays
//! (RFC 4303 §3.3.3), and no counter mode, whose keys must be fresh (RFC 4106 §2, RFC 7634 §2).

use std::net::IpAddr;

use crypto::cipher::Cipher;
use crypto::hash::{Hash, HmacKey, expand, extract};
use crypto::packet::Encryption;
use zeroize::Zeroizing;

use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, Side};
use crate::agent::objectives::SecurityOption;
use crate::agent::write_hex;
use crate::suite::EspSuite;

/// What a reader should know of such SAs.
pub(super) const NOTE: &str =
    "keys of the session key: never renewed, not forward secret, no protection against replays";

/// Both directions of both protocols.
pub(super) struct Manual {
    /// Client's address, then Target's.
    ends: [IpAddr; 2],
    side: Side,
    /// ESP, if the option has it.
    pub(super) esp: Option<(EspSuite, Cipher, Hash)>,
    /// AH, if the option has it.
    pub(super) ah: Option<Hash>,
    secret: HmacKey,
}

/// One direction, seen from this end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl Manual {
    /// Of a description; the implementation may lack algorithms.
    pub(super) fn of(
        kind: Kind,
        it: &Description,
        knows_cipher: impl Fn(Cipher) -> bool,
        knows_hash: impl Fn(Hash) -> bool,
    ) -> Result<Self, WriteFault> {
        let needs = |what| WriteFault::Needs { kind, what };
        let Credential::PresharedKey(key) = &it.credential else {
            return Err(needs(
                "a session key, as the paper's form delivers one: it has no IKE",
            ));
        };
        let ends = [&it.local, &it.remote].map(|end| end.addresses.first().copied());
        let [Some(local), Some(remote)] = ends else {
            return Err(needs(
                "the addresses of both ends: it has no IKE to find them",
            ));
        };
        let ends = match it.side {
            Side::Client => [local, remote],
            Side::Target => [remote, local],
        };
        let usable = |suite: &EspSuite| match suite.protection.encryption {
            Encryption::Cbc(cipher) if knows_cipher(cipher) => {
                let hash = words::hash(suite).filter(|hash| knows_hash(*hash))?;
                Some((*suite, cipher, hash))
            }
            _ => None,
        };
        let esp = match it.esp() {
            [] => None,
            suites => Some(words::best(kind, "ESP (CBC with a hash)", suites, usable)?),
        };
        let known = |suite: &EspSuite| words::hash(suite).filter(|hash| knows_hash(*hash));
        let ah = match it.ah() {
            [] => None,
            suites => Some(words::best(kind, "AH", suites, known)?),
        };
        let secret = extract(Hash::Sha256, b"caravan tunnel-agent 1 manual", &key.0);
        Ok(Self {
            ends,
            side: it.side,
            esp,
            ah,
            secret: HmacKey::new(Hash::Sha256, secret.as_ref()),
        })
    }

    /// Source and destination.
    pub(super) fn path(&self, way: Way) -> [IpAddr; 2] {
        let [client, target] = self.ends;
        match self.is_from_client(way) {
            true => [client, target],
            false => [target, client],
        }
    }

    fn is_from_client(&self, way: Way) -> bool {
        (self.side == Side::Client) == (way == Way::Out)
    }

    /// `0x` and hexadecimal digits of this many octets for this use.
    pub(super) fn octets(&self, way: Way, what: &str, len: usize) -> Zeroizing<String> {
        struct Hex<'a>(&'a [u8]);
        impl core::fmt::Display for Hex<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write_hex(self.0, f)
            }
        }
        let from: &[u8] = match self.is_from_client(way) {
            true => b"client ",
            false => b"target ",
        };
        let mut octets = Zeroizing::new(vec![0; len]);
        expand(&self.secret, &[from, what.as_bytes()], &mut octets);
        Zeroizing::new(format!("0x{}", Hex(&octets)))
    }

    /// An SPI. Those below 256 are reserved (RFC 4303 §2.1).
    pub(super) fn spi(&self, way: Way, protocol: &str) -> String {
        let octets = self.octets(way, &format!("{protocol} spi"), 4);
        format!("0xc{}", &octets[3..])
    }
}

/// Whether anything is protected at all.
pub(super) fn is_native(it: &Description) -> bool {
    it.option == SecurityOption::Native
}

/// Octets of an HMAC's key.
pub(super) fn key_len(hash: Hash) -> usize {
    match hash {
        Hash::Md5 => 16,
        Hash::Sha1 => 20,
        Hash::Sha256 => 32,
        Hash::Sha384 => 48,
        Hash::Sha512 => 64,
    }
}

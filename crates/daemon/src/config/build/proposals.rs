//! Which version of IKE a connection speaks, and with which proposals.

use engine::config::{Connection, Version};
use engine::suite::{EspSuite, IkeSuite, Ikev2Suite};

use super::super::ConfigError;
use super::super::file::{ChildTable, ConnectionTable};
use super::{Builder, ours};

/// Proposals of a connection that names none. strongSwan's default comes first; peers that do not
/// know its group skip its transform.
const DEFAULT_IKE: [&str; 3] = [
    "aes128-sha256-curve25519",
    "aes128-sha256-modp2048",
    "aes256-sha256-modp3072",
];
/// Proposals of a connection of IKEv2 that names none (RFC 8247 §2). First with ML-KEM after
/// X25519: either of them protects the keys if the other one is broken. Peers that do not know it
/// skip these two. Ciphers with their own integrity come first; the last two are what older
/// gateways accept.
pub(super) const DEFAULT_IKEV2: [&str; 9] = [
    "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
    "aes128gcm16-prfsha256-curve25519-ke1_mlkem768",
    "aes128gcm16-prfsha256-curve25519",
    "aes256gcm16-prfsha384-ecp384",
    "chacha20poly1305-prfsha256-curve25519",
    "aes128gcm16-prfsha256-ecp256",
    "aes128-sha256-curve25519",
    "aes128-sha256-modp2048",
    "aes256-sha256-modp3072",
];
/// In aggressive mode a client offers only the group of its first suite, which must be one with a
/// number in IKEv1. A gateway accepts all of them.
const DEFAULT_IKE_AGGRESSIVE: [&str; 3] = [
    "aes128-sha256-modp2048",
    "aes256-sha256-modp3072",
    "aes128-sha256-curve25519",
];

/// Lets children that name no proposals prefer 64-bit sequence numbers in IKEv2, where they cost no
/// proposal: then a fast tunnel is not renewed for its numbers. They need a replay window (RFC 4303
/// §3.4.3).
pub(super) fn with_long_numbers(connection: &mut Connection, table: &ConnectionTable) {
    if connection.version == Version::V1 {
        return;
    }
    for child in &mut connection.children {
        let named = table.children.get(&child.name);
        let has_window = child.replay_window != 0;
        if has_window && named.is_some_and(ChildTable::names_no_proposals) {
            let both = |suite: EspSuite| {
                let long = EspSuite {
                    has_esn: true,
                    ..suite
                };
                [long, suite]
            };
            child.proposals = child.proposals.iter().copied().flat_map(both).collect();
        }
    }
}

impl Builder<'_> {
    pub(super) fn version(
        &self,
        key: &str,
        table: &ConnectionTable,
    ) -> Result<Version, ConfigError> {
        match table.version {
            1 => Ok(Version::V1),
            2 if table.aggressive => Err(self.value(
                key,
                "2 is the default, and aggressive mode is IKEv1's: add version = 1, or remove \
                 aggressive",
            )),
            2 => Ok(Version::V2),
            0 => Ok(Version::Either),
            _ => Err(self.value(key, "1 is IKEv1, 2 is IKEv2, 0 takes either from a client")),
        }
    }

    /// The proposals of each version. With both, a word belongs to every version that reads it.
    pub(super) fn proposals(
        &self,
        key: &str,
        table: &ConnectionTable,
        version: Version,
    ) -> Result<(Vec<IkeSuite>, Vec<Ikev2Suite>), ConfigError> {
        let words = &table.proposals;
        match (version, words.is_empty()) {
            (Version::V1, true) if table.aggressive => {
                Ok((ours(DEFAULT_IKE_AGGRESSIVE), Vec::new()))
            }
            (Version::V1, true) => Ok((ours(DEFAULT_IKE), Vec::new())),
            (Version::V1, false) => Ok((self.words(key, words)?, Vec::new())),
            (Version::V2, true) => Ok((Vec::new(), ours(DEFAULT_IKEV2))),
            (Version::V2, false) => {
                let is_v1 = |it: &&String| {
                    it.parse::<Ikev2Suite>().is_err() && it.parse::<IkeSuite>().is_ok()
                };
                if let Some(word) = words.iter().find(is_v1) {
                    let text = format!(
                        "{word} is a proposal of IKEv1: add version = 1, or name one of IKEv2, \
                         such as {}",
                        DEFAULT_IKEV2[0]
                    );
                    return Err(self.value(key, &text));
                }
                Ok((Vec::new(), self.words(key, words)?))
            }
            (Version::Either, true) => Ok((ours(DEFAULT_IKE), ours(DEFAULT_IKEV2))),
            (Version::Either, false) => {
                let (mut first, mut second) = (Vec::new(), Vec::new());
                for word in words {
                    let read = (word.parse::<IkeSuite>(), word.parse::<Ikev2Suite>());
                    if let (Err(_), Err(fault)) = &read {
                        return Err(self.value(key, &fault.to_string()));
                    }
                    first.extend(read.0);
                    second.extend(read.1);
                }
                Ok((first, second))
            }
        }
    }
}

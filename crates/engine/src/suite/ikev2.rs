//! Suites of an IKE SA of IKEv2. Unlike IKEv1, the prf is a choice of its own, and a cipher may
//! bring its own integrity (RFC 5282, RFC 7634).

use core::fmt;
use core::str::FromStr;

use crypto::hash::Hash;
use crypto::key_exchange::Method;
use crypto::packet::{Encryption, Integrity, Protection};

use super::additional::{self, Additional};
use super::standing::ikev2_cipher_reason;
use super::words;
use super::{Advice, Found, Reason, Standing, SuiteFault};

/// A suite of an IKE SA of IKEv2, such as `aes128gcm16-prfsha256-curve25519`, or with an additional
/// key exchange `aes256gcm16-prfsha384-curve25519-ke1_mlkem768`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ikev2Suite {
    /// Encryption and integrity of messages.
    pub protection: Protection,
    /// The hash of the prf.
    pub prf: Hash,
    /// Key exchange.
    pub method: Method,
    /// Key exchanges after it (RFC 9370).
    pub additional: Additional,
}

impl Ikev2Suite {
    /// Whether a quantum computer that breaks Diffie-Hellman does not break its key exchange.
    pub fn is_post_quantum(&self) -> bool {
        self.method.is_kem() || self.additional.methods().any(Method::is_kem)
    }

    /// Current, or legacy if [`Self::legacy_reasons`] is not empty.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.legacy_reasons())
    }

    /// Why the suite is legacy; empty for a current suite.
    pub fn legacy_reasons(&self) -> Vec<Reason> {
        let is_md5 =
            self.prf == Hash::Md5 || self.protection.integrity == Integrity::Hmac(Hash::Md5);
        let reasons = [
            ikev2_cipher_reason(self.protection.encryption),
            is_md5.then_some(Reason::new("MD5", Advice::MustNot, "RFC 8247 §2.2")),
        ];
        reasons.into_iter().flatten().collect()
    }
}

impl FromStr for Ikev2Suite {
    type Err = SuiteFault;

    /// Without a word for the prf, it uses the hash of the integrity.
    fn from_str(proposal: &str) -> Result<Self, SuiteFault> {
        let (additional, bare) = additional::read(proposal)?;
        let found = Found::read(proposal, &bare, &words::IKEV2)?;
        let missing = |what, example: &str| SuiteFault::Missing {
            proposal: proposal.into(),
            what,
            example: example.into(),
        };
        let encryption = found.encryption(proposal)?;
        let prf = match (found.prf, found.integrity) {
            (Some(prf), _) | (None, Integrity::Hmac(prf)) => prf,
            (None, Integrity::None) => {
                return Err(missing("a prf", "aes128gcm16-prfsha256-curve25519"));
            }
        };
        if found.integrity == Integrity::None && !is_aead(encryption) {
            return Err(missing("a hash", "aes128-sha256-curve25519"));
        }
        let method = found
            .method
            .ok_or_else(|| missing("a group", "aes128-sha256-curve25519"))?;
        check_methods(proposal, method, &additional)?;
        Ok(Self {
            protection: Protection {
                encryption,
                integrity: found.integrity,
            },
            prf,
            method,
            additional,
        })
    }
}

/// The largest method has no place in IKE_SA_INIT, whose messages cannot be split
/// (draft-ietf-ipsecme-ikev2-mlkem-09).
fn check_methods(proposal: &str, first: Method, more: &Additional) -> Result<(), SuiteFault> {
    if first == Method::MlKem1024 {
        return Err(SuiteFault::Contradiction {
            proposal: proposal.into(),
            why: "mlkem1024 is too large for the first message: put it after another method, as \
                  ke1_mlkem1024",
        });
    }
    additional::check(proposal, first, more)
}

const fn is_aead(encryption: Encryption) -> bool {
    matches!(
        encryption,
        Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305
    )
}

impl fmt::Display for Ikev2Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", words::of_encryption(self.protection.encryption))?;
        let hash = match self.protection.integrity {
            Integrity::Hmac(hash) => {
                write!(f, "-{}", words::of_hash(hash))?;
                Some(hash)
            }
            Integrity::None => None,
        };
        if hash != Some(self.prf) {
            write!(f, "-prf{}", words::of_hash(self.prf))?;
        }
        write!(f, "-{}{}", words::of_method(self.method), self.additional)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_back() {
        for words in [
            "aes128gcm16-prfsha256-curve25519",
            "aes256gcm16-prfsha384-modp4096",
            "chacha20poly1305-prfsha512-modp2048",
            "aes128-sha256-modp2048",
            "aes256-sha512-prfsha256-modp3072",
            "3des-sha1-ecp256",
            "aes256gcm16-prfsha384-mlkem768",
            "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
            "aes256-sha384-ecp384-ke2_mlkem1024-ke7_curve25519",
        ] {
            let suite: Ikev2Suite = words.parse().expect(words);
            assert_eq!(suite.to_string(), words);
        }
    }

    #[test]
    fn what_is_missing_or_contradicts_is_named() {
        let fault = |words: &str| words.parse::<Ikev2Suite>().unwrap_err().to_string();
        assert!(fault("aes128gcm16-curve25519").contains("a prf is missing"));
        assert!(fault("aes128-prfsha256-curve25519").contains("a hash is missing"));
        assert!(fault("aes128gcm16-prfsha256").contains("a group is missing"));
        assert!(fault("null-sha256-curve25519").contains("no algorithm is called \"null\""));
        assert!(fault("aes128gcm16-sha256-curve25519").contains("brings its own integrity"));
        assert!(fault("aes128gcm16-prfsha256-prfsha1-modp2048").contains("second prf"));
    }

    #[test]
    fn additional_key_exchanges_are_read_in_any_order_and_each_once() {
        let read = |words: &str| words.parse::<Ikev2Suite>();
        let suite = read("ke1_mlkem768-aes256gcm16-prfsha384-x25519").unwrap();
        assert_eq!(
            suite.to_string(),
            "aes256gcm16-prfsha384-curve25519-ke1_mlkem768"
        );
        assert!(suite.is_post_quantum());
        assert!(
            read("aes128gcm16-prfsha256-mlkem768")
                .unwrap()
                .is_post_quantum()
        );
        assert!(
            !read("aes128gcm16-prfsha256-curve25519-ke1_ecp256")
                .unwrap()
                .is_post_quantum()
        );
        let fault = |more: &str| {
            let words = format!("aes256gcm16-prfsha384-{more}");
            read(&words).unwrap_err().to_string()
        };
        assert!(fault("curve25519-ke1_mlkem76").contains("the nearest is \"mlkem768\""));
        assert!(fault("curve25519-ke8_mlkem768").contains("no algorithm is called"));
        assert!(fault("curve25519-ke1_mlkem768-ke1_ecp256").contains("second key exchange"));
        assert!(fault("curve25519-ke1_x25519").contains("adds nothing"));
        assert!(fault("curve25519-ke1_mlkem768-ke2_mlkem768").contains("adds nothing"));
        assert!(fault("mlkem1024").contains("ke1_mlkem1024"));
        assert!(fault("ke1_mlkem768").contains("a group is missing"));
    }

    #[test]
    fn rfc_8247_names_what_is_legacy() {
        let legacy = |words: &str| words.parse::<Ikev2Suite>().unwrap().legacy_reasons().len();
        assert_eq!(legacy("aes128gcm16-prfsha256-curve25519"), 0);
        assert_eq!(legacy("aes256-sha1-modp2048"), 0);
        assert_eq!(legacy("3des-md5-modp2048"), 2);
    }
}

//! Message bodies under CBC and the HASH payload of phase 2 (RFC 2409 §5.5, §5.7, appendix B).
//!
//! Each exchange has its own [`Iv`]. It advances only after a message has proven itself, so that a
//! forged one does no harm. Padding is zeros up to the block, and none if the body fits. Octets
//! after the last payload of a received body are ignored.

use crypto::cipher::{CbcKey, Cipher};
use crypto::hash::{Digest, is_equal};
use wire::isakmp::{Exchange, Flags, Header, Located, Payload, payloads, write_payloads};
use zeroize::{Zeroize, Zeroizing};

use super::IsakmpSa;
use super::message::Message;
use crate::counters::DropReason;
use crate::work::{Task, Work};

/// The largest CBC block.
const MAX_BLOCK: usize = 16;

/// The CBC state of one exchange: the last block sent in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iv {
    octets: [u8; MAX_BLOCK],
    len: u8,
}

/// A decrypted message.
pub struct Opened {
    /// Its header.
    pub header: Header,
    /// Its decrypted body, padding included.
    pub body: Zeroizing<Vec<u8>>,
    /// The position of each payload in `body`.
    pub payloads: Vec<Located>,
    /// The IV for the exchange's next message, once this one is accepted.
    pub next_iv: Iv,
}

impl Drop for Opened {
    fn drop(&mut self) {
        wipe(self.payloads.iter_mut().map(|located| &mut located.payload));
    }
}

impl Opened {
    /// The octets of a payload's body without its generic header, as hashes need them.
    pub fn content(&self, located: &Located) -> &[u8] {
        &self.body[located.range.start + 4..located.range.end]
    }

    /// The octets after the first payload up to the end of the chain, without padding.
    pub(super) fn after_first(&self) -> &[u8] {
        let start = self.payloads.first().map_or(0, |first| first.range.end);
        let end = self.payloads.last().map_or(0, |last| last.range.end);
        &self.body[start..end]
    }
}

impl Iv {
    /// The first octets of `octets`, one block of `cipher`; there must be enough.
    pub fn truncated(cipher: Cipher, octets: &[u8]) -> Self {
        let len = cipher.block_len();
        let mut block = [0; MAX_BLOCK];
        block[..len].copy_from_slice(&octets[..len]);
        Self {
            octets: block,
            len: len as u8,
        }
    }

    /// The last block of ciphertext.
    fn last_block(cipher: Cipher, ciphertext: &[u8]) -> Self {
        Self::truncated(cipher, &ciphertext[ciphertext.len() - cipher.block_len()..])
    }
}

impl AsRef<[u8]> for Iv {
    fn as_ref(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

/// Encrypts a chain of payloads and advances `iv`. Sets the header's encryption flag and first
/// payload.
pub(super) fn encrypt(
    cipher: Cipher,
    key: &[u8],
    header: Header,
    chain: &[Payload],
    iv: &mut Iv,
    work: &mut Work,
) -> Vec<u8> {
    let (next_payload, mut body) = write_payloads(chain);
    body.resize(body.len().next_multiple_of(cipher.block_len()), 0);
    CbcKey::new(cipher, key).encrypt(iv.as_ref(), &mut body);
    work.count(Task::MessageCipher(cipher), body.len() as u64);
    if !body.is_empty() {
        *iv = Iv::last_block(cipher, &body);
    }
    Header {
        next_payload,
        flags: Flags(header.flags.0 | Flags::ENCRYPTION.0),
        ..header
    }
    .write(&body)
}

/// Decrypts a message. Success only means that its payload chain is well formed.
pub(super) fn decrypt(
    cipher: Cipher,
    key: &[u8],
    message: &Message<'_>,
    iv: &Iv,
    work: &mut Work,
) -> Result<Opened, DropReason> {
    let (header, ciphertext) = (*message.header(), message.body());
    if !header.flags.is_encrypted() {
        return Err(DropReason::UnexpectedMessage);
    }
    if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(cipher.block_len()) {
        return Err(DropReason::UndecryptableMessage);
    }
    let mut body = Zeroizing::new(ciphertext.to_vec());
    CbcKey::new(cipher, key).decrypt(iv.as_ref(), &mut body);
    work.count(Task::MessageCipher(cipher), body.len() as u64);
    let located =
        payloads(header.next_payload, &body).map_err(|_| DropReason::UndecryptableMessage)?;
    Ok(Opened {
        header,
        payloads: located,
        next_iv: Iv::last_block(cipher, ciphertext),
        body,
    })
}

/// Wipes the nonces, which are secret in phase 2.
fn wipe<'a>(chain: impl Iterator<Item = &'a mut Payload>) {
    for payload in chain {
        if let Payload::Nonce(nonce) = payload {
            nonce.zeroize();
        }
    }
}

impl IsakmpSa {
    /// The IV of a phase 2 exchange's first message: hash of phase 1's last block and the
    /// message ID (RFC 2409 appendix B).
    pub fn first_iv(&self, message_id: u32) -> Iv {
        let digest = self
            .suite
            .hash
            .digest(&[&self.last_iv, &message_id.to_be_bytes()]);
        Iv::truncated(self.suite.cipher, digest.as_ref())
    }

    /// The prf with key SKEYID_a over the parts, one after the other.
    pub fn hash_over(&self, parts: &[&[u8]]) -> Digest {
        self.suite.hash.hmac(&self.skeyid_a.0, parts)
    }

    /// Encrypts payloads, including a HASH payload if there is one. Advances `iv`.
    pub fn seal(
        &self,
        exchange: Exchange,
        message_id: u32,
        iv: &mut Iv,
        chain: &[Payload],
        work: &mut Work,
    ) -> Vec<u8> {
        let header = Header {
            cookies: self.cookies,
            next_payload: wire::isakmp::PayloadKind::None,
            exchange,
            flags: Flags::default(),
            message_id,
        };
        encrypt(
            self.suite.cipher,
            &self.cipher_key.0,
            header,
            chain,
            iv,
            work,
        )
    }

    /// Encrypts payloads with a HASH payload over `prefix` and everything after the HASH. `prefix`
    /// is everything that the rule puts first: M-ID for HASH(1) and informational messages, M-ID
    /// and Ni_b for HASH(2), an octet 0, M-ID, Ni_b and Nr_b (and no payloads) for HASH(3).
    pub fn seal_hashed(
        &self,
        exchange: Exchange,
        message_id: u32,
        iv: &mut Iv,
        prefix: &[&[u8]],
        chain: Vec<Payload>,
        work: &mut Work,
    ) -> Vec<u8> {
        let rest = Zeroizing::new(write_payloads(&chain).1);
        let hash = self.prefixed_hash(prefix, &rest, work);
        let mut all = Vec::with_capacity(chain.len() + 1);
        all.push(Payload::Hash(hash.as_ref().to_vec()));
        all.extend(chain);
        let message = self.seal(exchange, message_id, iv, &all, work);
        wipe(all.iter_mut());
        message
    }

    /// Decrypts a message and checks only its form. `iv` does not change: use [`Opened::next_iv`]
    /// when the message is accepted.
    pub fn open(
        &self,
        message: &Message<'_>,
        iv: &Iv,
        work: &mut Work,
    ) -> Result<Opened, DropReason> {
        let opened = decrypt(self.suite.cipher, &self.cipher_key.0, message, iv, work)?;
        if opened.header.cookies == self.cookies {
            Ok(opened)
        } else {
            Err(DropReason::UnknownCookies)
        }
    }

    /// Decrypts a message and checks its HASH payload, which must come first, in constant time;
    /// `prefix` as in [`Self::seal_hashed`]. Advances `iv` only if the hash is right.
    pub fn open_hashed(
        &self,
        message: &Message<'_>,
        iv: &mut Iv,
        prefix: &[&[u8]],
        work: &mut Work,
    ) -> Result<Opened, DropReason> {
        let opened = self.open(message, iv, work)?;
        let is_right = match opened.payloads.first().map(|first| &first.payload) {
            Some(Payload::Hash(hash)) => {
                let expected = self.prefixed_hash(prefix, opened.after_first(), work);
                is_equal(hash, expected.as_ref())
            }
            _ => false,
        };
        if !is_right {
            return Err(DropReason::BadHash);
        }
        *iv = opened.next_iv;
        Ok(opened)
    }

    fn prefixed_hash(&self, prefix: &[&[u8]], rest: &[u8], work: &mut Work) -> Digest {
        let mut parts = prefix.to_vec();
        parts.push(rest);
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        work.count(Task::Prf(self.suite.hash), bytes as u64);
        self.hash_over(&parts)
    }
}

//! Phase 2 of a peer that holds keys: it protects any payloads of an input with a correct HASH (RFC
//! 2409 §5.5), and follows exchanges that the other end starts.

use std::collections::BTreeMap;

use crypto::cipher::{CbcKey, Cipher};
use engine::ikev1::IsakmpSa;
use engine::ikev1::message::Message;
use engine::ikev1::protect::{Iv, Opened};
use engine::work::Work;
use wire::isakmp::{Exchange, Flags, Header, Payload, PayloadKind, payloads};

use crate::script::Sealed;

/// The cipher of every suite here.
pub const CIPHER: Cipher = Cipher::Aes128;
/// The message ID that stands for the latest exchange of the other end.
pub const THEIRS: u8 = 255;

/// The exchanges of one ISAKMP SA.
#[derive(Default)]
pub struct Phase2 {
    exchanges: BTreeMap<u32, Under>,
    theirs: u32,
}

/// An exchange of phase 2.
struct Under {
    iv: Iv,
    is_theirs: bool,
    nonce_i: Vec<u8>,
    nonce_r: Vec<u8>,
}

impl Phase2 {
    /// A message of phase 2.
    pub fn seal(
        &mut self,
        sa: &IsakmpSa,
        exchange: u8,
        id: u8,
        sealed: &Sealed,
    ) -> Option<Vec<u8>> {
        let (flags, first, chain) = (sealed.flags, sealed.first, &sealed.chain[..]);
        let number = match id {
            THEIRS => self.theirs,
            id => u32::from(id) * 0x0101_0101,
        };
        let iv = sa.first_iv(number);
        let under = self.exchanges.entry(number).or_insert_with(|| Under {
            iv,
            is_theirs: false,
            nonce_i: Vec::new(),
            nonce_r: Vec::new(),
        });
        let found = payloads(PayloadKind::from(first), chain).unwrap_or_default();
        let end = found.last().map_or(chain.len(), |last| last.range.end);
        let nonce = found.iter().find_map(|found| match &found.payload {
            Payload::Nonce(nonce) => Some(nonce.clone()),
            _ => None,
        });
        let octets = number.to_be_bytes();
        let is_third = !under.is_theirs && !under.nonce_r.is_empty();
        let prefix: Vec<&[u8]> = match under.is_theirs {
            true => vec![&octets, &under.nonce_i],
            false if is_third => vec![&[0], &octets, &under.nonce_i, &under.nonce_r],
            false => vec![&octets],
        };
        let mut parts = prefix.clone();
        parts.push(&chain[..end]);
        let mut hash = sa.hash_over(&parts).as_ref().to_vec();
        hash[0] ^= flags & 1;
        if let (Some(nonce), false, false) = (nonce, under.is_theirs, is_third) {
            under.nonce_i = nonce;
        }
        let iv = under.iv;
        let len = u16::try_from(4 + hash.len()).expect("short").to_be_bytes();
        let body = [&[first, 0][..], &len, &hash, chain].concat();
        let exchange = Exchange::from(exchange);
        let header = Header {
            cookies: sa.cookies,
            next_payload: PayloadKind::Hash,
            exchange,
            flags: Flags::default(),
            message_id: number,
        };
        let message = seal(sa, header, &iv, body)?;
        if let Some(under) = self.exchanges.get_mut(&number) {
            under.iv = Iv::truncated(CIPHER, &last_block(&message));
        }
        Some(message)
    }

    /// A message of ours that somebody else encrypted. The next one continues from its last block.
    pub fn follow(&mut self, header: &Header, message: &[u8]) {
        if let Some(under) = self.exchanges.get_mut(&header.message_id) {
            under.iv = Iv::truncated(CIPHER, &last_block(message));
        }
    }

    /// An encrypted message of the other end.
    pub fn read(&mut self, sa: &IsakmpSa, header: &Header, message: &[u8]) -> Option<()> {
        let number = header.message_id;
        let is_new = !self.exchanges.contains_key(&number);
        let iv = match self.exchanges.get(&number) {
            Some(under) => under.iv,
            None => sa.first_iv(number),
        };
        let message = Message::parse(message).ok()?;
        let opened = sa.open(&message, &iv, &mut Work::default()).ok()?;
        let nonce = nonce_of(&opened);
        let under = self.exchanges.entry(number).or_insert_with(|| Under {
            iv,
            is_theirs: true,
            nonce_i: Vec::new(),
            nonce_r: Vec::new(),
        });
        under.iv = opened.next_iv;
        match (nonce, under.is_theirs) {
            (Some(nonce), true) => under.nonce_i = nonce,
            (Some(nonce), false) => under.nonce_r = nonce,
            (None, _) => {}
        }
        if is_new {
            self.theirs = number;
        }
        Some(())
    }
}

/// Pads and encrypts.
pub fn seal(sa: &IsakmpSa, header: Header, iv: &Iv, mut body: Vec<u8>) -> Option<Vec<u8>> {
    body.resize(body.len().next_multiple_of(CIPHER.block_len()), 0);
    if body.is_empty() {
        return None;
    }
    CbcKey::new(CIPHER, &sa.cipher_key.0).encrypt(iv.as_ref(), &mut body);
    let flags = Flags::ENCRYPTION;
    Some(Header { flags, ..header }.write(&body))
}

fn nonce_of(opened: &Opened) -> Option<Vec<u8>> {
    opened
        .payloads
        .iter()
        .find_map(|found| match &found.payload {
            Payload::Nonce(nonce) => Some(nonce.clone()),
            _ => None,
        })
}

/// The last ciphertext block of a sealed message.
pub fn last_block(message: &[u8]) -> Vec<u8> {
    message[message.len() - CIPHER.block_len()..].to_vec()
}

//! Sealing and signing. Who signs says to whom and for which use, so that no message can be opened,
//! forwarded or taken for another elsewhere; the signature is inside of what is sealed.
//!
//! The signature covers the use, the label, the receiver's sealing key and the body. The seal
//! is HPKE in base mode; its `info` is the use, its additional data the label.

use crypto::ed25519::{SIGNATURE_LEN, Signature, SigningKey, VerifyKey};
use crypto::hpke::{Aead, PublicKey, Sealed as Ciphertext, SecretKey};
use crypto::rand::Stream;
use wire::agent::{Kind, Proof, Sealed};
use zeroize::Zeroizing;

use super::Digest;
use super::identity::digest;

/// Every machine has it in software in constant time.
const AEAD: Aead = Aead::ChaCha20Poly1305;

/// What a signed body is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A message.
    Message(Kind),
    /// Target's part, within an authorization and a response.
    Part,
}

/// An opened message, whose signature is not checked yet.
pub struct Opened {
    /// The body.
    pub body: Zeroizing<Vec<u8>>,
    /// The signature that ends it.
    pub signature: Signature,
}

/// Why a message is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOpened;

impl Use {
    /// Each differs from every other, and none begins another.
    const fn context(self) -> &'static [u8] {
        match self {
            Self::Message(Kind::Request) => b"caravan tunnel-agent 3 request\0",
            Self::Message(Kind::Referral) => b"caravan tunnel-agent 3 referral\0",
            Self::Message(Kind::Authorization) => b"caravan tunnel-agent 3 authorization\0",
            Self::Message(Kind::Response) => b"caravan tunnel-agent 3 response\0",
            Self::Message(Kind::Inquiry) => b"caravan tunnel-agent 3 inquiry\0",
            Self::Message(Kind::Offer) => b"caravan tunnel-agent 3 offer\0",
            Self::Part => b"caravan tunnel-agent 3 part\0",
        }
    }
}

/// What a signature covers.
pub fn signed_octets(what: Use, label: &[u8; 16], to: PublicKey, body: &[u8]) -> Vec<u8> {
    [what.context(), label, &to.0, body].concat()
}

/// Names a request: SHA-256 over its body and its signature.
pub fn request_digest(body: &[u8], signature: &Signature) -> Digest {
    digest(&[body, &signature.0])
}

/// Seals a body that is signed already. The receiver's key is of a peer that we know or has been
/// checked; of low order it would open for everybody, so then nothing is sealed.
pub fn seal_signed(
    what: Use,
    label: [u8; 16],
    to: PublicKey,
    (body, signature): (&[u8], &Signature),
    random: &mut Stream,
) -> Option<([u8; 32], Vec<u8>)> {
    let mut clear = Zeroizing::new(Vec::with_capacity(body.len() + SIGNATURE_LEN));
    clear.extend_from_slice(body);
    clear.extend_from_slice(&signature.0);
    let sealed = to.seal(AEAD, &clear, what.context(), &label, random).ok()?;
    Some((sealed.encapsulated, sealed.ciphertext))
}

/// Signs and seals a message.
pub fn seal(
    kind: Kind,
    label: [u8; 16],
    to: PublicKey,
    body: &[u8],
    by: &SigningKey,
    random: &mut Stream,
) -> Option<Sealed> {
    let what = Use::Message(kind);
    let signature = by.sign(&[&signed_octets(what, &label, to, body)]);
    let (encapsulated, ciphertext) = seal_signed(what, label, to, (body, &signature), random)?;
    Some(Sealed {
        kind,
        cookie: None,
        label,
        proof: Proof::default(),
        encapsulated,
        ciphertext,
    })
}

/// Opens a message.
pub fn open(sealed: &Sealed, with: &SecretKey) -> Result<Opened, NotOpened> {
    let what = Use::Message(sealed.kind);
    let ciphertext = (sealed.encapsulated, &sealed.ciphertext[..]);
    open_part(what, &sealed.label, ciphertext, with)
}

/// Opens what [`seal_signed`] has sealed.
pub fn open_part(
    what: Use,
    label: &[u8; 16],
    (encapsulated, ciphertext): ([u8; 32], &[u8]),
    with: &SecretKey,
) -> Result<Opened, NotOpened> {
    let sealed = Ciphertext {
        encapsulated,
        ciphertext: ciphertext.to_vec(),
    };
    let clear = with.open(AEAD, &sealed, what.context(), label);
    let mut body = clear.map_err(|_| NotOpened)?;
    let at = body.len().checked_sub(SIGNATURE_LEN).ok_or(NotOpened)?;
    let signature = Signature(body[at..].try_into().map_err(|_| NotOpened)?);
    body.truncate(at);
    Ok(Opened { body, signature })
}

impl Opened {
    /// Whether `by` has signed it for this use, label and receiver.
    pub fn is_by(&self, by: VerifyKey, what: Use, label: &[u8; 16], to: PublicKey) -> bool {
        let octets = signed_octets(what, label, to, &self.body);
        by.verify(&[&octets], &self.signature).is_ok()
    }
}

//! Messages of tunnel agents: Client, Host and Target set a tunnel up by a key that works once.
//! Formats are Caravan's own; `docs/design/agents.md` describes them. Field names are those of the
//! paper on dynamic configuration of secured tunnels.
//!
//! A [`Message`] is what travels. All but [`Retry`] are sealed; the bodies below are what is
//! inside, before the signature of 64 octets that ends it. Left out: sealing and signatures (the
//! engine's), and what a body means.

mod body;
mod tunneling;

pub use body::{
    Authorization, Fate, Fresh, Inquiry, Offer, Ppk, Referral, Request, Response, Verdict,
};
pub use tunneling::{Network, Tunneling};

use crate::codec::{Malformed, Reader, Writer};

/// The UDP port of Host and Target, of the dynamic range: none is assigned.
pub const PORT: u16 = 51_516;
/// Octets of a message.
pub const MESSAGE_MAX: usize = 16_384;
/// Octets of a handle, of a Request ID, and of the start of a fingerprint that names an agent.
pub const LABEL_LEN: usize = 16;
/// Octets of a cookie.
pub const COOKIE_LEN: usize = 16;
/// Octets of a key, a fingerprint or a digest.
pub const KEY_LEN: usize = 32;
/// Octets of a signature.
pub const SIGNATURE_LEN: usize = 64;
/// Octets of a User ID.
pub const USER_ID_MAX: usize = 64;
/// Octets of a public key for the tunnel: RSA of 8,192 bits has fewer.
pub const TUNNEL_KEY_MAX: usize = 1_100;

/// Octets of what proves a message of Host or Target to the other, before it is opened.
pub const MAC_LEN: usize = 16;

/// "CTA" and the version.
const START: [u8; 4] = *b"CTA\x03";
const RETRY: u8 = 2;

/// What is sealed in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Client to Host, steps 1 and 2.
    Request,
    /// Host to Target, step 3.
    Referral,
    /// Target to Host, step 6.
    Authorization,
    /// Host to Client, steps 7 and 8.
    Response,
    /// Host to Target: which options are there?
    Inquiry,
    /// Target to Host: these.
    Offer,
}

/// What travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Kinds 1 and 3 to 7.
    Sealed(Sealed),
    /// Kind 2.
    Retry(Retry),
}

/// A sealed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// What it is.
    pub kind: Kind,
    /// Of a request that repeats a [`Retry`].
    pub cookie: Option<[u8; COOKIE_LEN]>,
    /// By what its receiver finds the key: the handle of a request, the Request ID of a response,
    /// the sender's name otherwise.
    pub label: [u8; LABEL_LEN],
    /// Of messages between Host and Target alone ([`Kind::is_between_agents`]).
    pub proof: Proof,
    /// The encapsulated key (RFC 9180 §4.1).
    pub encapsulated: [u8; KEY_LEN],
    /// The ciphertext.
    pub ciphertext: Vec<u8>,
}

/// Shows that a message is fresh and of somebody whom its receiver knows, for less work than its
/// seal and its signature are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proof {
    /// When it was sent, milliseconds since 1970.
    pub time_ms: u64,
    /// The start of an HMAC over all of the message but itself.
    pub mac: [u8; MAC_LEN],
}

/// Host is busy: the same request again, with this cookie. It is shorter than any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The handle of the request.
    pub label: [u8; LABEL_LEN],
    /// What the next request must have.
    pub cookie: [u8; COOKIE_LEN],
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Request,
        Self::Referral,
        Self::Authorization,
        Self::Response,
        Self::Inquiry,
        Self::Offer,
    ];

    /// Whether Host and Target say it to each other. The others are Client's, whom nobody knows.
    pub const fn is_between_agents(self) -> bool {
        !matches!(self, Self::Request | Self::Response)
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Referral => 3,
            Self::Authorization => 4,
            Self::Response => 5,
            Self::Inquiry => 6,
            Self::Offer => 7,
        }
    }
}

impl Message {
    /// Reads a message.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        if octets.len() > MESSAGE_MAX {
            return Err(Malformed::TooMany("octets of an agent's message"));
        }
        let mut r = Reader::new(octets);
        if r.array("start of an agent's message")? != START {
            return Err(Malformed::Value("start of an agent's message"));
        }
        let number = r.u8("kind of message")?;
        if number == RETRY {
            let label = r.array("handle")?;
            let cookie = r.array("cookie")?;
            r.finish("retry")?;
            return Ok(Self::Retry(Retry { label, cookie }));
        }
        let mut kinds = Kind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.number() == number);
        let kind = kind.ok_or(Malformed::Value("kind of message"))?;
        let cookie = match (kind, r.u8("length of a cookie")?) {
            (_, 0) => None,
            (Kind::Request, len) if usize::from(len) == COOKIE_LEN => Some(r.array("cookie")?),
            _ => return Err(Malformed::Value("length of a cookie")),
        };
        let label = r.array("label")?;
        let proof = match kind.is_between_agents() {
            true => Proof {
                time_ms: r.u64("time of a message")?,
                mac: r.array("proof of a message")?,
            },
            false => Proof::default(),
        };
        let encapsulated = r.array("encapsulated key")?;
        let ciphertext = r.rest().to_vec();
        if ciphertext.is_empty() {
            return Err(Malformed::Truncated("ciphertext"));
        }
        Ok(Self::Sealed(Sealed {
            kind,
            cookie,
            label,
            proof,
            encapsulated,
            ciphertext,
        }))
    }
}

impl Sealed {
    /// The octets of the message.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&START);
        w.u8(self.kind.number());
        match self.cookie {
            Some(cookie) => {
                w.u8(COOKIE_LEN as u8);
                w.bytes(&cookie);
            }
            None => w.u8(0),
        }
        w.bytes(&self.label);
        if self.kind.is_between_agents() {
            w.u64(self.proof.time_ms);
            w.bytes(&self.proof.mac);
        }
        w.bytes(&self.encapsulated);
        w.bytes(&self.ciphertext);
        w.into_vec()
    }
}

impl Retry {
    /// The octets of the message.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&START);
        w.u8(RETRY);
        w.bytes(&self.label);
        w.bytes(&self.cookie);
        w.into_vec()
    }
}

/// Octets behind a length of two octets, `max` at most.
fn long<'a>(r: &mut Reader<'a>, max: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
    let len = usize::from(r.u16(what)?);
    if len > max {
        return Err(Malformed::TooMany(what));
    }
    r.take(len, what)
}

fn write_long(w: &mut Writer, octets: &[u8]) {
    w.u16(u16::try_from(octets.len()).expect("within its limit"));
    w.bytes(octets);
}

/// Printable text behind a length of one octet, `max` at most.
fn text(r: &mut Reader<'_>, max: usize, what: &'static str) -> Result<String, Malformed> {
    let len = usize::from(r.u8(what)?);
    if len > max {
        return Err(Malformed::TooMany(what));
    }
    let text = core::str::from_utf8(r.take(len, what)?).map_err(|_| Malformed::Value(what))?;
    match is_text(text) {
        true => Ok(text.to_owned()),
        false => Err(Malformed::Value(what)),
    }
}

/// Whether a text may be in a message: no control characters, so that a log has one line for it.
pub fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

fn write_text(w: &mut Writer, text: &str) {
    w.u8(u8::try_from(text.len()).expect("within its limit"));
    w.bytes(text.as_bytes());
}

#[cfg(test)]
mod tests;

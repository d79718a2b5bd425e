//! Messages between the program and `caravan-token`, its helper for keys on PKCS #11 tokens. They
//! travel over a pipe, one after the other. The formats are Caravan's own:
//!
//! ```text
//! length 2 | kind 1 | body        big-endian; the length counts kind and body
//! ```
//!
//! The PIN is in none of them: the helper asks for it itself. Left out: everything that a message
//! means.

use crate::agent::LABEL_LEN;
use crate::codec::{Malformed, Reader, Writer};

/// Octets that are signed at once: more than any request of a tunnel agent has.
pub const SIGNED_MAX: usize = 4_096;
/// Octets of the longest message, length included.
pub const MESSAGE_MAX: usize = 2 + 1 + LABEL_LEN + SIGNED_MAX;
/// Tokens in a list.
pub const TOKENS_MAX: usize = 32;
/// Octets of a token's label and of its serial number (PKCS #11's `CK_TOKEN_INFO`).
pub const TOKEN_LABEL_LEN: usize = 32;
/// See [`TOKEN_LABEL_LEN`].
pub const TOKEN_SERIAL_LEN: usize = 16;
/// Octets of an Ed25519 public key.
pub const PUBLIC_LEN: usize = 32;
/// Octets of an Ed25519 signature.
pub const SIGNATURE_LEN: usize = 64;

/// What the program asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// 1: which tokens are there?
    List,
    /// 2: log in to the token of this label.
    Open(String),
    /// 3: make a key with this handle. Answered with its public half.
    Make([u8; LABEL_LEN]),
    /// 4: the public half of the key with this handle.
    Find([u8; LABEL_LEN]),
    /// 5: sign these octets, [`SIGNED_MAX`] at most, with the key of this handle.
    Sign([u8; LABEL_LEN], Vec<u8>),
    /// 6: destroy both halves of the key with this handle.
    Destroy([u8; LABEL_LEN]),
}

/// What the helper says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// 1: these tokens are there.
    Tokens(Vec<Token>),
    /// 2: logged in.
    Open,
    /// 3: the public half of a key.
    Public([u8; PUBLIC_LEN]),
    /// 4: a signature.
    Signature([u8; SIGNATURE_LEN]),
    /// 5: it cannot.
    Refused(Refusal),
    /// 6, unasked: the token was removed. The helper ends.
    Removed,
    /// 7: the key is no more.
    Destroyed,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its label, at most [`TOKEN_LABEL_LEN`] octets.
    pub label: String,
    /// Its serial number, at most [`TOKEN_SERIAL_LEN`] octets.
    pub serial: String,
}

/// Why the helper cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// 1: the module cannot be loaded or started.
    Module,
    /// 2: no token has this label, or several have it.
    NoToken,
    /// 3: the token refuses the PIN.
    Pin,
    /// 4: nobody has given a PIN.
    NoPin,
    /// 5: the token has locked the PIN.
    PinLocked,
    /// 6: no key has this handle.
    NoKey,
    /// 7: a key has this handle already, or several have it.
    SeveralKeys,
    /// 8: the token does not sign with Ed25519.
    NoEd25519,
    /// 9: no token is open.
    NotOpen,
    /// 10: the token failed otherwise.
    Token,
    /// 11: the question was malformed.
    Malformed,
    /// Any other number.
    Other(u8),
}

numbered!(Refusal: u8 {
    Module = 1,
    NoToken = 2,
    Pin = 3,
    NoPin = 4,
    PinLocked = 5,
    NoKey = 6,
    SeveralKeys = 7,
    NoEd25519 = 8,
    NotOpen = 9,
    Token = 10,
    Malformed = 11,
});

/// The whole message at the start of `octets`, without its length, and how many octets it has
/// there. `None`: octets are missing.
pub fn cut(octets: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some((length, rest)) = octets.split_first_chunk() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes(*length));
    if len == 0 || len > MESSAGE_MAX - 2 {
        return Err(Malformed::Length("a message"));
    }
    Ok(rest.get(..len).map(|message| (message, 2 + len)))
}

impl Ask {
    /// Reads a message without its length.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let ask = match reader.u8("the kind")? {
            1 => Self::List,
            2 => Self::Open(text(&mut reader, TOKEN_LABEL_LEN, "the label")?),
            3 => Self::Make(reader.array("the handle")?),
            4 => Self::Find(reader.array("the handle")?),
            5 => {
                let handle = reader.array("the handle")?;
                match reader.rest() {
                    signed if signed.len() > SIGNED_MAX => {
                        return Err(Malformed::TooMany("octets to sign"));
                    }
                    signed => Self::Sign(handle, signed.to_vec()),
                }
            }
            6 => Self::Destroy(reader.array("the handle")?),
            _ => return Err(Malformed::Value("the kind")),
        };
        reader.finish("a question")?;
        Ok(ask)
    }

    /// Writes it with its length. `None`: something is longer than allowed.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        framed(|writer| {
            match self {
                Self::List => writer.u8(1),
                Self::Open(label) => {
                    writer.u8(2);
                    put_text(writer, label, TOKEN_LABEL_LEN)?;
                }
                Self::Make(handle) => {
                    writer.u8(3);
                    writer.bytes(handle);
                }
                Self::Find(handle) => {
                    writer.u8(4);
                    writer.bytes(handle);
                }
                Self::Sign(handle, signed) => {
                    (signed.len() <= SIGNED_MAX).then_some(())?;
                    writer.u8(5);
                    writer.bytes(handle);
                    writer.bytes(signed);
                }
                Self::Destroy(handle) => {
                    writer.u8(6);
                    writer.bytes(handle);
                }
            }
            Some(())
        })
    }
}

impl Say {
    /// Reads a message without its length.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let say = match reader.u8("the kind")? {
            1 => {
                let count = usize::from(reader.u8("the number of tokens")?);
                if count > TOKENS_MAX {
                    return Err(Malformed::TooMany("tokens"));
                }
                let token = |_| Token::read(&mut reader);
                Self::Tokens((0..count).map(token).collect::<Result<_, _>>()?)
            }
            2 => Self::Open,
            3 => Self::Public(reader.array("the public half")?),
            4 => Self::Signature(reader.array("the signature")?),
            5 => Self::Refused(reader.u8("the refusal")?.into()),
            6 => Self::Removed,
            7 => Self::Destroyed,
            _ => return Err(Malformed::Value("the kind")),
        };
        reader.finish("an answer")?;
        Ok(say)
    }

    /// Writes it with its length. `None`: something is longer than allowed.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        framed(|writer| {
            match self {
                Self::Tokens(tokens) => {
                    (tokens.len() <= TOKENS_MAX).then_some(())?;
                    writer.bytes(&[1, tokens.len() as u8]);
                    for token in tokens {
                        put_text(writer, &token.label, TOKEN_LABEL_LEN)?;
                        put_text(writer, &token.serial, TOKEN_SERIAL_LEN)?;
                    }
                }
                Self::Open => writer.u8(2),
                Self::Public(public) => {
                    writer.u8(3);
                    writer.bytes(public);
                }
                Self::Signature(signature) => {
                    writer.u8(4);
                    writer.bytes(signature);
                }
                Self::Refused(why) => writer.bytes(&[5, why.number()]),
                Self::Removed => writer.u8(6),
                Self::Destroyed => writer.u8(7),
            }
            Some(())
        })
    }
}

impl Token {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            label: text(reader, TOKEN_LABEL_LEN, "the label")?,
            serial: text(reader, TOKEN_SERIAL_LEN, "the serial number")?,
        })
    }
}

/// A length of one octet, and so many of UTF-8 without control characters: people see it.
fn text(reader: &mut Reader<'_>, most: usize, what: &'static str) -> Result<String, Malformed> {
    let len = usize::from(reader.u8(what)?);
    if len > most {
        return Err(Malformed::Length(what));
    }
    let octets = reader.take(len, what)?;
    let text = core::str::from_utf8(octets).map_err(|_| Malformed::Value(what))?;
    match text.chars().any(char::is_control) {
        true => Err(Malformed::Value(what)),
        false => Ok(text.to_owned()),
    }
}

fn put_text(writer: &mut Writer, text: &str, most: usize) -> Option<()> {
    (text.len() <= most && !text.chars().any(char::is_control)).then_some(())?;
    writer.u8(text.len() as u8);
    writer.bytes(text.as_bytes());
    Some(())
}

fn framed(write: impl FnOnce(&mut Writer) -> Option<()>) -> Option<Vec<u8>> {
    let mut writer = Writer::new();
    writer.u16(0);
    write(&mut writer)?;
    let len = u16::try_from(writer.len() - 2).ok()?;
    writer.patch_u16(0, len);
    Some(writer.into_vec())
}

#[cfg(test)]
mod tests;

//! EAP-MSCHAPv2: what follows the type 26 in a packet (draft-kamath-pppext-eap-mschapv2-02 §2, RFC
//! 2759 §4 to §6).
//!
//! Left out: the change of a password (opcode 7), which is refused as an unknown opcode.

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a challenge.
pub const CHALLENGE_LEN: usize = 16;
/// Octets of the answer to a challenge.
pub const RESPONSE_LEN: usize = 24;
/// Octets of a name at most (RFC 2759 §4).
pub const MAX_NAME_LEN: usize = 256;
/// Octets of the text of a success or failure at most.
pub const MAX_TEXT_LEN: usize = 512;

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// 1: prove yourself.
    Challenge {
        /// Comes back in the response.
        id: u8,
        /// Random octets.
        challenge: [u8; CHALLENGE_LEN],
        /// The server's name.
        name: Vec<u8>,
    },
    /// 3: the proof is right, and here is the server's.
    Success {
        /// That of the challenge.
        id: u8,
        /// `S=`, 40 hexadecimal digits, and perhaps ` M=` with a text.
        text: Vec<u8>,
    },
    /// 4: the proof is wrong.
    Failure {
        /// That of the challenge.
        id: u8,
        /// `E=691 R=0 C=... V=3 M=...`.
        text: Vec<u8>,
    },
}

/// What a peer sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// 2: the proof.
    Proof {
        /// That of the challenge.
        id: u8,
        /// The peer's own random octets.
        challenge: [u8; CHALLENGE_LEN],
        /// NT-Response.
        response: [u8; RESPONSE_LEN],
        /// The user, perhaps with a domain before it.
        name: Vec<u8>,
    },
    /// 3: the server's proof was read.
    Success,
    /// 4: the failure was read.
    Failure,
}

impl Request {
    /// Reads the octets after the type.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let (code, id, mut r) = head(data)?;
        let request = match code {
            CHALLENGE => {
                if usize::from(r.u8("value size")?) != CHALLENGE_LEN {
                    return Err(Malformed::Length("MSCHAPv2 challenge"));
                }
                Self::Challenge {
                    id,
                    challenge: r.array("MSCHAPv2 challenge")?,
                    name: rest(&mut r, MAX_NAME_LEN)?,
                }
            }
            SUCCESS => Self::Success {
                id,
                text: rest(&mut r, MAX_TEXT_LEN)?,
            },
            FAILURE => Self::Failure {
                id,
                text: rest(&mut r, MAX_TEXT_LEN)?,
            },
            _ => return Err(Malformed::Value("MSCHAPv2 opcode")),
        };
        Ok(request)
    }

    /// Writes the octets after the type.
    pub fn to_data(&self) -> Vec<u8> {
        match self {
            Self::Challenge {
                id,
                challenge,
                name,
            } => {
                let size = [CHALLENGE_LEN as u8];
                whole(CHALLENGE, *id, &[&size, challenge, name])
            }
            Self::Success { id, text } => whole(SUCCESS, *id, &[text]),
            Self::Failure { id, text } => whole(FAILURE, *id, &[text]),
        }
    }
}

impl Response {
    /// Reads the octets after the type. Of a success and a failure only the opcode counts: some
    /// peers send no more.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        match data.first() {
            Some(&SUCCESS) => return Ok(Self::Success),
            Some(&FAILURE) => return Ok(Self::Failure),
            _ => {}
        }
        let (code, id, mut r) = head(data)?;
        if code != PROOF {
            return Err(Malformed::Value("MSCHAPv2 opcode"));
        }
        if usize::from(r.u8("value size")?) != VALUE_LEN {
            return Err(Malformed::Length("MSCHAPv2 response"));
        }
        let challenge = r.array("peer challenge")?;
        r.take(RESERVED_LEN, "reserved octets")?;
        let response = r.array("NT response")?;
        // RFC 2759 §4: flags, reserved for the future.
        r.u8("flags")?;
        Ok(Self::Proof {
            id,
            challenge,
            response,
            name: rest(&mut r, MAX_NAME_LEN)?,
        })
    }

    /// Writes the octets after the type.
    pub fn to_data(&self) -> Vec<u8> {
        match self {
            Self::Proof {
                id,
                challenge,
                response,
                name,
            } => {
                let size = [VALUE_LEN as u8];
                let reserved = [0; RESERVED_LEN];
                let parts: [&[u8]; 6] = [&size, challenge, &reserved, response, &[0], name];
                whole(PROOF, *id, &parts)
            }
            Self::Success => vec![SUCCESS],
            Self::Failure => vec![FAILURE],
        }
    }
}

/// Opcode and identifier, and what follows the length, which counts from the opcode on.
fn head(data: &[u8]) -> Result<(u8, u8, Reader<'_>), Malformed> {
    let mut r = Reader::new(data);
    let code = r.u8("MSCHAPv2 opcode")?;
    let id = r.u8("MSCHAPv2 identifier")?;
    match usize::from(r.u16("MSCHAPv2 length")?) == data.len() {
        true => Ok((code, id, r)),
        false => Err(Malformed::Length("MSCHAPv2 packet")),
    }
}

fn rest(r: &mut Reader<'_>, max: usize) -> Result<Vec<u8>, Malformed> {
    match r.len() <= max {
        true => Ok(r.rest().to_vec()),
        false => Err(Malformed::TooMany("octets of an MSCHAPv2 text")),
    }
}

fn whole(code: u8, id: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(code);
    w.u8(id);
    w.u16(0);
    parts.iter().for_each(|part| w.bytes(part));
    let len = u16::try_from(w.len()).expect("a name and a text have limits");
    w.patch_u16(2, len);
    w.into_vec()
}

const CHALLENGE: u8 = 1;
/// OpCode of a response with a proof.
pub const PROOF: u8 = 2;
/// OpCode of a request that says that the proof is right.
pub const SUCCESS: u8 = 3;
const FAILURE: u8 = 4;
/// Challenge, reserved octets, response and flags.
const VALUE_LEN: usize = 49;
const RESERVED_LEN: usize = 8;

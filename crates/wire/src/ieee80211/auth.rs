//! The body of authentication frames, and what SAE puts into them (IEEE 802.11-2020 §9.3.3.11,
//! §12.4.7). Only group 19: the curve P-256.

use super::elements::{Elements, extension, write_extension};
use crate::codec::{Malformed, Reader, Writer};

/// The authentication algorithm number of SAE.
pub const SAE_ALGORITHM: u16 = 3;

/// Status codes of SAE.
pub mod sae_status {
    /// Accepted; of a commit: with hunting and pecking.
    pub const SUCCESS: u16 = 0;
    /// Send the commit again with this token.
    pub const TOKEN_REQUIRED: u16 = 76;
    /// The group is not supported.
    pub const UNSUPPORTED_GROUP: u16 = 77;
    /// A commit with hash-to-element.
    pub const HASH_TO_ELEMENT: u16 = 126;

    /// That of a commit, by its method.
    pub const fn of_commit(is_hash_to_element: bool) -> u16 {
        if is_hash_to_element {
            HASH_TO_ELEMENT
        } else {
            SUCCESS
        }
    }
}

/// The body of an authentication frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication<'a> {
    /// Which algorithm.
    pub algorithm: u16,
    /// 1 for SAE's commit, 2 for its confirm.
    pub transaction: u16,
    /// See [`sae_status`].
    pub status: u16,
    /// What follows.
    pub fields: &'a [u8],
}

impl<'a> Authentication<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        Ok(Self {
            algorithm: r.u16_le("authentication algorithm")?,
            transaction: r.u16_le("authentication transaction")?,
            status: r.u16_le("status code")?,
            fields: r.rest(),
        })
    }

    /// Appends the body.
    pub fn write(&self, w: &mut Writer) {
        w.u16_le(self.algorithm);
        w.u16_le(self.transaction);
        w.u16_le(self.status);
        w.bytes(self.fields);
    }
}

const SCALAR_LEN: usize = 32;
const ELEMENT_LEN: usize = 64;

/// The fields of SAE's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitParts<'a> {
    /// The group.
    pub group: u16,
    /// The token that the peer has asked for.
    pub token: &'a [u8],
    /// The scalar.
    pub scalar: [u8; SCALAR_LEN],
    /// The element: both coordinates of a point.
    pub element: [u8; ELEMENT_LEN],
}

impl<'a> CommitParts<'a> {
    /// The group at the start of a commit of any group.
    pub fn peek_group(fields: &[u8]) -> Result<u16, Malformed> {
        Reader::new(fields).u16_le("group")
    }

    /// Reads a commit of group 19. With hash-to-element the token is an element at the end,
    /// otherwise the octets between group and scalar.
    pub fn parse(fields: &'a [u8], is_hash_to_element: bool) -> Result<Self, Malformed> {
        let mut r = Reader::new(fields);
        let group = r.u16_le("group")?;
        let fixed = SCALAR_LEN + ELEMENT_LEN;
        let mut token: &[u8] = &[];
        if !is_hash_to_element {
            let len = r.len().checked_sub(fixed);
            token = r.take(len.ok_or(Malformed::Truncated("commit"))?, "token")?;
        }
        let (scalar, element) = (r.array("scalar")?, r.array("element")?);
        for read in Elements::new(r.rest()) {
            if let Some((extension::ANTI_CLOGGING_TOKEN, body)) = read?.extended() {
                token = body;
            }
        }
        Ok(Self {
            group,
            token,
            scalar,
            element,
        })
    }

    /// Appends the fields.
    pub fn write(&self, is_hash_to_element: bool, w: &mut Writer) {
        w.u16_le(self.group);
        if !is_hash_to_element {
            w.bytes(self.token);
        }
        w.bytes(&self.scalar);
        w.bytes(&self.element);
        if is_hash_to_element && !self.token.is_empty() {
            write_extension(extension::ANTI_CLOGGING_TOKEN, self.token, w);
        }
    }
}

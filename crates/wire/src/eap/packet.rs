//! One packet of EAP (RFC 3748 §4).
//!
//! Left out: what methods write into their packets.

use crate::codec::{Malformed, Reader, Writer};

/// Codes of EAP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EapCode {
    /// 1
    Request,
    /// 2
    Response,
    /// 3
    Success,
    /// 4
    Failure,
    /// Any other value.
    Other(u8),
}

/// Types of requests and responses (RFC 3748 §5, RFC 5216 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EapKind {
    /// 1
    Identity,
    /// 2
    Notification,
    /// 3: the sender of a response refuses the method.
    Nak,
    /// 4
    Md5Challenge,
    /// 13
    Tls,
    /// 26: MSCHAPv2, as Microsoft's draft describes it.
    MsChapV2,
    /// 254: the type has 12 octets.
    Expanded,
    /// Any other value.
    Other(u8),
}

/// An EAP packet. The octets have a valid header, and as many as its length field says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eap {
    octets: Vec<u8>,
}

impl Eap {
    /// Takes a packet and checks its header and length.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(packet);
        let eap = Self::read(&mut r)?;
        r.finish("EAP packet")?;
        Ok(eap)
    }

    /// A request or response of this type. Panics if it is larger than 65,535 octets.
    pub fn of_kind(code: EapCode, id: u8, kind: EapKind, data: &[u8]) -> Self {
        Self::of(code, id, &[&[kind.number()], data].concat())
    }

    /// Success or failure.
    pub fn verdict(is_success: bool, id: u8) -> Self {
        let code = match is_success {
            true => EapCode::Success,
            false => EapCode::Failure,
        };
        Self::of(code, id, &[])
    }

    fn of(code: EapCode, id: u8, body: &[u8]) -> Self {
        let mut w = Writer::new();
        w.u8(code.number());
        w.u8(id);
        w.u16(u16::try_from(HEAD_LEN + body.len()).expect("EAP packet below 64 KiB"));
        w.bytes(body);
        let octets = w.into_vec();
        Self { octets }
    }

    /// The code.
    pub fn code(&self) -> EapCode {
        self.octets[0].into()
    }

    /// The identifier, which pairs a response with its request.
    pub fn id(&self) -> u8 {
        self.octets[1]
    }

    /// The type of a request or response.
    pub fn kind(&self) -> Option<EapKind> {
        match self.code() {
            EapCode::Request | EapCode::Response => Some(self.octets[HEAD_LEN].into()),
            _ => None,
        }
    }

    /// What follows the type of a request or response.
    pub fn data(&self) -> &[u8] {
        match self.kind() {
            Some(_) => &self.octets[HEAD_LEN + 1..],
            None => &[],
        }
    }

    /// The whole packet, as a RADIUS server takes it.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let octets = r.rest();
        let mut head = Reader::new(octets);
        let code = EapCode::from(head.u8("EAP code")?);
        head.u8("EAP identifier")?;
        let len = usize::from(head.u16("EAP length")?);
        let fits = match code {
            EapCode::Request | EapCode::Response => len > HEAD_LEN,
            EapCode::Success | EapCode::Failure => len == HEAD_LEN,
            EapCode::Other(_) => len >= HEAD_LEN,
        };
        if len != octets.len() || !fits {
            return Err(Malformed::Length("EAP packet"));
        }
        Ok(Self {
            octets: octets.to_vec(),
        })
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.bytes(&self.octets);
    }
}

/// Code, identifier and length.
const HEAD_LEN: usize = 4;

numbered!(EapCode: u8 { Request = 1, Response = 2, Success = 3, Failure = 4 });

numbered!(EapKind: u8 {
    Identity = 1,
    Notification = 2,
    Nak = 3,
    Md5Challenge = 4,
    Tls = 13,
    MsChapV2 = 26,
    Expanded = 254,
});

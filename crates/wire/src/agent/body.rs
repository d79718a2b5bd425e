//! What is inside of sealed messages.

use super::{
    KEY_LEN, LABEL_LEN, MESSAGE_MAX, SIGNATURE_LEN, TUNNEL_KEY_MAX, USER_ID_MAX, long, text,
    write_long, write_text,
};
use crate::codec::{Malformed, Reader, Writer};

/// Step 1: what a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A random number that names the request.
    pub request_id: [u8; LABEL_LEN],
    /// Fingerprint of the Target to which the tunnel shall go.
    pub target: [u8; KEY_LEN],
    /// Who asks.
    pub user_id: String,
    /// Objective ID: a set of security objectives, one bit each.
    pub objectives: u8,
    /// The IPsec options that Client's back-end can do, one bit each.
    pub options: u8,
    /// The versions of IKE that it can do, and whether it has a PPK of the key: one bit each.
    pub ike: u8,
    /// Client's time, seconds since 1970.
    pub time: u64,
    /// Seconds that the tunnel shall live.
    pub lifetime: u32,
    /// Keys that Client has made for this request. None in the paper's own form.
    pub fresh: Option<Fresh>,
}

/// Keys of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// To which answers are sealed.
    pub sealing_key: [u8; KEY_LEN],
    /// SubjectPublicKeyInfo of the tunnel's key.
    pub tunnel_key: Vec<u8>,
}

/// Step 3: a user whom Host has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral<'a> {
    /// The one-time key's handle, the label of the request.
    pub handle: [u8; LABEL_LEN],
    /// The one-time key's public half.
    pub key: [u8; KEY_LEN],
    /// Host's time, seconds since 1970.
    pub time: u64,
    /// The request's body as it came.
    pub request: Vec<u8>,
    /// Its signature by the one-time key.
    pub signature: [u8; SIGNATURE_LEN],
    /// The tunnel's PPK, if the request wants one.
    pub ppk: Option<Ppk<'a>>,
}

/// A tunnel's post-quantum pre-shared key. It is borrowed, so that there is no copy to wipe, and
/// nothing shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ppk<'a>(pub &'a [u8; KEY_LEN]);

impl core::fmt::Debug for Ppk<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ppk")
    }
}

/// Step 6: what Target says to a referral.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// SHA-256 over the request's body and signature.
    pub request: [u8; KEY_LEN],
    /// Whether there is a tunnel.
    pub verdict: Verdict,
    /// The option of the tunnel, 1 to 4; 0 without tunnel.
    pub option: u8,
    /// When the tunnel ends, seconds since 1970; 0 without tunnel.
    pub until: u64,
    /// Target's part for Client: sealed to it, or a session key and [`super::Tunneling`] in the
    /// paper's own form. Empty without tunnel.
    pub part: Vec<u8>,
}

/// Step 7: what Client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// SHA-256 over the request's body and signature.
    pub request: [u8; KEY_LEN],
    /// Whether there is a tunnel.
    pub verdict: Verdict,
    /// Host's time, seconds since 1970.
    pub time: u64,
    /// Target's part, or the key's [`Fate`] if there is no tunnel.
    pub part: Vec<u8>,
}

/// What has become of a one-time key whose request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves for another request.
    NotSpent,
    /// It serves no more.
    Spent,
    /// Host does not know, or does not say.
    Unknown,
}

/// Which options has Target?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// A random number that names the inquiry.
    pub nonce: [u8; LABEL_LEN],
    /// Host's time, seconds since 1970.
    pub time: u64,
}

/// The options that Target's back-end can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// As in the inquiry.
    pub nonce: [u8; LABEL_LEN],
    /// One bit each. None: it cannot build an end now.
    pub options: u8,
    /// The versions of IKE that it can do, and whether its back-end can use a PPK: one bit each.
    pub ike: u8,
    /// Seconds for which this holds.
    pub lifetime: u32,
    /// How many tunnels more Target has room for, of those that it allows this Host.
    pub room: u16,
}

/// How a request ends. The log says more than Client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// There is a tunnel.
    Granted,
    /// The key was used before.
    KeyUsed,
    /// The key was revoked.
    KeyRevoked,
    /// The key's time is over.
    KeyExpired,
    /// The clocks of Client and Host are too far apart; the response has Host's time.
    ClocksApart,
    /// Client's or Target's back-end does not have the option.
    OptionUnavailable,
    /// Target does not answer.
    TargetUnreachable,
    /// The user is no member, or the access list does not allow it.
    Denied,
    /// A database does not answer.
    StoreUnavailable,
    /// Target's certificate or tunnel was not made.
    NotBuilt,
    /// Too much at a time.
    Busy,
    /// The request is not for this Host or this Target.
    Misdirected,
    /// Host has as many tunnels at Target as it may have.
    NoRoom,
    /// Target cannot build an end now.
    NotReady,
    /// Client's and Target's back-ends have no version of IKE in common.
    NoCommonVersion,
    /// The request wants a PPK, and Host has none of this key.
    NoPpk,
    /// A number that we do not know: refused.
    Other(u8),
}

numbered!(Verdict: u8 {
    Granted = 0,
    KeyUsed = 1,
    KeyRevoked = 2,
    KeyExpired = 3,
    ClocksApart = 4,
    OptionUnavailable = 5,
    TargetUnreachable = 6,
    Denied = 7,
    StoreUnavailable = 8,
    NotBuilt = 9,
    Busy = 10,
    Misdirected = 11,
    NoRoom = 12,
    NotReady = 13,
    NoCommonVersion = 14,
    NoPpk = 15,
});

impl Request {
    /// Reads a whole body.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let request = Self {
            request_id: r.array("Request ID")?,
            target: r.array("target")?,
            user_id: text(&mut r, USER_ID_MAX, "User ID")?,
            objectives: r.u8("Objective ID")?,
            options: r.u8("options")?,
            ike: r.u8("versions of IKE")?,
            time: r.u64("time")?,
            lifetime: r.u32("lifetime")?,
            fresh: match r.u8("whether there are fresh keys")? {
                0 => None,
                1 => Some(Fresh {
                    sealing_key: r.array("sealing key")?,
                    tunnel_key: long(&mut r, TUNNEL_KEY_MAX, "tunnel key")?.to_vec(),
                }),
                _ => return Err(Malformed::Value("whether there are fresh keys")),
            },
        };
        r.finish("request")?;
        Ok(request)
    }

    /// Its octets. Panics on texts and keys above their limits.
    pub fn to_vec(&self) -> Vec<u8> {
        assert!(self.user_id.len() <= USER_ID_MAX);
        let mut w = Writer::new();
        w.bytes(&self.request_id);
        w.bytes(&self.target);
        write_text(&mut w, &self.user_id);
        w.u8(self.objectives);
        w.u8(self.options);
        w.u8(self.ike);
        w.u64(self.time);
        w.u32(self.lifetime);
        match &self.fresh {
            None => w.u8(0),
            Some(fresh) => {
                assert!(fresh.tunnel_key.len() <= TUNNEL_KEY_MAX);
                w.u8(1);
                w.bytes(&fresh.sealing_key);
                write_long(&mut w, &fresh.tunnel_key);
            }
        }
        w.into_vec()
    }
}

impl<'a> Referral<'a> {
    /// Reads a whole body.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let referral = Self {
            handle: r.array("handle")?,
            key: r.array("one-time key")?,
            time: r.u64("time")?,
            request: long(&mut r, MESSAGE_MAX, "request")?.to_vec(),
            signature: r.array("signature of the request")?,
            ppk: match r.u8("whether there is a PPK")? {
                0 => None,
                1 => Some(Ppk::read(&mut r)?),
                _ => return Err(Malformed::Value("whether there is a PPK")),
            },
        };
        r.finish("referral")?;
        Ok(referral)
    }

    /// Its octets. The PPK is the last of them, so a buffer that grows leaves none of it behind.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.handle);
        w.bytes(&self.key);
        w.u64(self.time);
        write_long(&mut w, &self.request);
        w.bytes(&self.signature);
        match &self.ppk {
            None => w.u8(0),
            Some(ppk) => {
                w.u8(1);
                w.bytes(ppk.0);
            }
        }
        w.into_vec()
    }
}

impl<'a> Ppk<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let octets = r.take(KEY_LEN, "PPK")?;
        octets
            .first_chunk()
            .map(Self)
            .ok_or(Malformed::Truncated("PPK"))
    }
}

impl Authorization {
    /// Reads a whole body.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let authorization = Self {
            request: r.array("digest of the request")?,
            verdict: r.u8("verdict")?.into(),
            option: r.u8("option")?,
            until: r.u64("end of the tunnel")?,
            part: long(&mut r, MESSAGE_MAX, "target's part")?.to_vec(),
        };
        r.finish("authorization")?;
        Ok(authorization)
    }

    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.request);
        w.u8(self.verdict.number());
        w.u8(self.option);
        w.u64(self.until);
        write_long(&mut w, &self.part);
        w.into_vec()
    }
}

impl Response {
    /// Reads a whole body.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let response = Self {
            request: r.array("digest of the request")?,
            verdict: r.u8("verdict")?.into(),
            time: r.u64("time")?,
            part: long(&mut r, MESSAGE_MAX, "target's part")?.to_vec(),
        };
        r.finish("response")?;
        Ok(response)
    }

    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.request);
        w.u8(self.verdict.number());
        w.u64(self.time);
        write_long(&mut w, &self.part);
        w.into_vec()
    }
}

impl Fate {
    /// Reads the part of a response without a tunnel.
    pub fn of_part(part: &[u8]) -> Self {
        match part {
            [0] => Self::NotSpent,
            [1] => Self::Spent,
            _ => Self::Unknown,
        }
    }

    /// The part of a response without a tunnel.
    pub fn to_part(self) -> Vec<u8> {
        match self {
            Self::NotSpent => vec![0],
            Self::Spent => vec![1],
            Self::Unknown => Vec::new(),
        }
    }
}

impl Inquiry {
    /// Reads a whole body.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let inquiry = Self {
            nonce: r.array("nonce")?,
            time: r.u64("time")?,
        };
        r.finish("inquiry")?;
        Ok(inquiry)
    }

    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.nonce);
        w.u64(self.time);
        w.into_vec()
    }
}

impl Offer {
    /// Reads a whole body.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let offer = Self {
            nonce: r.array("nonce")?,
            options: r.u8("options")?,
            ike: r.u8("versions of IKE")?,
            lifetime: r.u32("lifetime of an offer")?,
            room: r.u16("room of an offer")?,
        };
        r.finish("offer")?;
        Ok(offer)
    }

    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.nonce);
        w.u8(self.options);
        w.u8(self.ike);
        w.u32(self.lifetime);
        w.u16(self.room);
        w.into_vec()
    }
}

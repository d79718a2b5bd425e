//! The RSN element (IEEE 802.11-2020 §9.4.2.24): which ciphers and which key management.

use super::elements::{Element, element_id};
use crate::codec::{Malformed, Reader, Writer};

/// A cipher suite, by OUI and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of IEEE 802.11")]
pub enum CipherSuite {
    UseGroup,
    Wep40,
    Tkip,
    Ccmp128,
    Wep104,
    Gcmp128,
    Gcmp256,
    Ccmp256,
    Other(u32),
}

numbered!(CipherSuite: u32 {
    UseGroup = 0x000f_ac00,
    Wep40 = 0x000f_ac01,
    Tkip = 0x000f_ac02,
    Ccmp128 = 0x000f_ac04,
    Wep104 = 0x000f_ac05,
    Gcmp128 = 0x000f_ac08,
    Gcmp256 = 0x000f_ac09,
    Ccmp256 = 0x000f_ac0a,
});

/// Authentication and key management, by OUI and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of IEEE 802.11")]
pub enum AkmSuite {
    Ieee8021x,
    Psk,
    Ieee8021xSha256,
    PskSha256,
    Sae,
    Owe,
    Other(u32),
}

numbered!(AkmSuite: u32 {
    Ieee8021x = 0x000f_ac01,
    Psk = 0x000f_ac02,
    Ieee8021xSha256 = 0x000f_ac05,
    PskSha256 = 0x000f_ac06,
    Sae = 0x000f_ac08,
    Owe = 0x000f_ac12,
});

/// An RSN element. Fields that are missing at its end have their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rsn {
    /// Protects frames to groups.
    pub group: CipherSuite,
    /// Protect frames to one station.
    pub pairwise: Vec<CipherSuite>,
    /// How keys are agreed.
    pub akms: Vec<AkmSuite>,
    /// Capabilities, as on the wire.
    pub capabilities: u16,
    /// Names of pairwise master keys.
    pub pmkids: Vec<[u8; 16]>,
    /// Protects management frames to groups.
    pub group_management: Option<CipherSuite>,
}

const VERSION: u16 = 1;
/// Most suites of a list, and most PMKIDs: with them an element with every field still has at most
/// 255 octets, also one whose missing fields have their defaults.
const MOST_SUITES: u16 = 16;
const MOST_PMKIDS: u16 = 6;

impl Rsn {
    /// Reads the body of an element with the identifier 48.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        if r.u16_le("RSN version")? != VERSION {
            return Err(Malformed::Value("RSN version"));
        }
        let mut rsn = Self {
            group: CipherSuite::Ccmp128,
            pairwise: vec![CipherSuite::Ccmp128],
            akms: vec![AkmSuite::Ieee8021x],
            capabilities: 0,
            pmkids: Vec::new(),
            group_management: None,
        };
        if !r.is_empty() {
            rsn.group = r.u32("group cipher suite")?.into();
        }
        if !r.is_empty() {
            rsn.pairwise = read_suites(&mut r)?;
        }
        if !r.is_empty() {
            rsn.akms = read_suites(&mut r)?;
        }
        if !r.is_empty() {
            rsn.capabilities = r.u16_le("RSN capabilities")?;
        }
        if !r.is_empty() {
            let count = r.u16_le("number of PMKIDs")?;
            if count > MOST_PMKIDS {
                return Err(Malformed::TooMany("PMKIDs"));
            }
            for _ in 0..count {
                rsn.pmkids.push(r.array("PMKID")?);
            }
        }
        if !r.is_empty() {
            rsn.group_management = Some(r.u32("group management cipher suite")?.into());
        }
        r.finish("RSN element")?;
        Ok(rsn)
    }

    /// Appends the element. Panics if it would have more than 255 octets, as none has that was
    /// read.
    pub fn write(&self, w: &mut Writer) {
        let mut body = Writer::new();
        body.u16_le(VERSION);
        body.u32(self.group.number());
        body.u16_le(self.pairwise.len() as u16);
        self.pairwise.iter().for_each(|it| body.u32(it.number()));
        body.u16_le(self.akms.len() as u16);
        self.akms.iter().for_each(|it| body.u32(it.number()));
        body.u16_le(self.capabilities);
        if !self.pmkids.is_empty() || self.group_management.is_some() {
            body.u16_le(self.pmkids.len() as u16);
            self.pmkids.iter().for_each(|it| body.bytes(it));
        }
        if let Some(suite) = self.group_management {
            body.u32(suite.number());
        }
        let element = Element {
            id: element_id::RSN,
            body: body.as_slice(),
        };
        element.write(w);
    }
}

fn read_suites<T: From<u32>>(r: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
    let count = r.u16_le("number of suites")?;
    if count > MOST_SUITES {
        return Err(Malformed::TooMany("suites"));
    }
    (0..count)
        .map(|_| r.u32("suite").map(T::from))
        .collect::<Result<_, _>>()
}

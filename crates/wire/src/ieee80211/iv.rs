//! What precedes an encrypted body: WEP's IV (IEEE 802.11-2020 §12.3.2.2), and the longer headers
//! of TKIP (§12.5.2.2), CCMP (§12.5.3.2) and GCMP (§12.5.5.2).

use crate::codec::{Malformed, Reader};

/// Octets of WEP's IV and key identifier.
pub const WEP_IV_LEN: usize = 4;
/// Octets of the header of TKIP, CCMP and GCMP.
pub const EXTENDED_IV_LEN: usize = 8;

/// Set in the octet of the key identifier if four more octets follow.
const EXTENDED: u8 = 0x20;

/// WEP's IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WepIv {
    /// The IV, the start of the RC4 key.
    pub iv: [u8; 3],
    /// Which of four keys, 0 to 3.
    pub key_id: u8,
}

impl WepIv {
    /// Reads it. Refuses the header of another cipher.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let iv = r.array("WEP IV")?;
        let key_octet = r.u8("key identifier")?;
        if key_octet & EXTENDED != 0 {
            return Err(Malformed::Value("extended IV bit of WEP"));
        }
        Ok(Self {
            iv,
            key_id: key_octet >> 6,
        })
    }

    /// Its octets.
    pub const fn octets(self) -> [u8; WEP_IV_LEN] {
        let [a, b, c] = self.iv;
        [a, b, c, self.key_id << 6]
    }
}

/// The header of TKIP, CCMP and GCMP: a packet number of 48 bits and a key identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedIv {
    /// The packet number, called TSC by TKIP.
    pub number: u64,
    /// Which of four keys, 0 to 3.
    pub key_id: u8,
}

impl ExtendedIv {
    /// The highest packet number.
    pub const LAST: u64 = (1 << 48) - 1;

    /// Reads the header of CCMP or GCMP. The reserved octet is ignored.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (octets, key_id) = Self::read_octets(r)?;
        let [n0, n1, _, _, n2, n3, n4, n5] = octets;
        Ok(Self {
            number: u64::from_be_bytes([0, 0, n5, n4, n3, n2, n1, n0]),
            key_id,
        })
    }

    /// Reads the header of TKIP, where TSC1 comes first. Its second octet only keeps weak RC4 keys
    /// away, and is ignored.
    pub fn read_tkip(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (octets, key_id) = Self::read_octets(r)?;
        let [n1, _, n0, _, n2, n3, n4, n5] = octets;
        Ok(Self {
            number: u64::from_be_bytes([0, 0, n5, n4, n3, n2, n1, n0]),
            key_id,
        })
    }

    /// The header of CCMP or GCMP.
    pub const fn octets(self) -> [u8; EXTENDED_IV_LEN] {
        let [_, _, n5, n4, n3, n2, n1, n0] = self.number.to_be_bytes();
        [n0, n1, 0, EXTENDED | self.key_id << 6, n2, n3, n4, n5]
    }

    /// The header of TKIP.
    pub const fn tkip_octets(self) -> [u8; EXTENDED_IV_LEN] {
        let [_, _, n5, n4, n3, n2, n1, n0] = self.number.to_be_bytes();
        let weak_key_guard = (n1 | 0x20) & 0x7f;
        let key_octet = EXTENDED | self.key_id << 6;
        [n1, weak_key_guard, n0, key_octet, n2, n3, n4, n5]
    }

    fn read_octets(r: &mut Reader<'_>) -> Result<([u8; EXTENDED_IV_LEN], u8), Malformed> {
        let octets: [u8; EXTENDED_IV_LEN] = r.array("extended IV")?;
        match octets[3] & EXTENDED {
            0 => Err(Malformed::Value("extended IV bit")),
            _ => Ok((octets, octets[3] >> 6)),
        }
    }
}

//! The algorithms of a header: numbers, lengths of keys, and which of them go together.

use crate::codec::{Malformed, Reader};

/// Protects the packet key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KijAlg {
    /// DES in CBC mode, 1.
    Des,
    /// 3DES with three keys in CBC mode, 2.
    TripleDes,
    /// 252, private use: the packet key is derived from a salt by HKDF with SHA-256.
    Hkdf,
}

/// Encrypts the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CryptAlg {
    /// 0: there is no ESP.
    None,
    /// DES-CBC, 1 (RFC 1829).
    Des,
    /// 3DES-CBC with three keys, 2 (RFC 1851).
    TripleDes,
    /// RC2-CBC, 250: private use, the draft has no number for it.
    Rc2,
    /// RC4, 251: private use.
    Rc4,
    /// AES-256-GCM-SIV, 252: private use. It authenticates too.
    AesGcmSiv,
}

/// Authenticates the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MacAlg {
    /// 0: there is no AH.
    None,
    /// Keyed MD5, 1 (RFC 1828).
    Md5,
    /// DES-CBC MAC, 2.
    DesCbc,
    /// Keyed SHA, 3 (RFC 1852).
    Sha,
    /// 252, with the same number as [`CryptAlg`]: one ESP does both, there is no AH.
    AesGcmSiv,
}

/// A choice of the three that goes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Algorithms {
    kij: KijAlg,
    crypt: CryptAlg,
    mac: MacAlg,
}

impl Algorithms {
    /// HKDF, and AES-256-GCM-SIV for both.
    pub const HKDF_AES_GCM_SIV: Self = Self {
        kij: KijAlg::Hkdf,
        crypt: CryptAlg::AesGcmSiv,
        mac: MacAlg::AesGcmSiv,
    };

    /// None without encryption and authentication, and if only some are of HKDF and AES-GCM-SIV.
    pub fn new(kij: KijAlg, crypt: CryptAlg, mac: MacAlg) -> Option<Self> {
        let is_hkdf = kij == KijAlg::Hkdf;
        let goes_together = is_hkdf == (crypt == CryptAlg::AesGcmSiv)
            && is_hkdf == (mac == MacAlg::AesGcmSiv)
            && (crypt, mac) != (CryptAlg::None, MacAlg::None);
        goes_together.then_some(Self { kij, crypt, mac })
    }

    /// Protects the packet key.
    pub const fn kij(self) -> KijAlg {
        self.kij
    }

    /// Encrypts.
    pub const fn crypt(self) -> CryptAlg {
        self.crypt
    }

    /// Authenticates.
    pub const fn mac(self) -> MacAlg {
        self.mac
    }

    /// Octets of the packet key: of the longer of the two keys.
    pub const fn packet_key_len(self) -> usize {
        let (crypt, mac) = (self.crypt.key_len(), self.mac.key_len());
        if crypt > mac { crypt } else { mac }
    }

    /// Octets of the field of the packet key: the key in whole blocks of 8, or HKDF's salt.
    pub const fn field_len(self) -> usize {
        match self.kij {
            KijAlg::Hkdf => SALT_LEN,
            _ => self.packet_key_len().next_multiple_of(8),
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kij = match r.u8("Kij algorithm")? {
            1 => KijAlg::Des,
            2 => KijAlg::TripleDes,
            252 => KijAlg::Hkdf,
            _ => return Err(Malformed::Value("Kij algorithm")),
        };
        let crypt = match r.u8("crypt algorithm")? {
            0 => CryptAlg::None,
            1 => CryptAlg::Des,
            2 => CryptAlg::TripleDes,
            250 => CryptAlg::Rc2,
            251 => CryptAlg::Rc4,
            252 => CryptAlg::AesGcmSiv,
            _ => return Err(Malformed::Value("crypt algorithm")),
        };
        let mac = match r.u8("MAC algorithm")? {
            0 => MacAlg::None,
            1 => MacAlg::Md5,
            2 => MacAlg::DesCbc,
            3 => MacAlg::Sha,
            252 => MacAlg::AesGcmSiv,
            _ => return Err(Malformed::Value("MAC algorithm")),
        };
        Self::new(kij, crypt, mac).ok_or(Malformed::Value("choice of algorithms"))
    }

    pub(super) const fn numbers(self) -> [u8; 3] {
        [self.kij.number(), self.crypt.number(), self.mac.number()]
    }
}

impl KijAlg {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Des => 1,
            Self::TripleDes => 2,
            Self::Hkdf => 252,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Des => 8,
            Self::TripleDes => 24,
            Self::Hkdf => 32,
        }
    }
}

impl CryptAlg {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Des => 1,
            Self::TripleDes => 2,
            Self::Rc2 => 250,
            Self::Rc4 => 251,
            Self::AesGcmSiv => 252,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Des => 8,
            Self::TripleDes => 24,
            Self::Rc2 | Self::Rc4 => 16,
            Self::AesGcmSiv => 32,
        }
    }

    /// Octets of its blocks: what payload, padding and trailer are a multiple of.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Des | Self::TripleDes | Self::Rc2 => 8,
            Self::None | Self::Rc4 | Self::AesGcmSiv => 1,
        }
    }
}

impl MacAlg {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Md5 => 1,
            Self::DesCbc => 2,
            Self::Sha => 3,
            Self::AesGcmSiv => 252,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Md5 => 16,
            Self::DesCbc => 8,
            Self::Sha => 20,
            Self::AesGcmSiv => 32,
        }
    }

    /// Octets of its authentication data in AH.
    pub const fn data_len(self) -> usize {
        match self {
            Self::None | Self::AesGcmSiv => 0,
            Self::Md5 => 16,
            Self::DesCbc => 8,
            Self::Sha => 20,
        }
    }
}

/// Octets of HKDF's salt.
const SALT_LEN: usize = 16;

//! SKIP in a policy: profile, algorithms and names, and the sizes that follow from them
//! (draft-ietf-ipsec-skip-06, RFC 1826, RFC 1827).
//!
//! Left out: keys and their exchange. Long-term values are known at both ends, and each packet
//! carries its own key.

use crypto::dh::long_term::Group;
use document::{Fault, Item};
use engine::skip::counter::{STEP_AGE, STEP_BYTES};
use engine::skip::profile::Renewal;
use engine::skip::{Association, IvLen, Layout, MasterKey, Parts as AssociationParts, Profile};
use engine::skip::{Unfit, words};
use serde::Serialize;
use wire::ip::ipv4;
use wire::skip::{
    AH_FIXED_LEN, Algorithms, CryptAlg, ESP_SPI_LEN, KijAlg, MAX_MKID_LEN, MacAlg, Name, Nsid,
    SkipHeader, TRAILER_LEN,
};

use super::aligned::Aligned;
use super::names::said;
use crate::staircase::Staircase;

/// How SKIP protects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipSuite {
    /// Which n is sent, and when a packet key ends.
    pub profile: Profile,
    /// Algorithms.
    pub algorithms: Algorithms,
    /// The name spaces of sender and receiver.
    pub names: [Nsid; 2],
    /// How long the IV of a block cipher is.
    pub iv_len: IvLen,
    /// Whether every packet has a key of its own, whatever the profile asks.
    pub has_key_per_packet: bool,
}

/// The parts of a packet that have the same size in every packet. The rest is the clear packet and
/// padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SkipParts {
    /// The outer IP header.
    pub ip_bytes: usize,
    /// The SKIP header: fixed part, packet key, names.
    pub skip_bytes: usize,
    /// Of these, the encrypted packet key.
    pub key_bytes: usize,
    /// Of these, both names.
    pub name_bytes: usize,
    /// AH without its authentication data.
    pub ah_bytes: usize,
    /// The authentication data of AH.
    pub authenticator_bytes: usize,
    /// The SPI of ESP.
    pub spi_bytes: usize,
    /// The IV, or the sequence number of skip-x25519.
    pub iv_bytes: usize,
    /// Pad length and payload type of ESP.
    pub trailer_bytes: usize,
    /// What ESP adds besides the SPI and padding: IV, pad length, payload type.
    pub esp_rest_bytes: usize,
    /// The tag of AES-256-GCM-SIV.
    pub tag_bytes: usize,
    /// Seconds after which n steps; none: n is the hour.
    pub step_s: Option<u64>,
    /// Octets of clear text after which n steps.
    pub step_bytes: Option<u64>,
}

const PROFILES: [(&str, Profile); 3] = [
    (Profile::Draft.name(), Profile::Draft),
    (Profile::Paper.name(), Profile::Paper),
    (Profile::X25519.name(), Profile::X25519),
];
const KIJS: [(&str, KijAlg); 3] = [
    (words::of_kij(KijAlg::Des), KijAlg::Des),
    (words::of_kij(KijAlg::TripleDes), KijAlg::TripleDes),
    (words::of_kij(KijAlg::Hkdf), KijAlg::Hkdf),
];
const CRYPTS: [(&str, CryptAlg); 6] = [
    (words::of_crypt(CryptAlg::None), CryptAlg::None),
    (words::of_crypt(CryptAlg::Des), CryptAlg::Des),
    (words::of_crypt(CryptAlg::TripleDes), CryptAlg::TripleDes),
    (words::of_crypt(CryptAlg::Rc2), CryptAlg::Rc2),
    (words::of_crypt(CryptAlg::Rc4), CryptAlg::Rc4),
    (words::of_crypt(CryptAlg::AesGcmSiv), CryptAlg::AesGcmSiv),
];
const MACS: [(&str, MacAlg); 5] = [
    (words::of_mac(MacAlg::None), MacAlg::None),
    (words::of_mac(MacAlg::Md5), MacAlg::Md5),
    (words::of_mac(MacAlg::DesCbc), MacAlg::DesCbc),
    (words::of_mac(MacAlg::Sha), MacAlg::Sha),
    (words::of_mac(MacAlg::AesGcmSiv), MacAlg::AesGcmSiv),
];
const NAMES: [(&str, Nsid); 12] = [
    ("none", Nsid::None),
    ("ipv4", Nsid::Ipv4),
    ("uid", Nsid::PosixUid),
    ("ipv6", Nsid::Ipv6),
    ("dns", Nsid::Md5Dns),
    ("dn", Nsid::Md5Dn),
    ("ascii", Nsid::Md5Ascii),
    ("mac", Nsid::Mac),
    ("public-value", Nsid::Md5PublicValue),
    ("mailbox", Nsid::Md5Mailbox),
    ("bank-account", Nsid::Md5BankAccount),
    ("nis", Nsid::Md5Nis),
];
const IVS: [(&str, IvLen); 2] = [("4 B", IvLen::Short), ("8 B", IvLen::Whole)];

impl SkipSuite {
    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let profile = table.need("profile")?.choice("profile", &PROFILES)?;
        let own = Algorithms::HKDF_AES_GCM_SIV;
        let is_own = profile == Profile::X25519;
        // The draft wants 3DES for every key of 128 bits; skip-x25519 has no choice.
        let usual = if is_own { own.kij() } else { KijAlg::TripleDes };
        let kij = table.or("kij", usual, |item| item.choice("kij", &KIJS))?;
        let crypt = |item: &Item| item.choice("crypt", &CRYPTS);
        let mac = |item: &Item| item.choice("mac", &MACS);
        let (crypt, mac) = match is_own {
            true => (
                table.or("crypt", own.crypt(), crypt)?,
                table.or("mac", own.mac(), mac)?,
            ),
            false => (crypt(table.need("crypt")?)?, mac(table.need("mac")?)?),
        };
        let Some(algorithms) = Algorithms::new(kij, crypt, mac) else {
            return Err(item.fault_of(&["crypt", "mac", "kij"], "these do not go together"));
        };
        let suite = Self {
            profile,
            algorithms,
            names: table.or("names", [Nsid::Ipv4, Nsid::None], names)?,
            iv_len: table.or("iv", IvLen::default(), |item| item.choice("iv", &IVS))?,
            has_key_per_packet: table.or("key_per_packet", false, Item::boolean)?,
        };
        table.finish()?;
        let unfit =
            |why: Unfit| item.fault_of(&["kij", "crypt", "mac", "profile"], why.to_string());
        suite.association().map_err(unfit)?;
        Ok(suite)
    }

    /// Some association of this kind, so that the engine checks what goes together.
    fn association(&self) -> Result<Association, Unfit> {
        let name = |nsid: Nsid, octet| Name::new(nsid, &[octet; MAX_MKID_LEN][..nsid.mkid_len()]);
        let [local, remote] = self.names;
        Association::new(AssociationParts {
            profile: self.profile,
            algorithms: self.algorithms,
            local: name(local, 1).unwrap_or(Name::NONE),
            remote: name(remote, 2).unwrap_or(Name::NONE),
            iv_len: self.iv_len,
            renewal: self.renewal(),
            master: match self.profile {
                Profile::X25519 => {
                    MasterKey::of_shared(Group::Curve25519, &[0; 32], [&[1; 32], &[2; 32]])
                }
                Profile::Draft | Profile::Paper => MasterKey::manual(&[0; 32]),
            },
        })
    }

    /// Its name in answers.
    pub fn word(&self) -> String {
        let (crypt, mac) = (self.algorithms.crypt(), self.algorithms.mac());
        let mut word = self.profile.name().to_owned();
        if self.profile.is_legacy() {
            word += &format!(" {} {}", words::of_crypt(crypt), words::of_mac(mac));
        }
        if self.has_key_per_packet {
            word += " key-per-packet";
        }
        word
    }

    /// When a sender takes a new packet key.
    pub fn renewal(&self) -> Renewal {
        match self.has_key_per_packet {
            true => Renewal::EVERY_PACKET,
            false => Renewal::of(self.profile, self.algorithms),
        }
    }

    /// Why it is legacy; nothing if it is not.
    pub(super) fn reasons(&self) -> Vec<String> {
        if !self.profile.is_legacy() {
            return Vec::new();
        }
        let crypt = match self.algorithms.crypt() {
            CryptAlg::Des => Some("single DES: MUST NOT, RFC 8221 §5"),
            CryptAlg::TripleDes => Some("3DES: SHOULD NOT, RFC 8221 §5"),
            CryptAlg::Rc2 => Some("RC2: legacy, no current standard has it"),
            CryptAlg::Rc4 => Some("RC4: legacy, no current standard has it"),
            CryptAlg::None | CryptAlg::AesGcmSiv => None,
        };
        let mac = match self.algorithms.mac() {
            MacAlg::None => Some("ESP without integrity: MUST NOT, RFC 8221 §4"),
            MacAlg::Md5 => Some("keyed MD5: MUST NOT, RFC 8221 §6"),
            MacAlg::DesCbc => Some("DES-CBC MAC: legacy, no current standard has it"),
            MacAlg::Sha => Some("keyed SHA-1: legacy, no current standard has it"),
            MacAlg::AesGcmSiv => None,
        };
        let own = "SKIP of 1995: legacy, a draft that has expired";
        [Some(own), crypt, mac]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn encrypts(&self) -> bool {
        self.algorithms.crypt() != CryptAlg::None
    }

    /// The parts of its packets.
    pub fn parts(&self) -> SkipParts {
        let algorithms = self.algorithms;
        let [from, to] = self.names;
        let data = algorithms.mac().data_len();
        let clear_at = self.layout().clear_at();
        let skip = SkipHeader::header_len(algorithms, from, to);
        let ah = if data > 0 { AH_FIXED_LEN } else { 0 };
        let esp = if self.encrypts() { ESP_SPI_LEN } else { 0 };
        let iv = clear_at - skip - ah - data - esp;
        let trailer = if self.encrypts() { TRAILER_LEN } else { 0 };
        let steps = (self.profile == Profile::Paper).then_some(());
        SkipParts {
            ip_bytes: ipv4::HEADER_LEN,
            skip_bytes: skip,
            key_bytes: algorithms.field_len(),
            name_bytes: from.mkid_len() + to.mkid_len(),
            ah_bytes: ah,
            authenticator_bytes: data,
            spi_bytes: esp,
            iv_bytes: iv,
            trailer_bytes: trailer,
            esp_rest_bytes: iv + trailer,
            tag_bytes: match algorithms.crypt() {
                CryptAlg::AesGcmSiv => crypto::aead::ICV_LEN,
                _ => 0,
            },
            step_s: steps.map(|_| STEP_AGE.as_secs()),
            step_bytes: steps.map(|_| STEP_BYTES),
        }
    }

    /// Where the parts of its packets are.
    pub fn layout(&self) -> Layout {
        Layout::new(self.algorithms, self.names, self.iv_len)
    }

    /// Octets on the wire with the outer IP header, which are all under the MAC.
    pub(super) fn wire(&self) -> Aligned {
        let parts = self.parts();
        let before = parts.ip_bytes + self.layout().clear_at();
        self.aligned(before + parts.tag_bytes)
    }

    /// Encrypted octets: packet, padding, trailer.
    pub(super) fn encrypted(&self) -> Aligned {
        self.aligned(0)
    }

    fn aligned(&self, fixed: usize) -> Aligned {
        Aligned {
            fixed: fixed as f64,
            alignment: self.algorithms.crypt().block_len() as f64,
            offset: self.parts().trailer_bytes as f64,
        }
    }

    /// Octets on the wire as a function of the clear packet's.
    pub fn size(&self) -> Staircase {
        self.wire().octets()
    }
}

/// Two name spaces, the sender's first.
fn names(item: &Item) -> Result<[Nsid; 2], Fault> {
    match item.list()? {
        [from, to] => Ok([
            from.choice("name space", &NAMES)?,
            to.choice("name space", &NAMES)?,
        ]),
        _ => Err(item.fault("this needs two name spaces, the sender's and the receiver's")),
    }
}

/// The keys of `[skip]`, those with a default included.
#[derive(Serialize)]
struct Written {
    profile: &'static str,
    kij: &'static str,
    crypt: &'static str,
    mac: &'static str,
    names: [&'static str; 2],
    iv: &'static str,
    key_per_packet: bool,
}

impl Serialize for SkipSuite {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |nsid: Nsid| said(&NAMES, &nsid);
        let written = Written {
            profile: self.profile.name(),
            kij: words::of_kij(self.algorithms.kij()),
            crypt: words::of_crypt(self.algorithms.crypt()),
            mac: words::of_mac(self.algorithms.mac()),
            names: self.names.map(name),
            iv: said(&IVS, &self.iv_len),
            key_per_packet: self.has_key_per_packet,
        };
        written.serialize(serializer)
    }
}

//! The tables of SKIP, key by key: our own long-term key, and what is agreed with a peer.

use std::path::PathBuf;

use document::{Fault, Item};
use engine::skip::Profile;
use engine::skip::words::{of_crypt, of_kij, of_mac};
use wire::skip::{CryptAlg, KijAlg, MacAlg, Name};

use super::read::{Keys, Read, ReadTable};

/// `[skip]`
#[derive(Debug, Default)]
pub struct SkipTable {
    /// File with our long-term key: NAME.skip.key of `caravan pki skip`.
    pub key: Option<PathBuf>,
    /// A token that has our key instead.
    pub token: Option<TokenTable>,
}

impl ReadTable for SkipTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            key: keys.given("key")?,
            token: keys.given("token")?,
        })
    }
}

/// `token`: a key that never leaves its PKCS #11 token. It is used once for each peer when the
/// process starts.
#[derive(Debug)]
pub struct TokenTable {
    /// The library of the token.
    pub module: PathBuf,
    /// Label of the token.
    pub label: String,
    /// Name of the key on the token.
    pub key: String,
    /// File with the user's PIN.
    pub pin_file: PathBuf,
}

impl ReadTable for TokenTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        let library = "its library, such as module = \"/usr/lib/softhsm/libsofthsm2.so\"";
        Ok(Self {
            module: keys.needed("module", library)?,
            label: keys.needed("label", "of the token: label = \"ms1\"")?,
            key: keys.needed("key", "the key's name on the token: key = \"ms1\"")?,
            pin_file: keys.needed("pin_file", "a file with the PIN: pin_file = \"ms1.pin\"")?,
        })
    }
}

/// `skip` of a peer: both ends write the same, with `local` and `remote` exchanged.
#[derive(Debug)]
pub struct SkipPeerTable {
    /// File with the peer's public value: NAME.skip.pub of `caravan pki skip`.
    pub public: PathBuf,
    /// The rules. "skip-x25519" is Caravan's own with today's algorithms. "skip-draft" and
    /// "skip-paper" are of 1998 and need `legacy`.
    pub profile: Profile,
    /// What protects packet keys: "des" or "3des". Only of the profiles of 1998.
    pub kij: Option<KijAlg>,
    /// The cipher: "none", "des", "3des", "rc2" or "rc4". Only of the profiles of 1998.
    pub crypt: Option<CryptAlg>,
    /// Authentication: "none", "keyed-md5", "keyed-sha" or "des-mac". Only of the profiles of 1998.
    pub mac: Option<MacAlg>,
    /// Our name in packets, such as "1/10.18.3.17": name space and identifier. "0": our address is
    /// our name.
    pub local: Option<Name>,
    /// The peer's name in packets.
    pub remote: Option<Name>,
    /// A new packet key for every packet. RC4 always has it.
    pub key_per_packet: bool,
    /// Allow the profiles of 1998.
    pub legacy: bool,
}

impl ReadTable for SkipPeerTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            public: keys.needed(
                "public",
                "the peer's public value: public = \"fw.skip.pub\"",
            )?,
            profile: keys.or("profile", Profile::X25519)?,
            kij: keys.given("kij")?,
            crypt: keys.given("crypt")?,
            mac: keys.given("mac")?,
            local: keys.given("local")?,
            remote: keys.given("remote")?,
            key_per_packet: keys.or("key_per_packet", false)?,
            legacy: keys.or("legacy", false)?,
        })
    }
}

impl Read for Profile {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("profile", &Self::ALL.map(|it| (it.name(), it)))
    }
}

impl Read for KijAlg {
    fn read(item: &Item) -> Result<Self, Fault> {
        let all = [Self::Des, Self::TripleDes];
        item.choice("algorithm", &all.map(|it| (of_kij(it), it)))
    }
}

impl Read for CryptAlg {
    fn read(item: &Item) -> Result<Self, Fault> {
        let all = [Self::None, Self::Des, Self::TripleDes, Self::Rc2, Self::Rc4];
        item.choice("algorithm", &all.map(|it| (of_crypt(it), it)))
    }
}

impl Read for MacAlg {
    fn read(item: &Item) -> Result<Self, Fault> {
        let all = [Self::None, Self::Md5, Self::Sha, Self::DesCbc];
        item.choice("algorithm", &all.map(|it| (of_mac(it), it)))
    }
}

impl Read for Name {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        let fault = |_| {
            let form =
                "a name of SKIP: \"1/10.18.3.17\", \"8/\" and 32 hexadecimal digits, or \"0\"";
            item.fault(format!("{text:?} is not {form}"))
        };
        text.parse().map_err(fault)
    }
}

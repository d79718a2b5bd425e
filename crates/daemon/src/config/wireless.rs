//! The file of `caravan wireless`: one end of a wireless link, and what protects it.

use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use document::{Fault, Item};
use engine::link::wireless::handshake::{Akm, MasterKey};
use engine::link::wireless::sae::{Method, Password};
use engine::link::wireless::{
    Credential, LinkCipher, MAX_SSID_LEN, Network, PermittedCipher, Security, TemporalKey,
};
use engine::work::Work;
use nix::unistd::Uid;
use zeroize::Zeroizing;

use super::read::{Keys, Read, ReadTable};
use super::values::Span;
use super::{ConfigError, Origin, read};
use crate::files;

/// Largest MTU: the service data unit of 802.11 less LLC and SNAP (IEEE 802.11-2020 §9.2.4.8).
const MAX_MTU: u16 = 2_296;
/// The least of IPv4 (RFC 791).
const MIN_MTU: u16 = 576;
const DEFAULT_MTU: u16 = 1_500;
/// A day: few keys protect so many frames to groups that more often is needed.
const DEFAULT_RENEWAL: Duration = Duration::from_secs(24 * 3_600);
/// Stations have 4 s to answer.
const MIN_RENEWAL: Duration = Duration::from_secs(10);
/// Octets of a file with a secret.
const MAX_SECRET: u64 = 4_096;
const OTHERS: u32 = 0o077;
const PASSPHRASE_LEN: std::ops::RangeInclusive<usize> = 8..=63;

/// Which end of the link it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It looks for an access point and joins it.
    Station,
    /// Stations join it.
    AccessPoint,
}

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Open,
    Wep,
    DynamicWep,
    Rsn(Akm),
}

const KINDS: [(&str, Kind); 9] = [
    ("open", Kind::Open),
    ("wep", Kind::Wep),
    ("dynamic-wep", Kind::DynamicWep),
    ("psk", Kind::Rsn(Akm::Psk)),
    ("psk-sha256", Kind::Rsn(Akm::PskSha256)),
    ("802.1x", Kind::Rsn(Akm::Ieee8021x)),
    ("802.1x-sha256", Kind::Rsn(Akm::Ieee8021xSha256)),
    ("sae", Kind::Rsn(Akm::Sae)),
    ("owe", Kind::Rsn(Akm::Owe)),
];

impl Read for End {
    fn read(item: &Item) -> Result<Self, Fault> {
        let ends = [
            ("station", Self::Station),
            ("access-point", Self::AccessPoint),
        ];
        item.choice("end", &ends)
    }
}

impl Read for Kind {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("security", &KINDS)
    }
}

impl Read for LinkCipher {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("cipher", &LinkCipher::ALL.map(|it| (it.name(), it)))
    }
}

/// The file as written.
struct WirelessTable {
    role: End,
    air: String,
    device: String,
    ssid: String,
    security: Kind,
    cipher: Option<LinkCipher>,
    legacy: bool,
    secret_file: Option<PathBuf>,
    key_id: Option<u8>,
    hunting_and_pecking: Option<bool>,
    relay: Option<bool>,
    group_key_renewal: Option<Span>,
    mtu: u16,
}

impl ReadTable for WirelessTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        let example = "the interface that is the air: air = \"sta0\"";
        Ok(Self {
            role: keys.needed("role", "role = \"station\" or \"access-point\"")?,
            air: keys.needed("air", example)?,
            device: keys.or("device", "wlan0".to_owned())?,
            ssid: keys.needed("ssid", "the name of the network: ssid = \"office\"")?,
            security: keys.needed("security", "such as security = \"psk\"")?,
            cipher: keys.given("cipher")?,
            legacy: keys.given("legacy")?,
            secret_file: keys.given("secret_file")?,
            key_id: keys.given("key_id")?,
            hunting_and_pecking: keys.given("hunting_and_pecking")?,
            relay: keys.given("relay")?,
            group_key_renewal: keys.given("group_key_renewal")?,
            mtu: keys.or("mtu", DEFAULT_MTU)?,
        })
    }
}

/// A checked file.
pub struct WirelessConfig {
    /// Which end.
    pub role: End,
    /// The interface that is the air.
    pub air: String,
    /// The TAP device to make.
    pub device: String,
    /// The network, with its secrets.
    pub network: Network,
    /// The word of the file for its security.
    pub security: &'static str,
    /// An access point sends frames between stations and to all back into the air by itself.
    pub relay: bool,
    /// How often an access point makes another group key, beside those when a station has left.
    pub group_key_renewal: Option<Duration>,
    /// Of the TAP device, in octets.
    pub mtu: u16,
}

/// Whether a file is one of `caravan wireless`: the other processes have tables alone. A file that
/// cannot be read is not.
pub fn is_wireless(path: &Path) -> bool {
    let text = read(path, Origin::Files).ok();
    let item = text.and_then(|text| document::parse("", &text).ok());
    let table = item.as_ref().and_then(|item| item.table().ok());
    table.is_some_and(|table| ["air", "ssid"].iter().any(|key| table.find(key).is_some()))
}

/// Reads and checks a file, and the file with its secret.
pub fn load(path: &Path) -> Result<WirelessConfig, ConfigError> {
    let text = read(path, Origin::Files)?;
    let item = document::parse("", &text).map_err(|fault| ConfigError::of_fault(path, fault))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let checked = WirelessTable::read(&item).and_then(|table| table.check(&item, folder));
    checked.map_err(|fault| ConfigError::of_fault(path, fault))
}

impl WirelessConfig {
    /// What is unwise, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let cipher = self.network.security.cipher();
        let legacy = cipher.filter(|it| it.is_legacy());
        let legacy = legacy.map(|it| {
            let name = it.name();
            format!("{name} is legacy: it keeps nobody out who wants in")
        });
        legacy.into_iter().collect()
    }
}

impl WirelessTable {
    fn check(self, item: &Item, folder: &Path) -> Result<WirelessConfig, Fault> {
        let fault = |key: &str, what: String| Err(at(item, key, what));
        if self.ssid.len() > MAX_SSID_LEN {
            return fault("ssid", format!("a name has at most {MAX_SSID_LEN} octets"));
        }
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return fault(
                "mtu",
                format!("{} is outside {MIN_MTU} to {MAX_MTU}", self.mtu),
            );
        }
        if self.group_key_renewal.is_some_and(|it| it.0 < MIN_RENEWAL) {
            return fault("group_key_renewal", "this is less than 10 s".to_owned());
        }
        if self.key_id.is_some_and(|it| it > 3) {
            return fault("key_id", "a number is outside 0 to 3".to_owned());
        }
        if let Some((key, of)) = self.misplaced() {
            return fault(key, format!("this belongs to {of}"));
        }
        let words = [("air", &self.air), ("device", &self.device)];
        for (key, name) in words {
            if name.len() > 15 || name.contains(['/', ' ', '%']) {
                return fault(key, format!("{name:?} is not the name of an interface"));
            }
        }
        if self.air == self.device {
            return fault(
                "device",
                "this is the air: the TAP device has another name".to_owned(),
            );
        }
        let has_group_keys = self.has_group_keys();
        let renewal = self.group_key_renewal.map_or(DEFAULT_RENEWAL, |it| it.0);
        let security = self.secure(item, folder)?;
        let word = KINDS.iter().find(|(_, kind)| *kind == self.security);
        Ok(WirelessConfig {
            role: self.role,
            air: self.air,
            device: self.device,
            network: Network {
                ssid: self.ssid.into_bytes(),
                security,
            },
            security: word.map_or("", |(word, _)| word),
            relay: self.relay.unwrap_or(true),
            group_key_renewal: has_group_keys.then_some(renewal),
            mtu: self.mtu,
        })
    }

    /// A key that is there and belongs to something else.
    fn misplaced(&self) -> Option<(&'static str, &'static str)> {
        let of_others = [
            ("relay", self.relay.is_some() && self.role == End::Station),
            (
                "group_key_renewal",
                self.group_key_renewal.is_some() && !self.has_group_keys(),
            ),
            (
                "key_id",
                self.key_id.is_some() && self.security != Kind::Wep,
            ),
            (
                "hunting_and_pecking",
                self.hunting_and_pecking.is_some() && self.security != Kind::Rsn(Akm::Sae),
            ),
        ];
        let belongs = [
            "an access point",
            "an access point that gives keys",
            "security = \"wep\"",
            "security = \"sae\"",
        ];
        let all = of_others.into_iter().zip(belongs);
        let mut misplaced = all.filter(|((_, is_there), _)| *is_there);
        misplaced.next().map(|((key, _), of)| (key, of))
    }

    fn has_group_keys(&self) -> bool {
        let gives_keys = matches!(self.security, Kind::DynamicWep | Kind::Rsn(_));
        gives_keys && self.role == End::AccessPoint
    }

    fn secure(&self, item: &Item, folder: &Path) -> Result<Security, Fault> {
        let has_secret = match self.security {
            Kind::Wep => true,
            Kind::Rsn(akm) => matches!(akm, Akm::Psk | Akm::PskSha256 | Akm::Sae),
            Kind::Open | Kind::DynamicWep => false,
        };
        if !has_secret && self.secret_file.is_some() {
            return Err(at(
                item,
                "secret_file",
                "with this security there is no secret",
            ));
        }
        if self.security == Kind::Open {
            return match self.cipher {
                Some(_) => Err(at(item, "cipher", "without security there is no cipher")),
                None => Ok(Security::Open),
            };
        }
        let cipher = self.permit(item)?;
        Ok(match self.security {
            Kind::Open => Security::Open,
            Kind::DynamicWep => Security::DynamicWep(cipher),
            Kind::Wep => Security::StaticWep {
                key: self.wep_key(cipher, item, folder)?,
                key_id: self.key_id.unwrap_or(0),
            },
            Kind::Rsn(akm) => Security::Rsn {
                akm,
                cipher,
                credential: self.credential(akm, item, folder)?,
            },
        })
    }

    fn permit(&self, item: &Item) -> Result<PermittedCipher, Fault> {
        let is_wep = matches!(self.security, Kind::Wep | Kind::DynamicWep);
        let cipher = self.cipher.unwrap_or(match is_wep {
            true => LinkCipher::Wep104,
            false => LinkCipher::Ccmp128,
        });
        if is_wep != cipher.is_wep() {
            let what = format!("{} does not go with this security", cipher.name());
            return Err(at(item, "cipher", what));
        }
        let is_old = matches!(self.security, Kind::Rsn(Akm::Psk | Akm::Ieee8021x));
        if cipher == LinkCipher::Tkip && !is_old {
            let what = "tkip goes with \"psk\" and \"802.1x\" alone: take ccmp-128 or gcmp-256";
            return Err(at(item, "cipher", what));
        }
        let permitted = cipher.permit(self.legacy);
        permitted.map_err(|fault| {
            at(
                item,
                if is_wep { "security" } else { "cipher" },
                fault.to_string(),
            )
        })
    }

    fn wep_key(
        &self,
        cipher: PermittedCipher,
        item: &Item,
        folder: &Path,
    ) -> Result<TemporalKey, Fault> {
        let text = self.secret(item, folder)?;
        let octets = octets_of(&text).and_then(|it| TemporalKey::new(cipher, &it));
        octets.ok_or_else(|| {
            let digits = 2 * cipher.cipher().key_len();
            let what = format!(
                "a key of {} is {digits} hexadecimal digits",
                cipher.cipher().name()
            );
            at(item, "secret_file", what)
        })
    }

    fn credential(&self, akm: Akm, item: &Item, folder: &Path) -> Result<Credential, Fault> {
        let mut work = Work::default();
        let ssid = self.ssid.as_bytes();
        match akm {
            Akm::Psk | Akm::PskSha256 => {
                let text = self.secret(item, folder)?;
                if let Some(key) = octets_of(&text)
                    && let Ok(key) = <&[u8; 32]>::try_from(&key[..])
                {
                    return Ok(Credential::Master(MasterKey::new(key)));
                }
                if !PASSPHRASE_LEN.contains(&text.len()) {
                    let what = "a passphrase has 8 to 63 octets, a key 64 hexadecimal digits";
                    return Err(at(item, "secret_file", what));
                }
                let master = MasterKey::of_passphrase(text.as_bytes(), ssid, &mut work);
                Ok(Credential::Master(master))
            }
            Akm::Sae => {
                let password = Password::new(self.secret(item, folder)?.as_bytes());
                Ok(Credential::Password(
                    match self.hunting_and_pecking.unwrap_or(false) {
                        true => Method::HuntingAndPecking(password),
                        false => Method::HashToElement(password.token(ssid, b"", &mut work)),
                    },
                ))
            }
            Akm::Ieee8021x | Akm::Ieee8021xSha256 | Akm::Owe => Ok(Credential::None),
        }
    }

    /// The secret in its file, which others may not read, without the line's end.
    fn secret(&self, item: &Item, folder: &Path) -> Result<Zeroizing<String>, Fault> {
        let fault = |what: String| at(item, "secret_file", what);
        let needed = "this security needs a file with its secret: secret_file = \"wlan.secret\"";
        let path = self
            .secret_file
            .as_ref()
            .ok_or_else(|| at(item, "security", needed))?;
        let path = folder.join(path);
        let name = path.display();
        let unreadable = |error: std::io::Error| fault(format!("cannot read {name}: {error}"));
        let file = files::open_plain(&path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if found.uid() != 0 && found.uid() != Uid::effective().as_raw() {
            let what = format!("{name}, a secret, belongs to user {}", found.uid());
            return Err(fault(format!("{what}: `chown root {name}`")));
        }
        if found.permissions().mode() & OTHERS != 0 {
            let what = format!("others may read or change {name}, a secret: `chmod 600 {name}`");
            return Err(fault(what));
        }
        let mut text = Zeroizing::new(String::new());
        let read = file.take(MAX_SECRET + 1).read_to_string(&mut text);
        if read.map_err(unreadable)? as u64 > MAX_SECRET {
            let what = format!("{name} has more than {MAX_SECRET} octets: is it the secret?");
            return Err(fault(what));
        }
        let secret = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
        match secret.is_empty() {
            true => Err(fault(format!("{name} is empty"))),
            false => Ok(secret),
        }
    }
}

/// An error at a key, or at the file if the key is not there.
fn at(item: &Item, key: &str, what: impl Into<String>) -> Fault {
    let mut fault = item.fault(what);
    fault.place = item.place_of(key).clone();
    fault
}

/// Octets of hexadecimal digits, in a buffer that has not grown: a secret has no other copy.
pub fn octets_of(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut octets = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.as_bytes().chunks(2) {
        let text = core::str::from_utf8(pair).ok().filter(|it| it.len() == 2)?;
        let is_plain = text.bytes().all(|it| it.is_ascii_hexdigit());
        octets.push(u8::from_str_radix(text, 16).ok().filter(|_| is_plain)?);
    }
    Some(octets)
}

#[cfg(test)]
mod tests;

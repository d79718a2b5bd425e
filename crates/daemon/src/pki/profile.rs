//! `caravan pki issue --profile`: what a device imports that has no Caravan.
//!
//! A certificate and its key are in PKCS #12, under a random password that is shown once; with
//! `--user` the profile has neither, and the device asks for the user's password. No secret is in
//! clear in a file. Each format has a file of its own; [`Text`] is what all of them can quote. Left
//! out: profiles of always-on VPNs, and signatures of profiles.

mod android;
mod apple;
mod strongswan;
mod windows;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use crypto::cert::{Certificate, DistinguishedName, SigningKey};
use crypto::hash::Hash;
use crypto::pkcs12::{self, Encryption};
use engine::eap::Users;
use engine::selector::TrafficSelector;
use zeroize::Zeroizing;

use super::bundle::Client;
use super::{random, write_octets};

/// What a profile is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Device {
    /// iPhone, iPad and Mac: a .mobileconfig
    Apple,
    /// Windows 10 and 11: a script of PowerShell
    Windows,
    /// Android's own client: a page with its fields and their QR code
    Android,
    /// strongSwan's app: a .sswan
    Strongswan,
}

/// Octets of a text in a profile at most.
const MAX_TEXT: usize = 255;

/// One line that XML, HTML, JSON and PowerShell can hold when it is quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(String);

impl Text {
    /// `what` names it in the error.
    fn new(what: &str, text: &str) -> anyhow::Result<Self> {
        // XML 1.0 §2.2 has neither control characters nor these two.
        let is_bad = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
        if text.is_empty() || text.len() > MAX_TEXT || text.contains(is_bad) {
            bail!("{what} {text:?}: a profile takes 1 to {MAX_TEXT} octets in one line");
        }
        Ok(Self(text.to_owned()))
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a profile says.
pub(super) struct Profile {
    /// Of its files, and of the device's certificate.
    name: Text,
    gateway: Text,
    gateway_id: Text,
    /// Prefixes behind the gateway; empty: everything.
    networks: Vec<(IpAddr, u8)>,
    /// The authority's certificate, DER.
    authority: Vec<u8>,
    authority_name: Option<Text>,
    proof: Proof,
}

/// How the device proves itself.
enum Proof {
    /// By a certificate, which has the identity as a name. The file is its PKCS #12.
    Certificate { identity: Text, file: Vec<u8> },
    /// By a user's password.
    User(Text),
}

/// A file of a profile: its name, and what is in it.
struct Part {
    name: String,
    octets: Vec<u8>,
}

impl Part {
    fn new(name: String, octets: impl Into<Vec<u8>>) -> Self {
        let octets = octets.into();
        Self { name, octets }
    }
}

/// What a command has made: what it says, and a secret that is shown once.
pub(super) struct Made {
    pub(super) text: String,
    pub(super) password: Option<Zeroizing<String>>,
}

/// A profile that lacks only how the device proves itself.
pub(super) struct Draft {
    device: Device,
    folder: PathBuf,
    name: Text,
    gateway: Text,
    gateway_id: Text,
    networks: Vec<(IpAddr, u8)>,
    authority: Vec<u8>,
    authority_name: Option<Text>,
}

impl Draft {
    /// Checks everything that the command line says.
    pub(super) fn new(
        device: Device,
        (folder, name): (&Path, &str),
        client: &Client,
        authority_pem: &str,
    ) -> anyhow::Result<Self> {
        if folder.exists() {
            bail!(stands(folder));
        }
        let gateway = client.gateway();
        if gateway.parse::<IpAddr>().is_err() && !is_host_name(gateway) {
            bail!("--gateway {gateway:?} is neither a host name nor an address");
        }
        if device == Device::Windows && gateway.parse::<IpAddr>().is_ok() {
            bail!("Windows wants a host name: --gateway {gateway:?} is an address");
        }
        let id = client.gateway_id();
        if device == Device::Android && id != gateway {
            bail!(
                "Android has one field for the gateway's address and its identity: leave \
                 --gateway-id {id:?} out, and name the gateway {gateway:?} in its certificate and \
                 in its file"
            );
        }
        if device == Device::Windows && id != gateway {
            bail!(
                "Windows knows a gateway by the name that it connects to: leave --gateway-id \
                 {id:?} out, and name the gateway {gateway:?} in its certificate and in its file"
            );
        }
        if device == Device::Android && client.networks().next().is_some() {
            bail!(
                "Android's own client has no field for networks, it takes what the gateway's \
                 local_ts says: leave --remote-ts out"
            );
        }
        let networks = client.networks();
        let networks = networks.map(prefix).collect::<anyhow::Result<_>>()?;
        let authority = Certificate::all_from_pem(authority_pem)?.remove(0);
        let subject = DistinguishedName::from_der(&authority.subject_der()).ok();
        let subject = subject.and_then(|subject| subject.common_name());
        Ok(Self {
            device,
            folder: folder.to_owned(),
            name: Text::new("--name", name)?,
            gateway: Text::new("--gateway", gateway)?,
            gateway_id: Text::new("--gateway-id", id)?,
            networks,
            authority: authority.der().to_vec(),
            authority_name: subject.and_then(|name| Text::new("authority", &name).ok()),
        })
    }

    /// The profile of a user with a password.
    pub(super) fn of_user(self, user: &str) -> anyhow::Result<Made> {
        Users::identity_of(user).context("--user")?;
        let proof = Proof::User(Text::new("--user", user)?);
        let text = self.write(proof)?;
        Ok(Made {
            text,
            password: None,
        })
    }

    /// The profile of a certificate that has `identity` as a name.
    pub(super) fn of_certificate(
        self,
        identity: &str,
        key: &SigningKey,
        certificate_pem: &str,
    ) -> anyhow::Result<Made> {
        let own = Certificate::all_from_pem(certificate_pem)?.remove(0);
        let encryption = match self.device {
            Device::Apple => Encryption::TripleDes,
            _ => Encryption::Aes256,
        };
        let mut chain = vec![own.der()];
        // Android offers the authority in its settings only if it comes with the key. The others
        // get it by itself.
        if matches!(self.device, Device::Android | Device::Strongswan) {
            chain.push(&self.authority);
        }
        let (name, key, password) = (self.name.as_str(), key.to_der(), password()?);
        let file = pkcs12::write(name, &key, &chain, &password, encryption)?;
        let identity = Text::new("--name", identity)?;
        let text = self.write(Proof::Certificate { identity, file })?;
        Ok(Made {
            text,
            password: Some(password),
        })
    }

    fn write(self, proof: Proof) -> anyhow::Result<String> {
        let profile = Profile {
            name: self.name,
            gateway: self.gateway,
            gateway_id: self.gateway_id,
            networks: self.networks,
            authority: self.authority,
            authority_name: self.authority_name,
            proof,
        };
        let (parts, told) = profile.render(self.device)?;
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        for part in &parts {
            write_octets(&folder.join(&part.name), &part.octets, 0o600)?;
        }
        let first = folder.join(&parts[0].name);
        Ok(format!("{} is ready: {told}\n", first.display()))
    }
}

impl Profile {
    /// Its files, the one to open first, and what to do with them.
    fn render(&self, device: Device) -> anyhow::Result<(Vec<Part>, String)> {
        match device {
            Device::Apple => apple::render(self),
            Device::Windows => Ok(windows::render(self)),
            Device::Android => android::render(self),
            Device::Strongswan => strongswan::render(self),
        }
    }

    /// Whether all traffic goes to the gateway.
    fn is_full(&self) -> bool {
        self.networks.is_empty() || self.networks.iter().any(|(_, bits)| *bits == 0)
    }

    /// A file name with this end.
    fn file(&self, end: &str) -> String {
        format!("{}.{end}", self.name.as_str())
    }

    /// A UUID that is the same whenever the same device gets a profile for the same gateway: then
    /// the new one replaces the old one.
    fn uuid(&self, of: &str) -> String {
        let parts = [
            &self.authority,
            self.gateway.as_str().as_bytes(),
            self.name.as_str().as_bytes(),
            of.as_bytes(),
        ];
        let lens = parts.map(|part| (part.len() as u64).to_be_bytes());
        let parts: Vec<&[u8]> = lens
            .iter()
            .zip(parts)
            .flat_map(|(len, part)| [&len[..], part])
            .collect();
        let digest = Hash::Sha256.digest(&parts);
        let mut octets = [0; 16];
        octets.copy_from_slice(&digest.as_ref()[..16]);
        // RFC 9562 §5.8: version 8, by the maker's own rule.
        octets[6] = octets[6] & 0x0f | 0x80;
        octets[8] = octets[8] & 0x3f | 0x80;
        let hex = super::hex(&octets);
        let fields = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        fields.join("-")
    }
}

fn is_host_name(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    // The last label of a name has a letter: otherwise it is an address with a mistake in it.
    let last = text.trim_end_matches('.').rsplit('.').next();
    let has_letter = last.is_some_and(|it| it.contains(|c: char| c.is_ascii_alphabetic()));
    has_letter && text.chars().all(is_sign) && !text.starts_with(['-', '.'])
}

/// A network of `--remote-ts`, which must be a whole one.
fn prefix(text: &str) -> anyhow::Result<(IpAddr, u8)> {
    let network: TrafficSelector = text.parse()?;
    let whole = network
        .prefix_len()
        .map(|bits| (network.first, bits))
        .filter(|(first, bits)| TrafficSelector::subnet(*first, *bits) == network);
    whole.with_context(|| {
        format!("--remote-ts {text}: a profile takes networks without ports, such as 10.10.0.0/24")
    })
}

/// What is easy to read aloud and to type on a phone: 32 signs, so that each has five bits.
const SIGNS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const SIGNS_A_GROUP: usize = 5;
/// 100 bits.
const PASSWORD_SIGNS: usize = 20;

/// A random password in four groups.
fn password() -> anyhow::Result<Zeroizing<String>> {
    let octets = random::<PASSWORD_SIGNS>()?;
    // Of its final length, so that no copy stays behind.
    let mut password = Zeroizing::new(String::with_capacity(2 * PASSWORD_SIGNS));
    for (at, octet) in octets.iter().enumerate() {
        if at > 0 && at % SIGNS_A_GROUP == 0 {
            password.push('-');
        }
        password.push(char::from(SIGNS[usize::from(octet % 32)]));
    }
    Ok(password)
}

/// The error for a file or folder that an earlier certificate has.
pub(super) fn stands(path: &Path) -> String {
    format!(
        "{} already exists: choose another --name or --out; a certificate is valid until `caravan \
         pki revoke` takes it",
        path.display()
    )
}

#[cfg(test)]
mod tests;

//! The key sheet: what a user carries. One head for all keys, then a line for each key; each line
//! is one QR code of the alphanumeric kind.
//!
//! A line is `CTA1:` and base32 (RFC 4648 §6, without padding) of its octets and four octets of
//! their SHA-256, by which a typing error is found. The head has Host's keys and addresses and
//! Target's fingerprint; a key has its handle and its secret, or only the handle if the secret is
//! on a token. The User ID is not on the sheet: who finds one must also know whose it is.

use core::fmt::Write as _;
use core::str::FromStr;

use crypto::ed25519::{SigningKey, VerifyKey};
use crypto::hpke;
use wire::codec::{Malformed, Reader, Writer};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::identity::{Fingerprint, Identity, digest};
use super::legacy::Pair;
use super::ppk::KeyPpk;
use super::{Digest, Handle};
use crate::time::Calendar;

/// Hosts that share the keys.
pub const HOSTS_MAX: usize = 4;
/// Octets of a Host's address: name or address, and port.
pub const ADDRESS_MAX: usize = 100;
/// Characters of a line: a QR code of version 40 has room for 1,852 at its highest correction.
const LINE_MAX: usize = 1_200;
const START: &str = "CTA1:";
const CHECK_LEN: usize = 4;
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

const HEAD: u8 = 1;
const KEY: u8 = 2;
const KEY_ON_TOKEN: u8 = 3;
const SHARED_PAIR: u8 = 4;

/// What all keys of a sheet share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Host's public keys, which all Hosts of one database share.
    pub host: Identity,
    /// Where they are, `name:port`.
    pub addresses: Vec<String>,
    /// Target's fingerprint.
    pub target: Fingerprint,
    /// When the last key expires.
    pub not_after: Calendar,
}

/// A one-time key as its user has it.
pub struct Key {
    /// Finds it.
    pub handle: Handle,
    /// Its secret half.
    pub secret: Secret,
}

/// Where a secret half is.
#[derive(ZeroizeOnDrop)]
pub enum Secret {
    /// Here: an Ed25519 key.
    OneTime([u8; 32]),
    /// On the token, under the handle.
    OnToken,
    /// Here, and Host has it too ([`super::legacy`]).
    Shared([u8; 32]),
}

/// A line that is no line of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SheetFault {
    /// Does not begin with `CTA1:`, or has other characters than base32.
    #[error("not a line of a key sheet: \"CTA1:\" and letters and digits of base32")]
    NotALine,
    /// The check octets differ: a typing error.
    #[error("the line has a typing error, or its end is missing")]
    WrongCheck,
    /// A head where a key is expected, or the reverse.
    #[error("the line is of another kind")]
    OtherKind,
    /// The octets cannot be read.
    #[error("{0}")]
    Malformed(Malformed),
}

impl Key {
    /// Its signature, made here. None if the secret is on a token.
    pub fn signing(&self) -> Option<SigningKey> {
        match &self.secret {
            Secret::OneTime(secret) => Some(SigningKey::of(secret)),
            Secret::Shared(secret) => Some(SigningKey::of(Pair::of(secret).signing.secret())),
            Secret::OnToken => None,
        }
    }

    /// What it gives for the PPK of its tunnel. None if the secret is on a token, or is not the
    /// user's alone.
    pub fn ppk(&self) -> Option<KeyPpk> {
        match &self.secret {
            Secret::OneTime(secret) => Some(KeyPpk::of(secret)),
            Secret::OnToken | Secret::Shared(_) => None,
        }
    }

    /// Its line.
    pub fn to_line(&self) -> Zeroizing<String> {
        let mut octets = Zeroizing::new(Vec::with_capacity(64));
        let (kind, secret) = match &self.secret {
            Secret::OneTime(secret) => (KEY, &secret[..]),
            Secret::OnToken => (KEY_ON_TOKEN, &[][..]),
            Secret::Shared(secret) => (SHARED_PAIR, &secret[..]),
        };
        octets.push(kind);
        octets.extend_from_slice(&self.handle.0);
        octets.extend_from_slice(secret);
        to_line(&octets)
    }
}

impl FromStr for Key {
    type Err = SheetFault;

    fn from_str(line: &str) -> Result<Self, SheetFault> {
        let octets = of_line(line)?;
        let mut r = Reader::new(&octets);
        let read = |r: &mut Reader<'_>| -> Result<Option<Self>, Malformed> {
            let kind = r.u8("kind of line")?;
            if ![KEY, KEY_ON_TOKEN, SHARED_PAIR].contains(&kind) {
                return Ok(None);
            }
            let handle = Handle(r.array("handle")?);
            let secret = match kind {
                KEY => Secret::OneTime(r.array("secret")?),
                SHARED_PAIR => Secret::Shared(r.array("secret")?),
                _ => Secret::OnToken,
            };
            r.clone().finish("key")?;
            Ok(Some(Self { handle, secret }))
        };
        read(&mut r)
            .map_err(SheetFault::Malformed)?
            .ok_or(SheetFault::OtherKind)
    }
}

impl Head {
    /// Its line. None if there are more addresses than [`HOSTS_MAX`] or one is too long.
    pub fn to_line(&self) -> Option<String> {
        let is_fit = |it: &String| (1..=ADDRESS_MAX).contains(&it.len());
        if self.addresses.len() > HOSTS_MAX || !self.addresses.iter().all(is_fit) {
            return None;
        }
        let mut w = Writer::new();
        w.u8(HEAD);
        w.bytes(&self.host.sealing.0);
        w.bytes(&self.host.signing.0);
        w.bytes(&self.target.0.0);
        w.u64(u64::try_from(self.not_after.0).unwrap_or(0));
        w.u8(self.addresses.len() as u8);
        for address in &self.addresses {
            w.u8(address.len() as u8);
            w.bytes(address.as_bytes());
        }
        Some(to_line(w.as_slice()).to_string())
    }
}

impl FromStr for Head {
    type Err = SheetFault;

    fn from_str(line: &str) -> Result<Self, SheetFault> {
        let octets = of_line(line)?;
        let mut r = Reader::new(&octets);
        let mut read = || -> Result<Option<Self>, Malformed> {
            if r.u8("kind of line")? != HEAD {
                return Ok(None);
            }
            let host = Identity {
                sealing: hpke::PublicKey(r.array("host's sealing key")?),
                signing: VerifyKey(r.array("host's signing key")?),
            };
            let target = Fingerprint(Digest(r.array("target's fingerprint")?));
            let not_after = super::calendar(r.u64("time")?);
            let count = usize::from(r.u8("number of hosts")?);
            if count > HOSTS_MAX {
                return Err(Malformed::TooMany("hosts of a sheet"));
            }
            let addresses = (0..count).map(|_| address(&mut r));
            let addresses = addresses.collect::<Result<_, _>>()?;
            r.clone().finish("head")?;
            Ok(Some(Self {
                host,
                addresses,
                target,
                not_after,
            }))
        };
        read()
            .map_err(SheetFault::Malformed)?
            .ok_or(SheetFault::OtherKind)
    }
}

fn address(r: &mut Reader<'_>) -> Result<String, Malformed> {
    let len = usize::from(r.u8("length of an address")?);
    let text = core::str::from_utf8(r.take(len, "address")?);
    match text {
        Ok(text) if wire::agent::is_text(text) && len <= ADDRESS_MAX => Ok(text.to_owned()),
        _ => Err(Malformed::Value("address of a host")),
    }
}

/// The line is made without a buffer that grows, so that no copy of a secret stays behind.
fn to_line(octets: &[u8]) -> Zeroizing<String> {
    let check = digest(&[octets]);
    let len = START.len() + ((octets.len() + CHECK_LEN) * 8).div_ceil(5);
    let mut line = Zeroizing::new(String::with_capacity(len));
    let _ = line.write_str(START);
    let (mut bits, mut count) = (0u32, 0);
    for octet in octets.iter().chain(&check.0[..CHECK_LEN]) {
        bits = bits << 8 | u32::from(*octet);
        count += 8;
        while count >= 5 {
            count -= 5;
            line.push(ALPHABET[(bits >> count & 31) as usize].into());
        }
    }
    if count > 0 {
        line.push(ALPHABET[(bits << (5 - count) & 31) as usize].into());
    }
    bits.zeroize();
    line
}

/// Lower case, spaces and dashes between characters are accepted: people type it.
fn of_line(line: &str) -> Result<Zeroizing<Vec<u8>>, SheetFault> {
    if line.len() > LINE_MAX {
        return Err(SheetFault::NotALine);
    }
    let line = line.trim();
    let text = match line.split_at_checked(START.len()) {
        Some((start, text)) if start.eq_ignore_ascii_case(START) => text,
        _ => return Err(SheetFault::NotALine),
    };
    let mut octets = Zeroizing::new(Vec::with_capacity(text.len()));
    let (mut bits, mut count) = (0u32, 0);
    for c in text.bytes().filter(|c| !b" -".contains(c)) {
        let value = ALPHABET
            .iter()
            .position(|one| *one == c.to_ascii_uppercase());
        let value = value.ok_or(SheetFault::NotALine)?;
        bits = bits << 5 | value as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            octets.push((bits >> count) as u8);
        }
    }
    let is_clean = count < 5 && bits & ((1 << count) - 1) == 0;
    bits.zeroize();
    let at = octets.len().checked_sub(CHECK_LEN);
    let at = at.filter(|_| is_clean).ok_or(SheetFault::WrongCheck)?;
    if digest(&[&octets[..at]]).0[..CHECK_LEN] != octets[at..] {
        return Err(SheetFault::WrongCheck);
    }
    octets.truncate(at);
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            host: Identity {
                sealing: hpke::PublicKey([1; 32]),
                signing: VerifyKey([2; 32]),
            },
            addresses: vec!["host.example:51516".into(), "[2001:db8::1]:51516".into()],
            target: Fingerprint(Digest([3; 32])),
            not_after: Calendar(1_800_000_000),
        }
    }

    /// The text of RFC 4648 §10, with four octets that are a check by themselves.
    #[test]
    fn base32_is_as_published() {
        let line = to_line(b"foobar");
        assert!(line.starts_with("CTA1:MZXW6YTB"), "{}", *line);
        assert_eq!(*of_line(&line).unwrap(), b"foobar");
    }

    #[test]
    fn lines_read_back_also_as_people_type_them() {
        let line = head().to_line().unwrap();
        assert_eq!(line.parse(), Ok(head()));
        assert!(line.len() < LINE_MAX);
        assert!(
            line.bytes()
                .all(|c| b":".contains(&c) || c.is_ascii_alphanumeric())
        );
        let secrets = [
            Secret::OneTime([7; 32]),
            Secret::OnToken,
            Secret::Shared([8; 32]),
        ];
        for secret in secrets {
            let handle = Handle([9; 16]);
            let key = Key { handle, secret };
            let line = key.to_line();
            let spaced: String = line
                .char_indices()
                .flat_map(|(at, c)| {
                    [' ']
                        .into_iter()
                        .filter(move |_| at > 5 && at % 4 == 0)
                        .chain([c])
                })
                .collect();
            let read: Key = spaced.to_lowercase().parse().unwrap();
            assert_eq!(*read.to_line(), *line);
            let public = |key: &Key| key.signing().map(|it| it.public());
            assert_eq!(public(&read), public(&key));
            assert!(matches!(line.parse::<Head>(), Err(SheetFault::OtherKind)));
        }
        let wrong: Result<Key, _> = line.parse();
        assert!(matches!(wrong, Err(SheetFault::OtherKind)));
    }

    #[test]
    fn a_typing_error_is_found() {
        let line = head().to_line().unwrap();
        for at in 0..line.len() {
            let mut typed = line.clone().into_bytes();
            typed[at] = if typed[at] == b'A' { b'B' } else { b'A' };
            let typed = String::from_utf8(typed).unwrap();
            assert!(typed.parse::<Head>().is_err(), "{at}");
            assert!(line[..at].parse::<Head>().is_err(), "{at}");
        }
        let many = Head {
            addresses: vec!["a:1".into(); HOSTS_MAX + 1],
            ..head()
        };
        assert_eq!(many.to_line(), None);
        assert!("CTA1:".parse::<Key>().is_err());
        assert!(line.replace("CTA1", "CTA2").parse::<Head>().is_err());
    }
}

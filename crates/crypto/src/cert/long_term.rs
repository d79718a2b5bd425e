//! Long-term Diffie-Hellman keys in PEM: PKCS #8 for the pair, SubjectPublicKeyInfo for the public
//! value, and X.509 certificates.
//!
//! Curve25519 as RFC 8410 has it. SKIP's groups as PKCS #3 has Diffie-Hellman, with p and g.
//! RFC 3279 §2.3.3 wants a prime order q of the generator as well; in SKIP's group of 2048 bits, 2
//! generates all p - 1 values, so there is no such q. Only our groups are read.

use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::dh::BadPublicValue;
use crate::dh::long_term::{Group, LongTermKey, SECRET_LEN};
use crate::hash::Hash;

/// Why a text has no long-term key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LongTermFault {
    /// No PEM object of the wanted kind.
    #[error("it contains no {0} in PEM")]
    Missing(&'static str),
    /// Another algorithm, another group, or another encoding.
    #[error("it is no key on Curve25519 and of no group of SKIP")]
    OtherKey,
    /// A public value that the group does not have.
    #[error(transparent)]
    BadPublicValue(#[from] BadPublicValue),
}

/// The pair in PEM, for a file that only the owner may read.
pub fn private_pem(key: &LongTermKey) -> Zeroizing<String> {
    let secret = match key.group() {
        Group::Curve25519 => Zeroizing::new(der(OCTETS, &[key.secret()])),
        Group::Skip1024 | Group::Skip2048 => integer(key.secret()),
    };
    let wrapped = Zeroizing::new(der(OCTETS, &[&secret]));
    let parts: [&[u8]; 3] = [&VERSION_0, &algorithm(key.group()), &wrapped];
    let info = Zeroizing::new(der(SEQUENCE, &parts));
    Zeroizing::new(pem::encode(&pem::Pem::new(PRIVATE, &info[..])))
}

/// A public value in PEM.
pub fn public_pem(group: Group, public: &[u8]) -> String {
    pem::encode(&pem::Pem::new(PUBLIC, public_info(group, public)))
}

/// Reads what [`private_pem`] has written.
pub fn read_private(text: &str) -> Result<LongTermKey, LongTermFault> {
    let object = first(text, &[PRIVATE])?;
    of_private(&Zeroizing::new(object.contents))
}

/// The group and the public value of the first public key or certificate in a text. A certificate
/// is not checked.
pub fn read_public(text: &str) -> Result<(Group, Vec<u8>), LongTermFault> {
    let object = first(text, &[PUBLIC, CERTIFICATE])?;
    if object.label == PUBLIC {
        return of_public(&object.contents);
    }
    let read = X509Certificate::from_der(&object.contents);
    let (_, certificate) = read.map_err(|_| LongTermFault::OtherKey)?;
    of_public(certificate.public_key().raw)
}

/// The name of a public value in NSID 8: its MD5 (draft-ietf-ipsec-skip-06).
pub fn mkid(public: &[u8]) -> [u8; 16] {
    let digest = Hash::Md5.digest(&[public]);
    digest.as_ref().try_into().expect("MD5 has 16 octets")
}

pub(super) fn of_private(info: &[u8]) -> Result<LongTermKey, LongTermFault> {
    let info = only(info, SEQUENCE)?;
    let rest = info.strip_prefix(&VERSION_0[..]);
    let rest = rest.ok_or(LongTermFault::OtherKey)?;
    let (group, rest) = strip_algorithm(rest)?;
    let wrapped = only(rest, OCTETS)?;
    let secret = match group {
        Group::Curve25519 => only(wrapped, OCTETS)?,
        // Exponents have their first bit set, so a zero octet comes before it.
        Group::Skip1024 | Group::Skip2048 => match only(wrapped, INTEGER)? {
            [0, secret @ ..] if secret.first().is_some_and(|first| first & 0x80 != 0) => secret,
            _ => return Err(LongTermFault::OtherKey),
        },
    };
    let secret: &[u8; SECRET_LEN] = secret.try_into().map_err(|_| LongTermFault::OtherKey)?;
    Ok(LongTermKey::of(group, secret))
}

pub(super) fn of_public(info: &[u8]) -> Result<(Group, Vec<u8>), LongTermFault> {
    let (group, rest) = strip_algorithm(only(info, SEQUENCE)?)?;
    let bits = only(rest, BITS)?.strip_prefix(&[0]);
    let bits = bits.ok_or(LongTermFault::OtherKey)?;
    let value = match group {
        Group::Curve25519 => bits.to_vec(),
        Group::Skip1024 | Group::Skip2048 => {
            let octets = only(bits, INTEGER)?;
            let octets = octets.strip_prefix(&[0]).unwrap_or(octets);
            let mut value = vec![0; group.len().saturating_sub(octets.len())];
            value.extend_from_slice(octets);
            value
        }
    };
    group.check(&value)?;
    // Anything else than the one encoding of this value is refused.
    match public_info(group, &value) == info {
        true => Ok((group, value)),
        false => Err(LongTermFault::OtherKey),
    }
}

/// SubjectPublicKeyInfo (RFC 5280 §4.1.2.7).
pub(super) fn public_info(group: Group, public: &[u8]) -> Vec<u8> {
    let value = match group {
        Group::Curve25519 => Zeroizing::new(public.to_vec()),
        Group::Skip1024 | Group::Skip2048 => integer(public),
    };
    let bits = der(BITS, &[&[0], &value]);
    der(SEQUENCE, &[&algorithm(group), &bits])
}

fn first(text: &str, labels: &[&'static str]) -> Result<Pem, LongTermFault> {
    let missing = LongTermFault::Missing(match labels {
        [label] => label,
        _ => "public key or certificate",
    });
    let objects = Pem::iter_from_buffer(text.as_bytes());
    let mut objects = objects.map_while(Result::ok);
    objects
        .find(|object| labels.contains(&object.label.as_str()))
        .ok_or(missing)
}

fn strip_algorithm(octets: &[u8]) -> Result<(Group, &[u8]), LongTermFault> {
    let mut all = Group::ALL.into_iter();
    all.find_map(|group| Some((group, octets.strip_prefix(&algorithm(group)[..])?)))
        .ok_or(LongTermFault::OtherKey)
}

/// AlgorithmIdentifier (RFC 8410 §3; PKCS #3's dhKeyAgreement with p and g).
fn algorithm(group: Group) -> Vec<u8> {
    match group.prime() {
        None => der(SEQUENCE, &[&X25519]),
        Some(prime) => {
            let parameters = der(SEQUENCE, &[&integer(prime), &integer(&[2])]);
            der(SEQUENCE, &[&DH_KEY_AGREEMENT, &parameters])
        }
    }
}

/// The shortest encoding of a positive number.
fn integer(octets: &[u8]) -> Zeroizing<Vec<u8>> {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let octets = &octets[zeros..];
    let is_negative = octets.first().is_none_or(|first| first & 0x80 != 0);
    let sign: &[u8] = if is_negative { &[0] } else { &[] };
    Zeroizing::new(der(INTEGER, &[sign, octets]))
}

/// A DER value of less than 64 KB.
pub(super) fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let [high, low] = (len as u16).to_be_bytes();
    let head: &[u8] = match len {
        0..0x80 => &[tag, low],
        0x80..0x100 => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    // One allocation, so that no copy of a secret is left behind.
    let mut octets = Vec::with_capacity(head.len() + len);
    octets.extend_from_slice(head);
    parts.iter().for_each(|part| octets.extend_from_slice(part));
    octets
}

/// The content of the only value, which has this tag and less than 64 KB.
pub(super) fn only(octets: &[u8], tag: u8) -> Result<&[u8], LongTermFault> {
    let (content, len) = match *octets {
        [it, 0x82, high, low, ref rest @ ..] if it == tag => {
            (rest, usize::from(u16::from_be_bytes([high, low])))
        }
        [it, 0x81, len, ref rest @ ..] if it == tag => (rest, usize::from(len)),
        [it, len @ 0..=0x7f, ref rest @ ..] if it == tag => (rest, usize::from(len)),
        _ => return Err(LongTermFault::OtherKey),
    };
    match content.len() == len {
        true => Ok(content),
        false => Err(LongTermFault::OtherKey),
    }
}

const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";
const CERTIFICATE: &str = "CERTIFICATE";
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
pub(super) const BITS: u8 = 0x03;
pub(super) const SEQUENCE: u8 = 0x30;
const VERSION_0: [u8; 3] = [INTEGER, 1, 0];
/// 1.3.101.110
const X25519: [u8; 5] = [0x06, 3, 0x2b, 0x65, 0x6e];
/// 1.2.840.113549.1.3.1
const DH_KEY_AGREEMENT: [u8; 11] = [
    0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x03, 0x01,
];

#[cfg(test)]
mod tests;

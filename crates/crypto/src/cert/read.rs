//! Reads certificates and revocation lists, and extracts once all that the path check needs.

use std::net::IpAddr;
use std::sync::Arc;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension, X509Extension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::name::text_of;
use super::purpose::Purposes;
use super::signed::{Signed, VerifyKey};
use super::{CertFault, Name};
use crate::hash::Hash;
use crate::rsa::{PublicKey, RsaFault};
use crate::sign;

/// A parsed certificate.
#[derive(Clone)]
pub struct Certificate {
    der: Vec<u8>,
    pub(super) facts: Facts,
}

/// A parsed revocation list.
#[derive(Clone)]
pub struct RevocationList {
    der: Vec<u8>,
    /// DER of the authority's name.
    pub(super) issuer: Vec<u8>,
    pub(super) issuer_text: String,
    pub(super) this_update: i64,
    pub(super) next_update: Option<i64>,
    pub(super) signed: Signed,
    /// Serial number and time of revocation, in order.
    revoked: Vec<(Vec<u8>, i64)>,
}

/// What a certificate says.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) subject_text: String,
    pub(super) issuer: Vec<u8>,
    pub(super) issuer_text: String,
    /// Without leading zeros.
    pub(super) serial: Vec<u8>,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) spki: Vec<u8>,
    /// The key and name with which it signs, if it may sign.
    pub(super) signer: Arc<Signer>,
    pub(super) signed: Signed,
    pub(super) extensions: Extensions,
}

/// A name and a key that sign certificates or lists. Issued objects keep it, so that a later list
/// can be checked when the issuer's certificate is gone.
pub(super) struct Signer {
    /// DER of the subject.
    pub(super) name: Vec<u8>,
    /// The subject as text.
    pub(super) text: String,
    pub(super) key: VerifyKey,
    pub(super) signs_revocations: bool,
}

/// What a certificate's extensions say.
#[derive(Clone, Default)]
pub(super) struct Extensions {
    /// Basic constraints.
    pub(super) is_authority: bool,
    pub(super) path_len: Option<u32>,
    pub(super) usage: Option<Usage>,
    /// The purposes of its extended key usage.
    pub(super) purposes: Purposes,
    pub(super) has_name_constraints: bool,
    /// The first critical extension that we do not process.
    pub(super) unknown_critical: Option<String>,
    /// The name of its own key.
    key_id: Option<Vec<u8>>,
    /// The name of its issuer's key.
    issuer_key_id: Option<Vec<u8>>,
    /// Subject alternative names.
    names: Vec<Name>,
}

/// Key usage, as far as it matters here.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub(super) signs: bool,
    pub(super) signs_certificates: bool,
    pub(super) signs_revocations: bool,
}

/// Octets of a certificate at most.
const MAX_CERTIFICATE: usize = 64 << 10;
/// Octets of a revocation list at most.
const MAX_REVOCATION_LIST: usize = 32 << 20;

impl Certificate {
    /// Reads DER without trailing octets.
    pub fn from_der(der: &[u8]) -> Result<Self, CertFault> {
        if der.len() > MAX_CERTIFICATE {
            return Err(unreadable("longer than 64 KiB"));
        }
        let (rest, read) =
            X509Certificate::from_der(der).map_err(|fault| unreadable(&fault.to_string()))?;
        if !rest.is_empty() {
            return Err(unreadable("octets follow it"));
        }
        if !ends_in(der, &read.signature_value.data) {
            return Err(unreadable("its signature is no BIT STRING"));
        }
        Ok(Self {
            der: der.to_vec(),
            facts: Facts::of(&read)?,
        })
    }

    /// Reads all certificates of a PEM text, in order. Skips other blocks; a text without a
    /// certificate is an error.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, CertFault> {
        let mut all = Vec::new();
        for block in Pem::iter_from_buffer(text.as_bytes()) {
            let block = block.map_err(|fault| unreadable(&fault.to_string()))?;
            if matches!(block.label.as_str(), "CERTIFICATE" | "X509 CERTIFICATE") {
                all.push(Self::from_der(&block.contents)?);
            }
            // The block may have been a private key.
            drop(zeroize::Zeroizing::new(block.contents));
        }
        match all.is_empty() {
            true => Err(unreadable("no CERTIFICATE in the text")),
            false => Ok(all),
        }
    }

    /// DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// DER of the subject's name, as an ID payload carries it.
    pub fn subject_der(&self) -> Vec<u8> {
        self.facts.signer.name.clone()
    }

    /// The end of its validity, seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.facts.not_after
    }

    /// Whether it may issue certificates (basic constraints).
    pub fn is_authority(&self) -> bool {
        self.facts.extensions.is_authority
    }

    /// The subject as text (RFC 4514 order as strongSwan prints it: "C=CH, O=x, CN=y").
    pub fn subject(&self) -> String {
        self.facts.subject_text.clone()
    }

    /// Subject and SANs.
    pub fn names(&self) -> Vec<Name> {
        let subject = Name::Subject(self.subject_der());
        let mut names = vec![subject];
        names.extend(self.facts.extensions.names.iter().cloned());
        names
    }

    /// The key, of any kind that signs.
    pub fn signature_key(&self) -> Result<sign::PublicKey, CertFault> {
        sign::PublicKey::from_spki(&self.facts.spki).map_err(|fault| CertFault::KeyUnsupported {
            subject: self.subject(),
            why: fault.to_string(),
        })
    }

    /// The name of its key: SHA-1 of the SubjectPublicKeyInfo, as CERTREQ names authorities (RFC
    /// 7296 §3.7).
    pub fn key_hash(&self) -> [u8; 20] {
        let digest = Hash::Sha1.digest(&[&self.facts.spki]);
        digest.as_ref().try_into().expect("a digest of 20 octets")
    }

    /// The RSA key.
    pub fn public_key(&self) -> Result<PublicKey, CertFault> {
        PublicKey::from_spki(&self.facts.spki).map_err(|fault| {
            let why = match fault {
                RsaFault::NotAKey => "not RSA".into(),
                other => other.to_string(),
            };
            let subject = self.subject();
            CertFault::KeyUnsupported { subject, why }
        })
    }
}

impl RevocationList {
    /// Reads DER or PEM.
    pub fn parse(bytes: &[u8]) -> Result<Self, CertFault> {
        if bytes.len() > MAX_REVOCATION_LIST {
            return Err(unreadable("a revocation list longer than 32 MiB"));
        }
        // DER begins with the tag of a SEQUENCE, 0x30, which is a digit in text.
        let is_der = bytes
            .get(..2)
            .is_some_and(|front| front[0] == 0x30 && front[1] >= 0x80);
        if is_der {
            return Self::from_der(bytes);
        }
        Pem::iter_from_buffer(bytes)
            .map_while(Result::ok)
            .find(|block| block.label == "X509 CRL")
            .ok_or_else(|| unreadable("not a revocation list in DER or PEM"))
            .and_then(|block| Self::from_der(&block.contents))
    }

    /// DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Orders lists of one authority: the newer one wins; at equal age, the one that is in force
    /// longer, then the one that names more.
    pub(super) fn rank(&self) -> (i64, i64, usize) {
        let end = self.next_update.unwrap_or(i64::MAX);
        (self.this_update, end, self.revoked.len())
    }

    /// When a serial number without leading zeros was revoked.
    pub(super) fn revoked_at(&self, serial: &[u8]) -> Option<i64> {
        self.revoked
            .binary_search_by(|(revoked, _)| revoked.as_slice().cmp(serial))
            .ok()
            .map(|at| self.revoked[at].1)
    }

    fn from_der(der: &[u8]) -> Result<Self, CertFault> {
        let (rest, read) = CertificateRevocationList::from_der(der)
            .map_err(|fault| unreadable(&fault.to_string()))?;
        if !rest.is_empty() {
            return Err(unreadable("octets follow the revocation list"));
        }
        if !ends_in(der, &read.signature_value.data) {
            return Err(unreadable("the list's signature is no BIT STRING"));
        }
        let list = &read.tbs_cert_list;
        if list.signature != read.signature_algorithm {
            return Err(unreadable("two signature algorithms"));
        }
        // Delta and indirect lists have critical extensions, which are refused (RFC 5280 §5.2).
        let entries = list.revoked_certificates.iter();
        let extensions = entries.flat_map(|entry| entry.extensions());
        let mut all = list.extensions().iter().chain(extensions);
        let is_processed =
            |extension: &X509Extension<'_>| extension.oid.to_id_string() == REASON_CODE;
        if let Some(critical) = all.find(|one| one.critical && !is_processed(one)) {
            let text = format!("critical extension {} is not processed", critical.oid);
            return Err(unreadable(&text));
        }
        let mut revoked: Vec<_> = list
            .revoked_certificates
            .iter()
            .map(|entry| {
                let serial = without_zeros(entry.raw_serial()).to_vec();
                (serial, entry.revocation_date.timestamp())
            })
            .collect();
        revoked.sort();
        Ok(Self {
            der: der.to_vec(),
            issuer: list.issuer.as_raw().to_vec(),
            issuer_text: text_of(list.issuer.as_raw()),
            this_update: list.this_update.timestamp(),
            next_update: list.next_update.map(|time| time.timestamp()),
            signed: Signed::new(
                list.as_ref(),
                &read.signature_algorithm,
                &read.signature_value.data,
            ),
            revoked,
        })
    }
}

const REASON_CODE: &str = "2.5.29.21";

impl Facts {
    fn of(read: &X509Certificate<'_>) -> Result<Self, CertFault> {
        let body = &read.tbs_certificate;
        // RFC 5280 §4.1.1.2.
        if body.signature != read.signature_algorithm {
            return Err(unreadable("two signature algorithms"));
        }
        if body.issuer.iter_rdn().next().is_none() {
            return Err(unreadable("no issuer"));
        }
        let extensions = Extensions::of(body.extensions())?;
        let subject_text = text_of(body.subject.as_raw());
        let signer = Arc::new(Signer {
            name: body.subject.as_raw().to_vec(),
            text: subject_text.clone(),
            key: VerifyKey::new(&body.subject_pki),
            signs_revocations: extensions.usage.is_none_or(|usage| usage.signs_revocations),
        });
        Ok(Self {
            subject_text,
            issuer: body.issuer.as_raw().to_vec(),
            issuer_text: text_of(body.issuer.as_raw()),
            serial: without_zeros(body.raw_serial()).to_vec(),
            not_before: body.validity.not_before.timestamp(),
            not_after: body.validity.not_after.timestamp(),
            spki: body.subject_pki.raw.to_vec(),
            signer,
            signed: Signed::new(
                body.as_ref(),
                &read.signature_algorithm,
                &read.signature_value.data,
            ),
            extensions,
        })
    }
}

impl Extensions {
    /// Whether the issuer's key has another name than `issuer`'s. Not if one of them has none.
    pub(super) fn names_other_key(&self, issuer: &Self) -> bool {
        let both = self.issuer_key_id.as_ref().zip(issuer.key_id.as_ref());
        both.is_some_and(|(wanted, found)| wanted != found)
    }

    fn of(extensions: &[X509Extension<'_>]) -> Result<Self, CertFault> {
        let mut all = Self::default();
        for (at, extension) in extensions.iter().enumerate() {
            let oid = &extension.oid;
            // RFC 5280 §4.2.
            if extensions[..at].iter().any(|other| other.oid == *oid) {
                return Err(unreadable(&format!("extension {oid} comes twice")));
            }
            if !all.take(extension.parsed_extension())? && extension.critical {
                all.unknown_critical.get_or_insert(oid.to_string());
            }
        }
        Ok(all)
    }

    /// Returns whether the extension is processed.
    fn take(&mut self, extension: &ParsedExtension<'_>) -> Result<bool, CertFault> {
        match extension {
            ParsedExtension::BasicConstraints(basic) => {
                self.is_authority = basic.ca;
                self.path_len = basic.path_len_constraint;
            }
            ParsedExtension::KeyUsage(usage) => {
                self.usage = Some(Usage {
                    signs: usage.digital_signature() || usage.non_repudiation(),
                    signs_certificates: usage.key_cert_sign(),
                    signs_revocations: usage.crl_sign(),
                });
            }
            ParsedExtension::ExtendedKeyUsage(purposes) => {
                self.purposes = Purposes::of(purposes);
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                self.names = names.general_names.iter().filter_map(name_of).collect();
            }
            // Refused in an authority, critical or not.
            ParsedExtension::NameConstraints(_) => self.has_name_constraints = true,
            // Any policy is accepted, so these restrict nothing (RFC 5280 §6.1.1 (c)).
            ParsedExtension::CertificatePolicies(_) => {}
            // They only tell why a signature is not the issuer's.
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                self.issuer_key_id = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            ParsedExtension::SubjectKeyIdentifier(id) => self.key_id = Some(id.0.to_vec()),
            // They help to find other certificates and lists, and limit nothing here.
            ParsedExtension::IssuerAlternativeName(_)
            | ParsedExtension::CRLDistributionPoints(_)
            | ParsedExtension::AuthorityInfoAccess(_) => {}
            ParsedExtension::ParseError { .. } => {
                return Err(unreadable("an extension does not read"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A name that an identity may match. `None` for one that can be read in two ways.
fn name_of(name: &GeneralName<'_>) -> Option<Name> {
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
    match name {
        GeneralName::DNSName(text) if is_plain(text) => Some(Name::Dns((*text).into())),
        GeneralName::RFC822Name(text) if is_plain(text) => Some(Name::Email((*text).into())),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from))
                .ok()
                .map(Name::Address)
        }
        _ => None,
    }
}

/// Whether `der` ends in a BIT STRING of whole octets around `signature`. The signature does not
/// cover its own encoding, so only one form may pass.
fn ends_in(der: &[u8], signature: &[u8]) -> bool {
    let len = signature.len() + 1;
    let head: &[u8] = match len {
        0..=0x7f => &[0x03, len as u8, 0],
        0x80..=0xff => &[0x03, 0x81, len as u8, 0],
        _ => &[0x03, 0x82, (len >> 8) as u8, len as u8, 0],
    };
    der.strip_suffix(signature)
        .is_some_and(|front| front.ends_with(head))
}

fn without_zeros(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|octet| **octet == 0).count();
    &serial[zeros..]
}

fn unreadable(why: &str) -> CertFault {
    CertFault::Unreadable(why.into())
}

#[cfg(test)]
mod tests;

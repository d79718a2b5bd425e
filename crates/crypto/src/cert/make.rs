//! Making keys, certificates and revocation lists for IKE (RFC 4945, RFC 5280), over rcgen.
//!
//! Keys of RSA, which sign with SHA-256, and of ML-DSA (RFC 9881). Serial numbers and times are
//! arguments; only making a key uses the randomness of the operating system, through aws-lc. Left
//! out: subordinate authorities, ECDSA and Ed25519, and requests with keys of ML-DSA.

mod key;

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    SubjectPublicKeyInfo,
};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::long_term;
use crate::dh::long_term::Group;
use crate::hash::Hash;

pub use key::SigningKey;
use key::{PublicKey, rsa_only};

/// Certificates are valid from a little before they are made, because clocks differ.
const BACKDATE_SECONDS: i64 = 300;
/// RFC 5280 §4.1.2.2.
const SERIAL_BYTES_MAX: usize = 20;
/// id-kp-ipsecIKE (RFC 4945 §5.1.3.12).
const IPSEC_IKE: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 3, 17];
/// Why something cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeFault {
    /// A key length that we do not make.
    #[error("RSA keys have 2048, 3072 or 4096 bits, not {0}")]
    KeyBits(u32),
    /// A subject that cannot be read.
    #[error("subject {0:?}: {1}")]
    Subject(String, &'static str),
    /// A subject alternative name that no certificate can carry.
    #[error("{0:?} is no address, host name or mail address")]
    AlternativeName(String),
    /// A key in a form or of a kind that we do not use.
    #[error("not a key of RSA or ML-DSA in PEM: {0}")]
    Key(String),
    /// A request that cannot be read, or that is not signed by its own key.
    #[error("not a certificate request in PEM: {0}")]
    Request(String),
    /// A certificate that cannot be read.
    #[error("not a certificate in PEM: {0}")]
    Certificate(String),
    /// Serial numbers have 1 to 20 bytes.
    #[error("a serial number has 1 to 20 bytes, not {0}")]
    Serial(usize),
    /// A time outside the calendar, or an end before the beginning.
    #[error("{0} days of validity")]
    Days(u32),
    /// The same of a certificate of minutes.
    #[error("a certificate cannot end at second {0} since 1970")]
    End(i64),
    /// rcgen refused.
    #[error("cannot sign: {0}")]
    Signing(String),
}

/// The key that a certificate gets.
pub enum KeyMaterial<'a> {
    /// One of ours.
    Pair(&'a SigningKey),
    /// A long-term Diffie-Hellman key of SKIP.
    LongTerm {
        /// Its group.
        group: Group,
        /// Its public value.
        public: &'a [u8],
    },
    /// PEM text of another party's public key (`PUBLIC KEY`) or private key.
    Pem(&'a str),
    /// A PKCS #10 request, whose signature is checked.
    SigningRequest {
        /// PEM text.
        pem: &'a str,
        /// Whether the certificate takes its names from the signing request, which anybody may have
        /// written, instead of from the [`Request`].
        takes_names: bool,
    },
}

/// What an authority is asked to certify.
pub struct Request<'a> {
    /// `C=GR, O=x, CN=ms`
    pub subject: &'a str,
    /// Addresses, host names, mail addresses.
    pub alternative_names: &'a [String],
    /// The key.
    pub key: KeyMaterial<'a>,
    /// 1 to 20 bytes that this authority never used before.
    pub serial: &'a [u8],
    /// Seconds since 1970.
    pub now: i64,
    /// Validity from `now` on.
    pub days: u32,
}

impl Request<'_> {
    /// Sets the names of the certificate.
    fn name(&self, params: &mut CertificateParams) -> Result<(), MakeFault> {
        if let KeyMaterial::SigningRequest {
            pem,
            takes_names: true,
        } = self.key
        {
            let asked = signing_request(pem)?.params;
            params.distinguished_name = asked.distinguished_name;
            params.subject_alt_names = asked.subject_alt_names;
            let has_subject = params.distinguished_name.iter().next().is_some();
            return match has_subject || !params.subject_alt_names.is_empty() {
                true => Ok(()),
                false => Err(MakeFault::Request("it names nobody".to_owned())),
            };
        }
        params.distinguished_name = distinguished_name(self.subject)?;
        let names = self.alternative_names.iter();
        params.subject_alt_names = names
            .map(|name| alternative_name(name))
            .collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// A certificate of minutes: for one tunnel of one guest, who has made the key himself.
pub struct GuestRequest<'a> {
    /// Common name.
    pub subject: &'a str,
    /// User@Host, as a mail address.
    pub identity: &'a str,
    /// SubjectPublicKeyInfo of an RSA key, DER.
    pub public_info: &'a [u8],
    /// 1 to 20 bytes that this authority never used before.
    pub serial: &'a [u8],
    /// Seconds since 1970.
    pub now: i64,
    /// Not after.
    pub until: i64,
}

/// A certificate that is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedEntry {
    /// Its serial number.
    pub serial: Vec<u8>,
    /// When it was revoked, seconds since 1970.
    pub at: i64,
}

/// An authority: its certificate and its key.
pub struct Authority {
    certificate_pem: String,
    key: SigningKey,
}

impl Authority {
    /// Makes a new, self-signed authority.
    pub fn create(
        subject: &str,
        key: SigningKey,
        serial: &[u8],
        now: i64,
        days: u32,
    ) -> Result<Self, MakeFault> {
        let mut params = params(serial, now, days)?;
        params.distinguished_name = distinguished_name(subject)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let made = params
            .self_signed(&key)
            .map_err(|error| MakeFault::Signing(error.to_string()))?;
        let certificate_pem = made.pem();
        Ok(Self {
            certificate_pem,
            key,
        })
    }

    /// Loads an existing authority.
    pub fn load(certificate_pem: &str, key_pem: &str) -> Result<Self, MakeFault> {
        let authority = Self {
            certificate_pem: certificate_pem.to_owned(),
            key: SigningKey::from_pem(key_pem)?,
        };
        authority.issuer()?;
        Ok(authority)
    }

    /// Its certificate.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its key.
    pub fn key_pem(&self) -> Zeroizing<String> {
        self.key.to_pem()
    }

    /// Its certificate, DER.
    pub fn certificate_der(&self) -> Result<Vec<u8>, MakeFault> {
        let read = x509_parser::pem::parse_x509_pem(self.certificate_pem.as_bytes());
        let (_, pem) = read.map_err(|error| MakeFault::Certificate(error.to_string()))?;
        Ok(pem.contents)
    }

    /// Issues a certificate of minutes, DER.
    pub fn issue_to_guest(&self, request: &GuestRequest<'_>) -> Result<Vec<u8>, MakeFault> {
        let mut params = params(request.serial, request.now, 1)?;
        if request.until <= request.now {
            return Err(MakeFault::End(request.until));
        }
        let until = OffsetDateTime::from_unix_timestamp(request.until);
        params.not_after = until.map_err(|_| MakeFault::End(request.until))?;
        let subject = DnValue::Utf8String(request.subject.to_owned());
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.subject_alt_names = vec![alternative_name(request.identity)?];
        use_for_ike(&mut params);
        let unreadable = |error: rcgen::Error| MakeFault::Key(error.to_string());
        let public = SubjectPublicKeyInfo::from_der(request.public_info).map_err(unreadable)?;
        rsa_only(&public)?;
        let signed = params.signed_by(&public, &self.issuer()?);
        let signed = signed.map_err(|error| MakeFault::Signing(error.to_string()))?;
        Ok(signed.der().to_vec())
    }

    /// Issues a certificate in PEM: for an end of an IKE connection, or for SKIP with keyAgreement
    /// alone.
    pub fn issue(&self, request: &Request<'_>) -> Result<String, MakeFault> {
        let mut params = params(request.serial, request.now, request.days)?;
        request.name(&mut params)?;
        use_for_ike(&mut params);
        let issuer = self.issuer()?;
        let signed = match request.key {
            KeyMaterial::Pair(pair) => params.signed_by(pair, &issuer),
            KeyMaterial::LongTerm { group, public } => {
                return self.certify_long_term(params, group, public);
            }
            KeyMaterial::Pem(text) if text.contains("PRIVATE KEY") => {
                params.signed_by(&SigningKey::from_pem(text)?, &issuer)
            }
            KeyMaterial::Pem(text) => params.signed_by(&PublicKey::from_pem(text)?, &issuer),
            KeyMaterial::SigningRequest { pem, .. } => {
                let public = signing_request(pem)?.public_key;
                rsa_only(&public)?;
                params.signed_by(&public, &issuer)
            }
        };
        signed
            .map(|certificate| certificate.pem())
            .map_err(|error| MakeFault::Signing(error.to_string()))
    }

    /// The certificate of a long-term public value: keyAgreement alone (RFC 8410 §5). Nobody has
    /// proven that they know the secret, because such a key cannot sign.
    fn certify_long_term(
        &self,
        mut params: CertificateParams,
        group: Group,
        public: &[u8],
    ) -> Result<String, MakeFault> {
        params.key_usages = vec![KeyUsagePurpose::KeyAgreement];
        params.extended_key_usages = Vec::new();
        let info = long_term::public_info(group, public);
        let digest = Hash::Sha256.digest(&[&info]);
        params.key_identifier_method = KeyIdMethod::PreSpecified(digest.as_ref()[..20].to_vec());
        // rcgen knows no such key: it makes the certificate with the authority's own key.
        let made = params.signed_by(&self.key, &self.issuer()?);
        let made = made.map_err(|error| MakeFault::Signing(error.to_string()))?;
        let signed = self.with_public_key(made.der(), &info)?;
        Ok(pem::encode(&pem::Pem::new("CERTIFICATE", signed)))
    }

    /// A certificate that we have made, with another public key and a new signature.
    fn with_public_key(&self, made: &[u8], info: &[u8]) -> Result<Vec<u8>, MakeFault> {
        let unreadable = |error: &dyn core::fmt::Display| MakeFault::Signing(error.to_string());
        let (_, read) = X509Certificate::from_der(made).map_err(|error| unreadable(&error))?;
        let (signed, own) = (read.tbs_certificate.as_ref(), read.public_key().raw);
        let at = signed.windows(own.len()).position(|window| window == own);
        let at = at.ok_or_else(|| unreadable(&"the public key is not in the certificate"))?;
        let content = long_term::only(signed, long_term::SEQUENCE);
        let content = content.map_err(|error| unreadable(&error))?;
        let start = signed.len() - content.len();
        let parts = [&signed[start..at], info, &signed[at + own.len()..]];
        let signed = long_term::der(long_term::SEQUENCE, &parts);
        let signature = rcgen::SigningKey::sign(&self.key, &signed);
        let signature = signature.map_err(|error| unreadable(&error))?;
        let signature = long_term::der(long_term::BITS, &[&[0], &signature]);
        let algorithm = self.key.signature_algorithm();
        let parts: [&[u8]; 3] = [&signed, &algorithm, &signature];
        Ok(long_term::der(long_term::SEQUENCE, &parts))
    }

    /// Makes a revocation list in PEM, in force for `days`. List numbers increase (RFC 5280
    /// §5.2.3).
    pub fn revocation_list(
        &self,
        revoked: &[RevokedEntry],
        number: u64,
        now: i64,
        days: u32,
    ) -> Result<String, MakeFault> {
        let revoked_certs = revoked
            .iter()
            .map(|entry| {
                Ok(RevokedCertParams {
                    serial_number: serial(&entry.serial)?,
                    revocation_time: moment(entry.at, days)?,
                    reason_code: None,
                    invalidity_date: None,
                })
            })
            .collect::<Result<_, MakeFault>>()?;
        let list = CertificateRevocationListParams {
            this_update: moment(now.saturating_sub(BACKDATE_SECONDS), days)?,
            next_update: moment(now.saturating_add(span(days)), days)?,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer()?)
            .and_then(|made| made.pem())
            .map_err(|error| MakeFault::Signing(error.to_string()))
    }

    fn issuer(&self) -> Result<Issuer<'_, &SigningKey>, MakeFault> {
        Issuer::from_ca_cert_pem(&self.certificate_pem, &self.key)
            .map_err(|error| MakeFault::Certificate(error.to_string()))
    }
}

/// The serial number of the first certificate in a PEM text.
pub fn read_serial(certificate_pem: &str) -> Result<Vec<u8>, MakeFault> {
    let unreadable = |error: String| MakeFault::Certificate(error);
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate_pem.as_bytes())
        .map_err(|error| unreadable(error.to_string()))?;
    let certificate = pem
        .parse_x509()
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(certificate.serial.to_bytes_be())
}

/// digitalSignature, both TLS usages and ipsecIKE, so that every IKE implementation takes it
/// (RFC 4945 §5.1.3).
fn use_for_ike(params: &mut CertificateParams) {
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
    ];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::Other(IPSEC_IKE.to_vec()),
    ];
    params.use_authority_key_identifier_extension = true;
}

fn params(number: &[u8], now: i64, days: u32) -> Result<CertificateParams, MakeFault> {
    let mut params = CertificateParams::default();
    params.not_before = moment(now.saturating_sub(BACKDATE_SECONDS), days)?;
    params.not_after = moment(now.saturating_add(span(days)), days)?;
    params.serial_number = Some(serial(number)?);
    Ok(params)
}

fn span(days: u32) -> i64 {
    i64::from(days) * 86_400
}

fn moment(seconds: i64, days: u32) -> Result<OffsetDateTime, MakeFault> {
    if days == 0 {
        return Err(MakeFault::Days(days));
    }
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| MakeFault::Days(days))
}

fn serial(bytes: &[u8]) -> Result<SerialNumber, MakeFault> {
    if bytes.is_empty() || bytes.len() > SERIAL_BYTES_MAX {
        return Err(MakeFault::Serial(bytes.len()));
    }
    Ok(SerialNumber::from_slice(bytes))
}

fn signing_request(text: &str) -> Result<CertificateSigningRequestParams, MakeFault> {
    CertificateSigningRequestParams::from_pem(text)
        .map_err(|error| MakeFault::Request(error.to_string()))
}

/// `C=GR, O=x, CN=y` in that order. A backslash takes the next character as it is.
fn distinguished_name(text: &str) -> Result<DistinguishedName, MakeFault> {
    let fault = |why| MakeFault::Subject(text.to_owned(), why);
    let mut name = DistinguishedName::new();
    for part in split(text) {
        let (kind, value) = part
            .split_once('=')
            .ok_or(fault("write C=GR, O=name, CN=name"))?;
        let (kind, value) = (kind.trim().to_uppercase(), value.trim());
        if value.is_empty() {
            return Err(fault("an attribute has no value"));
        }
        let kind = match kind.as_str() {
            "C" => DnType::CountryName,
            "ST" | "S" => DnType::StateOrProvinceName,
            "L" => DnType::LocalityName,
            "O" => DnType::OrganizationName,
            "OU" => DnType::OrganizationalUnitName,
            "CN" => DnType::CommonName,
            _ => return Err(fault("attributes are C, ST, L, O, OU and CN")),
        };
        if name.get(&kind).is_some() {
            return Err(fault("an attribute comes twice"));
        }
        // RFC 5280 appendix A: a country is a PrintableString. All others are UTF-8.
        let value = match kind {
            DnType::CountryName if value.len() != 2 => {
                return Err(fault("a country has two letters"));
            }
            DnType::CountryName => DnValue::PrintableString(
                value
                    .try_into()
                    .map_err(|_| fault("a country has two letters"))?,
            ),
            _ => DnValue::Utf8String(value.to_owned()),
        };
        name.push(kind, value);
    }
    match name.iter().next() {
        None => Err(fault("it is empty")),
        Some(_) => Ok(name),
    }
}

/// The parts between commas. A backslash protects a comma.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = parts.last_mut().expect("never empty");
        match character {
            ',' => parts.push(String::new()),
            '\\' => last.extend(characters.next()),
            other => last.push(other),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn alternative_name(text: &str) -> Result<SanType, MakeFault> {
    let fault = || MakeFault::AlternativeName(text.to_owned());
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    if text.contains('@') {
        return Ok(SanType::Rfc822Name(text.try_into().map_err(|_| fault())?));
    }
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
    if text.is_empty() || !text.chars().all(is_host) {
        return Err(fault());
    }
    Ok(SanType::DnsName(text.try_into().map_err(|_| fault())?))
}

#[cfg(test)]
mod tests;

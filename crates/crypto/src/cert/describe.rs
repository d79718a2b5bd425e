//! Describes the content of a PEM file in lines for people.

use core::fmt::Write as _;

use x509_parser::pem::Pem;
use x509_parser::prelude::{
    FromDer, GeneralName, ParsedExtension, SubjectAlternativeName, X509Certificate,
    X509CertificationRequest, X509Error,
};
use x509_parser::revocation_list::CertificateRevocationList;
use zeroize::Zeroizing;

use super::long_term;
use super::make::MakeFault;
use super::name::text_of;
use crate::dh::long_term::Group;
use crate::ml_dsa;
use crate::rsa::PrivateKey;

/// Objects of one file that are described at most.
const OBJECTS_MAX: usize = 64;

/// Describes each certificate, revocation list, request and key of a PEM text. Of a private key it
/// tells only the length.
pub fn describe(text: &str) -> Result<String, MakeFault> {
    let mut lines = String::new();
    for pem in Pem::iter_from_buffer(text.as_bytes()).take(OBJECTS_MAX) {
        let pem = pem.map_err(|error| MakeFault::Certificate(error.to_string()))?;
        let known = match pem.label.as_str() {
            "CERTIFICATE" => certificate(&pem.contents),
            "X509 CRL" => revocation_list(&pem.contents),
            "PUBLIC KEY" => Ok(long_term::of_public(&pem.contents).map_or_else(
                |_| "public key that no long-term key of SKIP is\n".to_owned(),
                |(group, value)| format!("public {}\n", long_term_value(group, &value)),
            )),
            "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => request(&pem.contents),
            _ => Ok(String::new()),
        };
        lines += &known.map_err(|error| MakeFault::Certificate(error.to_string()))?;
        let secret = Zeroizing::new(pem.contents);
        if pem.label.contains("PRIVATE KEY") {
            lines += &private_key(&secret);
        }
    }
    match lines.is_empty() {
        true => Err(MakeFault::Certificate(
            "it contains no certificate, request, list or key".to_owned(),
        )),
        false => Ok(lines),
    }
}

fn private_key(der: &[u8]) -> String {
    if let Ok(key) = long_term::of_private(der) {
        return format!("private {}\n", long_term_value(key.group(), key.public()));
    }
    if let Ok(key) = PrivateKey::from_der(der) {
        return format!("private RSA key, {} bits\n", key.public().bits());
    }
    match ml_dsa::SigningKey::from_pkcs8(der) {
        Some(key) => format!("private {} key\n", key.set().name()),
        None => "private key that IKEv1's RSA signatures cannot use\n".to_owned(),
    }
}

fn long_term_value(group: Group, public: &[u8]) -> String {
    let group = match group {
        Group::Skip1024 => "SKIP's group of 1024 bits",
        Group::Skip2048 => "SKIP's group of 2048 bits",
        Group::Curve25519 => "Curve25519",
    };
    let name = hex(&long_term::mkid(public));
    format!("long-term key on {group}\n  SKIP name (NSID 8): 8/{name}")
}

/// Says what a text contains that should hold an RSA key and holds none that we read, and what to
/// do. `None` if the content is unknown.
pub fn no_rsa_key(text: &str) -> Option<&'static str> {
    let has = |words: &str| text.contains(words);
    Some(match () {
        () if has("BEGIN ENCRYPTED PRIVATE KEY") || has("Proc-Type: 4,ENCRYPTED") => {
            "it is encrypted: `openssl rsa -in KEY -out FILE` takes the passphrase off"
        }
        () if has("BEGIN OPENSSH PRIVATE KEY") => {
            "it has OpenSSH's own form: `ssh-keygen -p -m PEM -f KEY` changes that"
        }
        () if has("BEGIN EC P") => "it is an EC key: IKEv1 signs with RSA",
        () if has("BEGIN RSA PUBLIC KEY") => {
            "`openssl rsa -RSAPublicKey_in -in KEY -pubout -out FILE` makes the form that is read"
        }
        () if has("BEGIN CERTIFICATE REQUEST") => "it is a certificate request",
        () if has("BEGIN CERTIFICATE") => "it is a certificate",
        () if has("BEGIN PRIVATE KEY") || has("BEGIN PUBLIC KEY") => {
            "IKEv1 signs with RSA, of 2048 bits and more: another kind or length of key"
        }
        () if has("-----BEGIN ") => return None,
        () => "it is not PEM, which begins with -----BEGIN",
    })
}

fn certificate(der: &[u8]) -> Result<String, X509Error> {
    let (_, read) = X509Certificate::from_der(der)?;
    let kind = match (read.is_ca(), read.subject() == read.issuer()) {
        (true, true) => "authority that signs itself",
        (true, false) => "authority",
        _ => "end entity",
    };
    let mut text = format!("certificate, {kind}\n");
    let validity = read.validity();
    let mut add = |name: &str, value: &str| text += &format!("  {name}: {value}\n");
    add("subject", &text_of(read.subject().as_raw()));
    add("issuer", &text_of(read.issuer().as_raw()));
    add("serial", &hex(&read.serial.to_bytes_be()));
    add(
        "valid",
        &format!("{} to {}", validity.not_before, validity.not_after),
    );
    let names = read
        .subject_alternative_name()?
        .map(|names| alternatives(names.value));
    if let Some(names) = names {
        add("names", &names);
    }
    if let Ok(x509_parser::public_key::PublicKey::RSA(key)) = read.public_key().parsed() {
        add("key", &format!("RSA, {} bits", key.key_size()));
    } else if let Some(key) = ml_dsa::VerifyKey::from_spki(read.public_key().raw) {
        add("key", key.set().name());
    } else if let Ok((group, value)) = long_term::of_public(read.public_key().raw) {
        add("key", &long_term_value(group, &value));
    }
    Ok(text)
}

fn revocation_list(der: &[u8]) -> Result<String, X509Error> {
    let (_, read) = CertificateRevocationList::from_der(der)?;
    let mut text = format!("revocation list of {}\n", text_of(read.issuer().as_raw()));
    let _ = writeln!(text, "  made: {}", read.last_update());
    if let Some(next) = read.next_update() {
        let _ = writeln!(text, "  next: {next}");
    }
    for revoked in read.iter_revoked_certificates() {
        let serial = hex(&revoked.serial().to_bytes_be());
        let _ = writeln!(text, "  revoked: {serial} at {}", revoked.revocation_date);
    }
    Ok(text)
}

fn request(der: &[u8]) -> Result<String, X509Error> {
    let (_, read) = X509CertificationRequest::from_der(der)?;
    let asked = &read.certification_request_info;
    let mut text = String::from("certificate request\n");
    let _ = writeln!(text, "  subject: {}", text_of(asked.subject.as_raw()));
    let extensions = read.requested_extensions().into_iter().flatten();
    let names = extensions.filter_map(|extension| match extension {
        ParsedExtension::SubjectAlternativeName(names) => Some(alternatives(names)),
        _ => None,
    });
    for names in names {
        let _ = writeln!(text, "  names: {names}");
    }
    if let Ok(x509_parser::public_key::PublicKey::RSA(key)) = asked.subject_pki.parsed() {
        let _ = writeln!(text, "  key: RSA, {} bits", key.key_size());
    }
    Ok(text)
}

fn alternatives(names: &SubjectAlternativeName<'_>) -> String {
    let all: Vec<String> = names.general_names.iter().map(alternative).collect();
    all.join(", ")
}

fn alternative(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
        GeneralName::IPAddress(octets) => match <[u8; 16]>::try_from(*octets) {
            Ok(octets) => std::net::Ipv6Addr::from(octets).to_string(),
            Err(_) => hex(octets),
        },
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) => {
            text.escape_debug().to_string()
        }
        GeneralName::URI(text) => format!("URI {}", text.escape_debug()),
        GeneralName::DirectoryName(name) => text_of(name.as_raw()),
        other => other.to_string().escape_debug().to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

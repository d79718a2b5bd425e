//! A configuration profile for iOS, iPadOS and macOS: the authority, the device's certificate, and
//! a VPN of type IKEv2 (Apple's Device Management, VPN.IKEv2).
//!
//! The groups are ones that a Caravan gateway accepts without configuration.

use plist::Value;

use super::{Part, Profile, Proof};

/// secp384r1, with AES-256-GCM and SHA2-384 for the IKE SA.
const IKE_GROUP: i64 = 20;
/// 2048-bit MODP: PFS of children.
const CHILD_GROUP: i64 = 14;

pub(super) fn render(profile: &Profile) -> anyhow::Result<(Vec<Part>, String)> {
    let mut octets = Vec::new();
    document(profile).to_writer_xml(&mut octets)?;
    octets.push(b'\n');
    let told = match profile.proof {
        Proof::Certificate { .. } => {
            "bring it to the device and open it there; the device asks for the password"
        }
        Proof::User(_) => {
            "bring it to the device and open it there; the device asks for the user's password"
        }
    };
    let part = Part::new(profile.file("mobileconfig"), octets);
    Ok((vec![part], told.to_owned()))
}

fn document(profile: &Profile) -> Value {
    let mut content = vec![payload(
        profile,
        "com.apple.security.root",
        "root",
        vec![("PayloadContent", data(&profile.authority))],
    )];
    if let Proof::Certificate { file, .. } = &profile.proof {
        // Without a password: the device asks for it.
        content.push(payload(
            profile,
            "com.apple.security.pkcs12",
            "certificate",
            vec![("PayloadContent", data(file))],
        ));
    }
    content.push(vpn(profile));
    let more = vec![
        ("PayloadContent", Value::Array(content)),
        ("PayloadRemovalDisallowed", Value::Boolean(false)),
    ];
    payload(profile, "Configuration", "profile", more)
}

/// A payload with what every one has.
fn payload(profile: &Profile, kind: &str, of: &str, more: Vec<(&str, Value)>) -> Value {
    let uuid = profile.uuid(of);
    let mut all = vec![
        ("PayloadType", text(kind)),
        ("PayloadVersion", number(1)),
        ("PayloadIdentifier", text(&format!("caravan.{uuid}"))),
        ("PayloadUUID", text(&uuid.to_uppercase())),
        ("PayloadDisplayName", text(profile.gateway_id.as_str())),
    ];
    all.extend(more);
    dictionary(all)
}

fn vpn(profile: &Profile) -> Value {
    let mut more = vec![
        ("UserDefinedName", text(profile.gateway_id.as_str())),
        ("VPNType", text("IKEv2")),
        ("IKEv2", ikev2(profile)),
    ];
    if profile.is_full() {
        let all = dictionary(vec![("OverridePrimary", number(1))]);
        more.push(("IPv4", all));
    }
    payload(profile, "com.apple.vpn.managed", "vpn", more)
}

fn ikev2(profile: &Profile) -> Value {
    let id = profile.gateway_id.as_str();
    let mut all = vec![
        ("RemoteAddress", text(profile.gateway.as_str())),
        ("RemoteIdentifier", text(id)),
        ("ServerCertificateCommonName", text(id)),
    ];
    if let Some(issuer) = &profile.authority_name {
        // The device then asks for a certificate of this authority.
        all.push(("ServerCertificateIssuerCommonName", text(issuer.as_str())));
    }
    match &profile.proof {
        Proof::Certificate { identity, .. } => all.extend([
            ("LocalIdentifier", text(identity.as_str())),
            ("AuthenticationMethod", text("Certificate")),
            ("CertificateType", text("RSA")),
            (
                "PayloadCertificateUUID",
                text(&profile.uuid("certificate").to_uppercase()),
            ),
            ("ExtendedAuthEnabled", number(0)),
        ]),
        Proof::User(user) => all.extend([
            ("LocalIdentifier", text(user.as_str())),
            ("AuthenticationMethod", text("None")),
            ("ExtendedAuthEnabled", number(1)),
            ("AuthName", text(user.as_str())),
        ]),
    }
    all.extend([
        ("DeadPeerDetectionRate", text("Medium")),
        ("DisableMOBIKE", number(0)),
        ("EnablePFS", number(1)),
        (
            "IKESecurityAssociationParameters",
            suite("SHA2-384", IKE_GROUP),
        ),
        (
            "ChildSecurityAssociationParameters",
            suite("SHA2-256", CHILD_GROUP),
        ),
    ]);
    dictionary(all)
}

fn suite(hash: &str, group: i64) -> Value {
    dictionary(vec![
        ("EncryptionAlgorithm", text("AES-256-GCM")),
        ("IntegrityAlgorithm", text(hash)),
        ("DiffieHellmanGroup", number(group)),
    ])
}

fn dictionary(all: Vec<(&str, Value)>) -> Value {
    let all = all.into_iter().map(|(key, value)| (key.to_owned(), value));
    Value::Dictionary(all.collect())
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn number(number: i64) -> Value {
    Value::Integer(number.into())
}

fn data(octets: &[u8]) -> Value {
    Value::Data(octets.to_vec())
}

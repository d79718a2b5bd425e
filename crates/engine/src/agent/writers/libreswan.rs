//! Libreswan 4: a connection of ipsec.conf, its secret, and `ipsec auto`.
//!
//! Certificates are in an NSS database, which takes a private key only as PKCS #12: `openssl` makes
//! that from PEM. A connection has one network on each side, so there is one connection for each.

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::key_exchange::Method;
use crypto::packet::{Encryption, Integrity};
use zeroize::Zeroizing;

use super::quote::plain;
use super::texts::{Order, Texts};
use super::{Kind, WriteFault, words};
use crate::agent::TunnelId;
use crate::agent::description::{Credential, Description, Inner, Name, NameKind, Side, name_of};
use crate::agent::ike::IkeVersion;
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite, Ikev2Suite};

const KIND: Kind = Kind::Libreswan;
/// Networks of a tunnel: those of Tunneling Info.
const NETWORKS_MAX: usize = 16;
/// Debian's and Fedora's place of the database. Beside another folder it is in that one.
const DATABASE: &str = "sql:/var/lib/ipsec/nss";

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(KIND);
    if it.ike == IkeVersion::V1 {
        texts
            .notes
            .push("ipsec.conf needs ikev1-policy=accept in its config setup");
    }
    let file = |end: &str| format!("{folder}/{name}{end}");
    let database = database(folder);
    match &it.credential {
        Credential::Certificates { chain, key, peer } => {
            texts.certificates(file(".pem"), chain);
            texts.key(file(".key"), key);
            texts.certificates(file("-peer.pem"), &peer[..1]);
            import(&mut texts, &name, &file, &database);
        }
        Credential::PresharedKey(_) => {}
    }
    let secrets = secrets(it);
    let has_secrets = !secrets.is_empty();
    if has_secrets {
        texts.file(file(".secrets"), secrets);
        texts.run(&["ipsec", "auto", "--rereadsecrets"]);
    }
    let connections = connections(it)?;
    let text: Vec<String> = connections.iter().map(|(_, text)| text.clone()).collect();
    texts.configuration(file(".conf"), "#", text.join("\n"));
    for (name, _) in &connections {
        texts.run(&["ipsec", "auto", "--config", &file(".conf"), "--add", name]);
    }
    for (name, _) in &connections {
        match (it.side, it.option) {
            (_, SecurityOption::Native) => texts.run(&["ipsec", "auto", "--route", name]),
            (Side::Client, _) => texts.run(&["ipsec", "auto", "--up", name]),
            (Side::Target, _) => {}
        }
        if it.side == Side::Client && it.option != SecurityOption::Native {
            texts.undo(&["ipsec", "auto", "--down", name]);
        }
        texts.undo(&["ipsec", "auto", "--delete", name]);
    }
    if matches!(it.credential, Credential::Certificates { .. }) {
        forget(&mut texts, &name, &database);
    }
    texts.remove_files();
    if has_secrets {
        texts.undo(&["ipsec", "auto", "--rereadsecrets"]);
    }
    Ok(texts)
}

/// Lines of ipsec.secrets: the pre-shared key, and the post-quantum one.
fn secrets(it: &Description) -> Zeroizing<String> {
    let [own, peer] = [&it.local, &it.remote].map(|end| identity(&end.identity));
    let mut lines = Zeroizing::new(String::with_capacity(1_024));
    if let Credential::PresharedKey(key) = &it.credential {
        let line = Zeroizing::new(format!("{own} {peer} : PSK \"{}\"\n", *key.text()));
        lines.push_str(&line);
    }
    if let Some(ppk) = &it.ppk {
        let (id, key) = (&ppk.id, ppk.key.text());
        let line = Zeroizing::new(format!("{own} {peer} : PPKS \"{id}\" \"{}\"\n", *key));
        lines.push_str(&line);
    }
    lines
}

/// Takes down all that an end of this tunnel may have left, whatever it was.
pub fn leftovers(tunnel: TunnelId, folder: &str) -> Vec<Order> {
    let name = name_of(tunnel);
    let mut texts = Texts::of(KIND);
    texts.undo(&["ipsec", "auto", "--delete", &name]);
    for at in 1..NETWORKS_MAX {
        texts.undo(&["ipsec", "auto", "--delete", &format!("{name}-{at}")]);
    }
    forget(&mut texts, &name, &database(folder));
    texts.destroy
}

fn forget(texts: &mut Texts, name: &str, database: &str) {
    let peer = format!("{name}-peer");
    texts.undo(&["certutil", "-D", "-d", database, "-n", &peer]);
    texts.undo(&["certutil", "-F", "-d", database, "-n", name]);
}

fn database(folder: &str) -> String {
    match folder == KIND.folder() {
        true => DATABASE.to_owned(),
        false => format!("sql:{folder}/nss"),
    }
}

/// Brings certificates and key into the database. The PKCS #12 file is gone at once.
fn import(texts: &mut Texts, name: &str, file: &dyn Fn(&str) -> String, database: &str) {
    let (pem, key, bag) = (file(".pem"), file(".key"), file(".p12"));
    let make = ["openssl", "pkcs12", "-export", "-passout", "pass:", "-name"];
    let from = [name, "-in", &pem, "-inkey", &key, "-out", &bag];
    texts.run(&[&make[..], &from].concat());
    texts.run(&["pk12util", "-d", database, "-i", &bag, "-W", ""]);
    texts.run(&["rm", "-f", "--", &bag]);
    let peer = format!("{name}-peer");
    let from = file("-peer.pem");
    let trusted = ["-t", "P,,", "-n", &peer, "-i", &from];
    texts.run(&[&["certutil", "-A", "-d", database][..], &trusted].concat());
}

/// Names and texts of the connections, one for each network.
fn connections(it: &Description) -> Result<Vec<(String, String)>, WriteFault> {
    let name = it.name();
    let common = common(it)?;
    let networks = it.networks.iter().enumerate();
    let one = |(at, network)| {
        let name = match at {
            0 => name.clone(),
            at => format!("{name}-{at}"),
        };
        let side = match it.side {
            Side::Client => "right",
            Side::Target => "left",
        };
        let network = words::network(network);
        let text = format!("conn {name}\n{common}\t{side}subnet={network}\n");
        (name, text)
    };
    Ok(networks.map(one).collect())
}

fn common(it: &Description) -> Result<String, WriteFault> {
    let mut lines = Vec::new();
    let mut say = |key: &str, value: &str| lines.push(format!("\t{key}={value}\n"));
    let remote = it.remote.addresses.first().map(ToString::to_string);
    let local = it.local.addresses.first().map(ToString::to_string);
    say("left", local.as_deref().unwrap_or("%defaultroute"));
    say("right", remote.as_deref().unwrap_or("%any"));
    say("auto", "ignore");
    if it.option == SecurityOption::Native {
        say("type", "passthrough");
        say("authby", "never");
        return Ok(lines.concat());
    }
    let is_v1 = it.ike == IkeVersion::V1;
    say("type", "tunnel");
    say("ikev2", if is_v1 { "no" } else { "insist" });
    if it.ppk.is_some() {
        say("ppk", "insist");
    }
    for (side, end) in [("left", &it.local), ("right", &it.remote)] {
        let name = plain(KIND, "an identity", &identity(&end.identity))?;
        say(&format!("{side}id"), &name);
    }
    let name = it.name();
    match &it.credential {
        Credential::Certificates { .. } => {
            // With IKEv2 RSASSA-PSS, by RFC 7427.
            say("authby", if is_v1 { "rsasig" } else { "rsa-sha2" });
            say("leftcert", &name);
            say("leftsendcert", "always");
            say("rightcert", &format!("{name}-peer"));
        }
        Credential::PresharedKey(_) => {
            say("authby", "secret");
            if is_v1 {
                say("aggressive", "yes");
            }
        }
    }
    let suites = match it.ike {
        IkeVersion::V1 => words::all(KIND, "IKE", &it.proposals.ike, ike)?,
        IkeVersion::V2 => words::all(KIND, "IKE", &it.proposals.ikev2, ikev2)?,
    };
    say("ike", &suites.join(","));
    let (phase2, suites) = match it.option {
        SecurityOption::Ah => ("ah", it.ah()),
        _ => ("esp", it.esp()),
    };
    words::all(KIND, it.option.name(), suites, esp)?;
    // pluto takes a list whose suites have one group, or none.
    let first = suites.iter().find(|suite| esp(suite).is_some());
    let group = first.and_then(|suite| suite.pfs);
    let alike = suites.iter().filter(|suite| suite.pfs == group);
    let suites: Vec<String> = alike.filter_map(esp).collect();
    say("phase2", phase2);
    say("phase2alg", &suites.join(","));
    say("pfs", if group.is_some() { "yes" } else { "no" });
    if !is_v1 && it.inner != Inner::Outer {
        // The other end is asked for all, and gets its one address.
        say("narrowing", "yes");
    }
    say_inner(&it.inner, &mut say);
    // It lives as long as the tunnel, so nobody renews.
    let lifetime = format!("{}s", it.lifetime.as_secs());
    say("ikelifetime", &lifetime);
    say("salifetime", &lifetime);
    say("rekey", "no");
    Ok(lines.concat())
}

/// Who gives the inner address, and who gets it.
fn say_inner(inner: &Inner, say: &mut impl FnMut(&str, &str)) {
    match inner {
        Inner::Asked => {
            say("leftmodecfgclient", "yes");
            say("rightmodecfgserver", "yes");
            say("modecfgpull", "yes");
        }
        Inner::Lent(address) => {
            say("leftmodecfgserver", "yes");
            say("rightmodecfgclient", "yes");
            say("modecfgpull", "yes");
            say("rightaddresspool", &format!("{address}-{address}"));
        }
        Inner::Outer => {}
    }
}

/// A DNS name begins with `@` here; what has an `@` inside is user@name.
fn identity(name: &Name) -> String {
    match name.kind() {
        NameKind::Fqdn => format!("@{name}"),
        NameKind::Address | NameKind::UserFqdn => name.to_string(),
    }
}

fn hash(hash: Hash) -> &'static str {
    match hash {
        Hash::Md5 => "md5",
        Hash::Sha1 => "sha1",
        Hash::Sha256 => "sha2_256",
        Hash::Sha384 => "sha2_384",
        Hash::Sha512 => "sha2_512",
    }
}

fn cipher(cipher: Cipher) -> Option<&'static str> {
    match cipher {
        Cipher::Des => None,
        Cipher::TripleDes => Some("3des"),
        Cipher::Aes128 => Some("aes128"),
        Cipher::Aes192 => Some("aes192"),
        Cipher::Aes256 => Some("aes256"),
    }
}

/// Group 2 is compiled out, and so is group 1.
fn group(group: crypto::dh::Group) -> Option<&'static str> {
    words::modp(group).filter(|word| !matches!(*word, "modp768" | "modp1024"))
}

fn ike(suite: &IkeSuite) -> Option<String> {
    let (cipher, group) = (cipher(suite.cipher)?, group(suite.group)?);
    Some(format!("{cipher}-{}-{group}", hash(suite.hash)))
}

/// It has neither ML-KEM nor additional key exchanges.
fn ikev2(suite: &Ikev2Suite) -> Option<String> {
    let group = match suite.method {
        Method::Modp2048 => "modp2048",
        Method::Modp3072 => "modp3072",
        Method::Modp4096 => "modp4096",
        Method::Modp6144 => "modp6144",
        Method::Modp8192 => "modp8192",
        Method::Ecp256 => "dh19",
        Method::Ecp384 => "dh20",
        Method::Ecp521 => "dh21",
        Method::Curve25519 => "dh31",
        Method::MlKem768 | Method::MlKem1024 => return None,
    };
    if !suite.additional.is_empty() {
        return None;
    }
    let prf = hash(suite.prf);
    let protection = suite.protection;
    match (protection.encryption, protection.integrity) {
        (Encryption::AesGcm { key_len }, _) => {
            Some(format!("aes_gcm{}-{prf}-{group}", u32::from(key_len) * 8))
        }
        // One word says both hashes.
        (Encryption::Cbc(it), Integrity::Hmac(integrity)) if integrity == suite.prf => {
            Some(format!("{}-{prf}-{group}", cipher(it)?))
        }
        _ => None,
    }
}

fn esp(suite: &EspSuite) -> Option<String> {
    let integrity = match suite.protection.integrity {
        Integrity::Hmac(it) => hash(it),
        Integrity::None => "null",
    };
    let words = match (suite.protocol, suite.protection.encryption) {
        (crate::sa::Protocol::Ah, _) => integrity.to_owned(),
        (_, Encryption::Null) => format!("null-{integrity}"),
        (_, Encryption::Cbc(it)) => format!("{}-{integrity}", cipher(it)?),
        (_, Encryption::AesGcm { key_len }) => {
            format!("aes_gcm{}-null", u32::from(key_len) * 8)
        }
        (_, Encryption::ChaCha20Poly1305) => return None,
    };
    Some(match suite.pfs {
        Some(it) => format!("{words}-{}", group(it.group()?)?),
        None => words,
    })
}

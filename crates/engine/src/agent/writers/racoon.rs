//! KAME: racoon.conf and policies for `setkey -f`. Historical.
//!
//! It has no mode config, so Client has no address inside: its selector is its own address, which
//! it must know. Target does not know it and lets racoon make the policies.

use std::net::IpAddr;

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::Encryption;
use zeroize::Zeroizing;

use super::quote::plain;
use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, End, NameKind, Side};
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite};

const KIND: Kind = Kind::Racoon;

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(KIND);
    let file = |end: &str| format!("{folder}/{name}{end}");
    let is_native = it.option == SecurityOption::Native;
    if !is_native {
        let text = configuration(it, &file)?;
        match &it.credential {
            Credential::Certificates { chain, key, peer } => {
                texts.certificates(file(".pem"), &chain[..1]);
                texts.key(file(".key"), key);
                texts.certificates(file("-peer.pem"), &peer[..1]);
            }
            Credential::PresharedKey(key) => {
                let key = key.text();
                let line = format!("{} {}\n", it.remote.identity, *key);
                texts.file(file(".psk"), Zeroizing::new(line));
            }
        }
        texts.configuration(file(".conf"), "#", text);
    }
    let (add, delete) = policies(it)?;
    texts.configuration(file(".setkey"), "#", add);
    texts.configuration(file("-down.setkey"), "#", delete);
    texts.run(&["setkey", "-f", &file(".setkey")]);
    if !is_native {
        texts.run(&["racoon", "-f", &file(".conf")]);
        // A racoon of its own: that of the system, and those of other tunnels, go on.
        let pid = file(".pid");
        texts.undo(&["sh", "-c", &format!("kill $(cat {pid}); rm -f {pid}")]);
    }
    texts.undo(&["setkey", "-f", &file("-down.setkey")]);
    texts.remove_files();
    Ok(texts)
}

fn configuration(it: &Description, file: &dyn Fn(&str) -> String) -> Result<String, WriteFault> {
    let quoted = |text: &str| plain(KIND, "a file", text);
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line + "\n");
    say(format!("path pidfile {};", quoted(&file(".pid"))?));
    let method = match &it.credential {
        Credential::PresharedKey(_) => {
            say(format!("path pre_shared_key {};", quoted(&file(".psk"))?));
            "pre_shared_key"
        }
        Credential::Certificates { .. } => "rsasig",
    };
    let remote = it.remote.addresses.first().map(ToString::to_string);
    say(format!(
        "remote {} {{",
        remote.as_deref().unwrap_or("anonymous")
    ));
    let mode = match it.credential {
        Credential::PresharedKey(_) => "aggressive",
        Credential::Certificates { .. } => "main",
    };
    say(format!("\texchange_mode {mode};"));
    say(format!("\tmy_identifier {};", identifier(&it.local)?));
    say(format!("\tpeers_identifier {};", identifier(&it.remote)?));
    say("\tverify_identifier on;".to_owned());
    say(lifetime(it));
    if let Credential::Certificates { .. } = &it.credential {
        let (own, key) = (quoted(&file(".pem"))?, quoted(&file(".key"))?);
        say(format!("\tcertificate_type x509 {own} {key};"));
        say(format!("\tpeers_certfile {};", quoted(&file("-peer.pem"))?));
    }
    if it.side == Side::Target {
        say("\tpassive on;\n\tgenerate_policy on;".to_owned());
    }
    for (cipher, hash, group) in words::all(KIND, "IKE", &it.proposals.ike, ike)? {
        say(format!(
            "\tproposal {{\n\t\tencryption_algorithm {cipher};\n\t\thash_algorithm {hash};\n\
             \t\tauthentication_method {method};\n\t\tdh_group {group};\n\t}}"
        ));
    }
    say("}".to_owned());
    say(association(it)?);
    Ok(lines.concat())
}

/// One `sainfo` has the algorithms of ESP and AH together.
fn association(it: &Description) -> Result<String, WriteFault> {
    let mut ciphers = Vec::new();
    let mut hashes = Vec::new();
    if !it.esp().is_empty() {
        for (cipher, hash) in words::all(KIND, "ESP", it.esp(), esp)? {
            ciphers.push(cipher);
            hashes.push(hash);
        }
    }
    if !it.ah().is_empty() {
        hashes.extend(words::all(KIND, "AH", it.ah(), |suite| {
            authentication(words::hash(suite)?)
        })?);
    }
    // The grammar wants a cipher, also where AH alone is negotiated.
    if ciphers.is_empty() {
        ciphers.push("3des");
    }
    for list in [&mut ciphers, &mut hashes] {
        list.sort_unstable();
        list.dedup();
    }
    let suites = it.esp().iter().chain(it.ah());
    let group = suites
        .filter_map(|suite| words::number(suite.pfs?.group()?))
        .next();
    let pfs = group.map_or(String::new(), |group| format!("\tpfs_group {group};\n"));
    Ok(format!(
        "sainfo anonymous {{\n{pfs}{}\n\tencryption_algorithm {};\n\
         \tauthentication_algorithm {};\n\tcompression_algorithm deflate;\n}}",
        lifetime(it),
        ciphers.join(", "),
        hashes.join(", ")
    ))
}

/// Of both phases.
fn lifetime(it: &Description) -> String {
    format!("\tlifetime time {} sec;", it.lifetime.as_secs())
}

fn identifier(end: &End) -> Result<String, WriteFault> {
    let name = plain(KIND, "an identity", end.identity.as_str())?;
    Ok(match end.identity.kind() {
        NameKind::Address => format!("address {}", end.identity),
        NameKind::Fqdn => format!("fqdn {name}"),
        NameKind::UserFqdn => format!("user_fqdn {name}"),
    })
}

/// Policies to add and to delete.
fn policies(it: &Description) -> Result<(String, String), WriteFault> {
    let (mut add, mut delete) = (String::new(), String::new());
    let ends = [&it.local, &it.remote].map(|end| end.addresses.first().copied());
    let native = it.option == SecurityOption::Native;
    let (own, peer) = match (ends, it.side, native) {
        ([Some(own), Some(peer)], ..) => (own, peer),
        (_, Side::Target, false) => {
            return Ok(("# racoon makes the policies\n".into(), String::new()));
        }
        (_, _, true) => (it.any_address(), it.any_address()),
        _ => {
            return Err(WriteFault::Needs {
                kind: KIND,
                what: "the addresses of both ends: it has no mode config",
            });
        }
    };
    for network in &it.networks {
        let network = words::network(network);
        let client = match (native, it.side) {
            (true, _) if own.is_ipv4() => "0.0.0.0/0".to_owned(),
            (true, _) => "::/0".to_owned(),
            (_, Side::Client) => own.to_string(),
            (_, Side::Target) => peer.to_string(),
        };
        for (direction, [source, destination]) in [("out", [own, peer]), ("in", [peer, own])] {
            let is_to_network = (it.side == Side::Client) == (direction == "out");
            let range = match is_to_network {
                true => format!("{client} {network}"),
                false => format!("{network} {client}"),
            };
            let rule = match native {
                true => "none".to_owned(),
                false => rule(it.option, source, destination),
            };
            add += &format!("spdadd {range} any -P {direction} {rule};\n");
            delete += &format!("spddelete {range} any -P {direction};\n");
        }
    }
    Ok((add, delete))
}

fn rule(option: SecurityOption, source: IpAddr, destination: IpAddr) -> String {
    let tunnel = |protocol: &str| format!("{protocol}/tunnel/{source}-{destination}/require");
    match option {
        SecurityOption::Native => "none".to_owned(),
        SecurityOption::Ah => format!("ipsec {}", tunnel("ah")),
        SecurityOption::Esp => format!("ipsec {}", tunnel("esp")),
        SecurityOption::AhEsp => format!("ipsec {} ah/transport//require", tunnel("esp")),
    }
}

fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "des",
        Cipher::TripleDes => "3des",
        Cipher::Aes128 => "rijndael 128",
        Cipher::Aes192 => "rijndael 192",
        Cipher::Aes256 => "rijndael 256",
    }
}

fn authentication(hash: Hash) -> Option<&'static str> {
    match hash {
        Hash::Md5 => Some("hmac_md5"),
        Hash::Sha1 => Some("hmac_sha1"),
        Hash::Sha256 | Hash::Sha384 | Hash::Sha512 => None,
    }
}

/// Groups above 5 and SHA-2 came after KAME.
fn ike(suite: &IkeSuite) -> Option<(&'static str, &'static str, u8)> {
    let hash = match suite.hash {
        Hash::Md5 => "md5",
        Hash::Sha1 => "sha1",
        Hash::Sha256 | Hash::Sha384 | Hash::Sha512 => return None,
    };
    let group = words::number(suite.group).filter(|group| *group <= 5)?;
    Some((cipher(suite.cipher), hash, group))
}

fn esp(suite: &EspSuite) -> Option<(&'static str, &'static str)> {
    let Encryption::Cbc(it) = suite.protection.encryption else {
        return None;
    };
    Some((cipher(it), authentication(words::hash(suite)?)?))
}

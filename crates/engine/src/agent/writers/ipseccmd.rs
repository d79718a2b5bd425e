//! Windows 2000 and XP: `ipsecpol` and `ipseccmd` in their dynamic mode. Historical.
//!
//! Each run adds a rule, which ends with the service that holds it. A tunnel takes two: one for
//! what goes out and one for what comes in. There is no mode config, and rules trust an authority.

use std::net::IpAddr;

use crypto::cert::Certificate;
use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Encryption;
use wire::agent::Network;

use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, Side};
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite};

pub(super) fn write(kind: Kind, it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let program = kind.name();
    let mut texts = Texts::of(kind);
    texts
        .notes
        .push("destroying ends every rule of the dynamic mode");
    let mut lines = vec!["@echo off".to_owned()];
    if it.option == SecurityOption::Native {
        texts.notes.push("no IPsec: this traffic is NOT protected");
        for network in &it.networks {
            let (out, _) = filters(kind, it, network, "+")?;
            lines.push(format!("{program} -f ({out})"));
        }
    } else {
        let quick = quick(kind, it)?;
        let proof = proof(kind, it)?;
        let main = words::all(kind, "IKE", &it.proposals.ike, ike)?.join(" ");
        let (own, peer) = ends(kind, it)?;
        for network in &it.networks {
            let (out, back) = filters(kind, it, network, "=")?;
            for (filter, end) in [(out, peer), (back, own)] {
                lines.push(format!(
                    "{program} -f {filter} -n {quick} -t {end} -a {proof} -1s {main}"
                ));
            }
        }
    }
    let notes: Vec<String> = texts
        .notes
        .iter()
        .map(|note| format!("rem {note}"))
        .collect();
    lines.splice(1..1, notes);
    let file = |end: &str| format!("{folder}\\{}{end}", it.name());
    let (up, down) = (file("-up.cmd"), file("-down.cmd"));
    texts.file(up.clone(), lines.join("\r\n") + "\r\n");
    // No command of the dynamic mode takes one rule away again.
    let end = ["@echo off", "net stop policyagent", "net start policyagent"];
    texts.file(down.clone(), end.join("\r\n") + "\r\n");
    texts.run(&["cmd.exe", "/c", &up]);
    texts.undo(&["cmd.exe", "/c", &down]);
    texts.undo(&["cmd.exe", "/c", "del", "/f", &up, &down]);
    Ok(texts)
}

/// What goes out, and what comes in. A tunnel's filters have one direction.
fn filters(
    kind: Kind,
    it: &Description,
    network: &Network,
    sign: &str,
) -> Result<(String, String), WriteFault> {
    let IpAddr::V4(address) = network.address else {
        return Err(WriteFault::Needs {
            kind,
            what: "networks of IPv4",
        });
    };
    let mask = u32::MAX.checked_shl(32 - u32::from(network.prefix_len));
    let mask = std::net::Ipv4Addr::from(mask.unwrap_or(0));
    let network = format!("{address}/{mask}");
    // 0 is this machine, * any.
    let client = match it.side {
        Side::Client => "0",
        Side::Target => "*",
    };
    let to = format!("{client}{sign}{network}");
    let from = format!("{network}{sign}{client}");
    Ok(match it.side {
        Side::Client => (to, from),
        Side::Target => (from, to),
    })
}

/// Our address and the other end's: a tunnel's rules name where it ends.
fn ends(kind: Kind, it: &Description) -> Result<(IpAddr, IpAddr), WriteFault> {
    match (it.local.addresses.first(), it.remote.addresses.first()) {
        (Some(own), Some(peer)) => Ok((*own, *peer)),
        _ => Err(WriteFault::Needs {
            kind,
            what: "the addresses of both ends, where its rules end",
        }),
    }
}

fn proof(kind: Kind, it: &Description) -> Result<String, WriteFault> {
    match &it.credential {
        Credential::PresharedKey(key) => Ok(format!("PRESHARE:\"{}\"", *key.text())),
        Credential::Certificates { peer, .. } => {
            let top = peer.last().map_or(&[][..], Vec::as_slice);
            let needs = WriteFault::Needs {
                kind,
                what: "a certificate of the other end that can be read",
            };
            let subject = Certificate::from_der(top).map_err(|_| needs)?.subject();
            // cmd reads more signs than can be quoted, some of them inside of quotes.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || " .,=-_@".contains(c);
            match subject.chars().all(is_plain) {
                true => Ok(format!("CERT:\"{subject}\"")),
                false => Err(WriteFault::Text {
                    kind,
                    what: "an authority",
                    text: subject,
                }),
            }
        }
    }
}

fn quick(kind: Kind, it: &Description) -> Result<String, WriteFault> {
    let known = |suite: &EspSuite| hash(words::hash(suite)?);
    let words = match it.option {
        SecurityOption::Ah => words::all(kind, "AH", it.ah(), known)?
            .iter()
            .map(|hash| format!("AH[{hash}]"))
            .collect::<Vec<_>>(),
        SecurityOption::AhEsp => {
            let ah = words::best(kind, "AH", it.ah(), known)?;
            let suites = words::all(kind, "ESP", it.esp(), esp)?;
            let pair = |suite: &String| format!("AH[{ah}]+{suite}");
            suites.iter().map(pair).collect()
        }
        SecurityOption::Esp | SecurityOption::Native => words::all(kind, "ESP", it.esp(), esp)?,
    };
    Ok(words.join(" "))
}

fn hash(hash: Hash) -> Option<&'static str> {
    match hash {
        Hash::Md5 => Some("MD5"),
        Hash::Sha1 => Some("SHA"),
        Hash::Sha256 | Hash::Sha384 | Hash::Sha512 => None,
    }
}

fn cipher(cipher: Cipher) -> Option<&'static str> {
    match cipher {
        Cipher::Des => Some("DES"),
        Cipher::TripleDes => Some("3DES"),
        Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => None,
    }
}

fn group(group: Group) -> Option<u8> {
    words::number(group).filter(|number| *number <= 2)
}

fn ike(suite: &IkeSuite) -> Option<String> {
    let (cipher, hash, group) = (
        cipher(suite.cipher)?,
        hash(suite.hash)?,
        group(suite.group)?,
    );
    Some(format!("{cipher}-{hash}-{group}"))
}

fn esp(suite: &EspSuite) -> Option<String> {
    let cipher = match suite.protection.encryption {
        Encryption::Cbc(it) => cipher(it)?,
        Encryption::Null => "NONE",
        Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 => return None,
    };
    let hash = hash(words::hash(suite)?)?;
    let pfs = match suite.pfs {
        Some(it) => format!("PFS{}", group(it.group()?)?),
        None => String::new(),
    };
    Some(format!("ESP[{cipher},{hash}]{pfs}"))
}

//! Windows: PowerShell scripts of the NetSecurity module, one to construct and one to destroy.
//!
//! A rule trusts the one certificate of the other end by its thumbprint, and it must come from the
//! top of that end's chain. Windows has no other place for that authority than its own roots, which
//! every program of the machine trusts while the tunnel is there. Certificates come from a PFX file
//! that `certutil` makes of the PEM files. Client has no address inside, since these rules have no
//! mode config.

use crypto::cert::Certificate;
use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Encryption;

use super::quote::powershell as quoted;
use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, End, Side};
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite};

const KIND: Kind = Kind::Windows;
/// Rules here end with the machine's uptime at the latest.
const STORE: &str = "-PolicyStore ActiveStore";

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(KIND);
    let file = |end: &str| format!("{folder}\\{name}{end}");
    let mut up = vec!["$ErrorActionPreference = 'Stop'".to_owned()];
    let mut down = vec!["$ErrorActionPreference = 'Continue'".to_owned()];
    let id = quoted("a name", &name)?;
    down.push(format!("Remove-NetIPsecRule -IPsecRuleName {id} {STORE}"));
    if it.option == SecurityOption::Native {
        texts.notes.push("no IPsec: this traffic is NOT protected");
        up.push(format!(
            "New-NetIPsecRule {STORE} -IPsecRuleName {id} -DisplayName {id} -InboundSecurity None \
             -OutboundSecurity None {}",
            networks(it)?
        ));
    } else {
        if let Credential::Certificates { chain, key, peer } = &it.credential {
            texts.certificates(file(".cer"), &chain[..1]);
            texts.key(file(".key"), key);
            texts.certificates(file("-peer.cer"), &peer[peer.len() - 1..]);
            certificates(&file, &mut up, &mut down)?;
        }
        sets(it, &id, &mut up, &mut down)?;
        up.push(rule(it, &id)?);
    }
    let paths = texts.files.iter().map(|file| file.path.clone());
    let mut paths: Vec<String> = paths.collect();
    paths.extend([".up.ps1", ".down.ps1", ".pfx"].map(file));
    let paths: Result<Vec<String>, WriteFault> =
        paths.iter().map(|path| quoted("a file", path)).collect();
    let paths = paths?.join(", ");
    down.push(format!(
        "Remove-Item -Force -ErrorAction SilentlyContinue -LiteralPath {paths}"
    ));
    texts.configuration(file(".up.ps1"), "#", up.join("\n") + "\n");
    texts.configuration(file(".down.ps1"), "#", down.join("\n") + "\n");
    let power = ["powershell.exe", "-NoProfile", "-NonInteractive", "-File"];
    texts.run(&[&power[..], &[&file(".up.ps1")]].concat());
    texts.undo(&[&power[..], &[&file(".down.ps1")]].concat());
    Ok(texts)
}

/// Imports them, and removes them again by their thumbprints.
fn certificates(
    file: &dyn Fn(&str) -> String,
    up: &mut Vec<String>,
    down: &mut Vec<String>,
) -> Result<(), WriteFault> {
    let path = |end: &str| quoted("a file", &file(end));
    let (own, bag, peer) = (path(".cer")?, path(".pfx")?, path("-peer.cer")?);
    up.push(format!("certutil.exe -f -p '' -mergepfx {own} {bag}"));
    up.push("if ($LASTEXITCODE -ne 0) { throw 'certutil could not merge the key' }".to_owned());
    up.push(
        "# From here to the end every program of this machine trusts this authority; the tunnel \
         trusts one certificate of it."
            .to_owned(),
    );
    for (what, from) in [("Pfx", &bag), ("", &peer)] {
        let store = match what {
            "" => "Root",
            _ => "My",
        };
        up.push(format!(
            "Import-{what}Certificate -FilePath {from} -CertStoreLocation \
             'Cert:\\LocalMachine\\{store}'"
        ));
    }
    for (from, store) in [(&own, "My"), (&peer, "Root")] {
        down.push(format!(
            "$certificate = New-Object \
             System.Security.Cryptography.X509Certificates.X509Certificate2 -ArgumentList {from}"
        ));
        down.push(format!(
            "Remove-Item -LiteralPath (Join-Path -Path 'Cert:\\LocalMachine\\{store}' -ChildPath \
             $certificate.Thumbprint)"
        ));
    }
    Ok(())
}

/// Cryptographic and authentication sets, and the rule of main mode.
fn sets(
    it: &Description,
    id: &str,
    up: &mut Vec<String>,
    down: &mut Vec<String>,
) -> Result<(), WriteFault> {
    let main = words::all(KIND, "IKE", &it.proposals.ike, ike)?;
    let main: Vec<String> = main
        .iter()
        .map(|(cipher, hash, group)| {
            format!(
                "(New-NetIPsecMainModeCryptoProposal -Encryption {cipher} -Hash {hash} \
                 -KeyExchange {group})"
            )
        })
        .collect();
    let set = format!("{STORE} -Name {id} -DisplayName {id}");
    let main = main.join(", ");
    up.push(format!(
        "New-NetIPsecMainModeCryptoSet {set} -Proposal {main}"
    ));
    let quick = quick(it)?.join(", ");
    let suites = it.esp().iter().chain(it.ah());
    let pfs = suites.filter_map(|suite| group(suite.pfs?.group()?)).next();
    let pfs = pfs.map_or(String::new(), |group| {
        format!(" -PerfectForwardSecrecyGroup {group}")
    });
    up.push(format!(
        "New-NetIPsecQuickModeCryptoSet {set} -Proposal {quick}{pfs}"
    ));
    let proof = proof(it)?;
    up.push(format!(
        "New-NetIPsecPhase1AuthSet {set} -Proposal ({proof})"
    ));
    let remote = address(&it.remote);
    up.push(format!(
        "New-NetIPsecMainModeRule {set} -RemoteAddress {remote} -MainModeCryptoSet {id} \
         -Phase1AuthSet {id}"
    ));
    for what in [
        "MainModeRule",
        "Phase1AuthSet",
        "QuickModeCryptoSet",
        "MainModeCryptoSet",
    ] {
        down.push(format!("Remove-NetIPsec{what} -Name {id} {STORE}"));
    }
    Ok(())
}

fn proof(it: &Description) -> Result<String, WriteFault> {
    match &it.credential {
        Credential::PresharedKey(key) => Ok(format!(
            "New-NetIPsecAuthProposal -Machine -PreSharedKey {}",
            quoted("a key", &key.text())?
        )),
        Credential::Certificates { peer, .. } => {
            let top = peer.last().map_or(&[][..], Vec::as_slice);
            let needs = WriteFault::Needs {
                kind: KIND,
                what: "a certificate of the other end that can be read",
            };
            let subject = Certificate::from_der(top).map_err(|_| needs)?.subject();
            let leaf = peer.first().map_or(&[][..], Vec::as_slice);
            Ok(format!(
                "New-NetIPsecAuthProposal -Machine -Cert -Authority {} -AuthorityType Root \
                 -ValidationCriteria -Thumbprint {}",
                quoted("an authority", &subject)?,
                thumbprint(leaf)
            ))
        }
    }
}

/// Windows' name of a certificate: SHA-1 over it, as weak as that is. Its authority's signature is
/// checked besides.
fn thumbprint(certificate: &[u8]) -> String {
    let digest = Hash::Sha1.digest(&[certificate]);
    let octets = digest.as_ref().iter();
    octets.map(|octet| format!("{octet:02X}")).collect()
}

fn quick(it: &Description) -> Result<Vec<String>, WriteFault> {
    let new = "New-NetIPsecQuickModeCryptoProposal";
    let hashes = || words::all(KIND, "AH", it.ah(), |suite| hash(words::hash(suite)?));
    let suites = || words::all(KIND, "ESP", it.esp(), esp);
    let one = match it.option {
        SecurityOption::Ah => hashes()?
            .iter()
            .map(|hash| format!("({new} -Encapsulation AH -AHHash {hash})"))
            .collect(),
        SecurityOption::AhEsp => {
            let ah = hashes()?[0];
            let pair = |(cipher, hash): &(&str, &str)| {
                format!(
                    "({new} -Encapsulation 'AH', 'ESP' -AHHash {ah} -ESPHash {hash} -Encryption \
                     {cipher})"
                )
            };
            suites()?.iter().map(pair).collect()
        }
        SecurityOption::Esp | SecurityOption::Native => {
            let one = |(cipher, hash): &(&str, &str)| {
                format!("({new} -Encapsulation ESP -ESPHash {hash} -Encryption {cipher})")
            };
            suites()?.iter().map(one).collect()
        }
    };
    Ok(one)
}

fn rule(it: &Description, id: &str) -> Result<String, WriteFault> {
    let ends = match it.side {
        Side::Client => ("Any".to_owned(), address(&it.remote)),
        Side::Target => (address(&it.local), "Any".to_owned()),
    };
    Ok(format!(
        "New-NetIPsecRule {STORE} -IPsecRuleName {id} -DisplayName {id} -Mode Tunnel {} \
         -LocalTunnelEndpoint {} -RemoteTunnelEndpoint {} -InboundSecurity Require \
         -OutboundSecurity Require -KeyModule IKEv1 -QuickModeCryptoSet {id} -Phase1AuthSet {id}",
        networks(it)?,
        ends.0,
        ends.1
    ))
}

/// Where traffic goes: Client has its own address inside, too.
fn networks(it: &Description) -> Result<String, WriteFault> {
    let networks = words::networks(&it.networks);
    let networks: Result<Vec<String>, WriteFault> = networks
        .iter()
        .map(|one| quoted("a network", one))
        .collect();
    let networks = networks?.join(", ");
    Ok(match it.side {
        Side::Client => format!("-LocalAddress Any -RemoteAddress {networks}"),
        Side::Target => format!("-LocalAddress {networks} -RemoteAddress Any"),
    })
}

fn address(end: &End) -> String {
    let first = end.addresses.first();
    first.map_or_else(|| "Any".to_owned(), |address| format!("'{address}'"))
}

fn hash(hash: Hash) -> Option<&'static str> {
    match hash {
        Hash::Md5 => Some("MD5"),
        Hash::Sha1 => Some("SHA1"),
        Hash::Sha256 => Some("SHA256"),
        Hash::Sha384 | Hash::Sha512 => None,
    }
}

fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "DES",
        Cipher::TripleDes => "DES3",
        Cipher::Aes128 => "AES128",
        Cipher::Aes192 => "AES192",
        Cipher::Aes256 => "AES256",
    }
}

fn group(group: Group) -> Option<&'static str> {
    match group {
        Group::Modp768 => Some("DH1"),
        Group::Modp1024 => Some("DH2"),
        Group::Modp2048 => Some("DH14"),
        Group::Modp1536 | Group::Modp3072 | Group::Modp4096 | Group::Curve25519 => None,
    }
}

fn ike(suite: &IkeSuite) -> Option<(&'static str, &'static str, &'static str)> {
    let hash = match suite.hash {
        Hash::Sha384 => "SHA384",
        other => hash(other)?,
    };
    Some((cipher(suite.cipher), hash, group(suite.group)?))
}

/// With GCM the hash has the same key (RFC 4543's name for it).
fn esp(suite: &EspSuite) -> Option<(&'static str, &'static str)> {
    // A set has one group for all.
    if suite
        .pfs
        .is_some_and(|it| it.group().and_then(group).is_none())
    {
        return None;
    }
    match suite.protection.encryption {
        Encryption::Cbc(it) => Some((cipher(it), hash(words::hash(suite)?)?)),
        Encryption::Null => Some(("None", hash(words::hash(suite)?)?)),
        Encryption::AesGcm { key_len: 16 } => Some(("AESGCM128", "AESGMAC128")),
        Encryption::AesGcm { key_len: 24 } => Some(("AESGCM192", "AESGMAC192")),
        Encryption::AesGcm { .. } => Some(("AESGCM256", "AESGMAC256")),
        Encryption::ChaCha20Poly1305 => None,
    }
}

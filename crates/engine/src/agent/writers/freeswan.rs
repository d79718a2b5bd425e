//! FreeS/WAN 2: a connection of ipsec.conf, its secret, and `ipsec auto`. Historical.
//!
//! It has 3DES alone, with MD5 or SHA-1, and no mode config, so Client has no address inside.
//! Certificates need the X.509 patch.

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Encryption;
use zeroize::Zeroizing;

use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, Name, NameKind, Side};
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite};

const KIND: Kind = Kind::FreeSwan;

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(KIND);
    let file = |end: &str| format!("{folder}/{name}{end}");
    let [own, peer] = [&it.local, &it.remote].map(|end| identity(&end.identity));
    let secret = match &it.credential {
        Credential::Certificates { chain, key, peer } => {
            texts.notes.push("needs the X.509 patch");
            texts.certificates(file(".pem"), &chain[..1]);
            texts.certificates(file("-peer.pem"), &peer[..1]);
            texts.key(file(".key"), key);
            Zeroizing::new(format!(": RSA {}\n", file(".key")))
        }
        Credential::PresharedKey(key) => {
            Zeroizing::new(format!("{own} {peer} : PSK \"{}\"\n", *key.text()))
        }
    };
    texts.file(file(".secrets"), secret);
    let mut text = String::from("version 2.0\n");
    let common = common(it, &file)?;
    let mut names = Vec::new();
    for (at, network) in it.networks.iter().enumerate() {
        let name = match at {
            0 => name.clone(),
            at => format!("{name}-{at}"),
        };
        let side = match it.side {
            Side::Client => "right",
            Side::Target => "left",
        };
        let network = words::network(network);
        text += &format!("\nconn {name}\n{common}\t{side}subnet={network}\n");
        names.push(name);
    }
    texts.configuration(file(".conf"), "#", text);
    texts.run(&["ipsec", "auto", "--rereadsecrets"]);
    let auto = |what: &'static str, name: &str| {
        ["ipsec", "auto", "--config", &file(".conf"), what, name].map(str::to_owned)
    };
    for name in &names {
        texts.run(&auto("--add", name).each_ref().map(String::as_str));
    }
    for name in &names {
        match (it.side, it.option) {
            (_, SecurityOption::Native) => texts.run(&["ipsec", "auto", "--route", name]),
            (Side::Client, _) => texts.run(&["ipsec", "auto", "--up", name]),
            (Side::Target, _) => {}
        }
        texts.undo(&["ipsec", "auto", "--down", name]);
        texts.undo(&["ipsec", "auto", "--delete", name]);
    }
    texts.remove_files();
    texts.undo(&["ipsec", "auto", "--rereadsecrets"]);
    Ok(texts)
}

fn common(it: &Description, file: &dyn Fn(&str) -> String) -> Result<String, WriteFault> {
    let mut lines = Vec::new();
    let mut say = |key: &str, value: &str| lines.push(format!("\t{key}={value}\n"));
    let local = it.local.addresses.first().map(ToString::to_string);
    let remote = it.remote.addresses.first().map(ToString::to_string);
    say("left", local.as_deref().unwrap_or("%defaultroute"));
    say("right", remote.as_deref().unwrap_or("%any"));
    say("auto", "ignore");
    if it.option == SecurityOption::Native {
        say("type", "passthrough");
        return Ok(lines.concat());
    }
    say("type", "tunnel");
    say("keyexchange", "ike");
    // It offers all that it has, so there are no words for a suite.
    words::best(KIND, "IKE", &it.proposals.ike, ike)?;
    words::best(KIND, "ESP", it.esp(), esp)?;
    let is_both = it.option == SecurityOption::AhEsp;
    if is_both {
        words::best(KIND, "AH", it.ah(), ah)?;
    }
    say("auth", if is_both { "ah" } else { "esp" });
    say("leftid", &identity(&it.local.identity));
    say("rightid", &identity(&it.remote.identity));
    match &it.credential {
        Credential::Certificates { .. } => {
            say("authby", "rsasig");
            say("leftcert", &file(".pem"));
            say("rightcert", &file("-peer.pem"));
        }
        Credential::PresharedKey(_) => say("authby", "secret"),
    }
    let has_pfs = it.esp().iter().any(|suite| suite.pfs.is_some());
    say("pfs", if has_pfs { "yes" } else { "no" });
    Ok(lines.concat())
}

fn identity(name: &Name) -> String {
    match name.kind() {
        NameKind::Fqdn => format!("@{name}"),
        NameKind::Address | NameKind::UserFqdn => name.to_string(),
    }
}

fn is_known(hash: Hash) -> bool {
    matches!(hash, Hash::Md5 | Hash::Sha1)
}

fn ike(suite: &IkeSuite) -> Option<()> {
    let is_known = suite.cipher == Cipher::TripleDes
        && is_known(suite.hash)
        && matches!(suite.group, Group::Modp1024 | Group::Modp1536);
    is_known.then_some(())
}

fn esp(suite: &EspSuite) -> Option<()> {
    let is_triple = suite.protection.encryption == Encryption::Cbc(Cipher::TripleDes);
    (is_triple && words::hash(suite).is_some_and(is_known)).then_some(())
}

fn ah(suite: &EspSuite) -> Option<()> {
    words::hash(suite).is_some_and(is_known).then_some(())
}

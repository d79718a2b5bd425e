//! FreeBSD's racoon2: a file for its iked and spmd, which makes the kernel's policies itself.
//!
//! Client has no address inside, since iked asks for one in IKE version 2 alone; its selector is
//! its own address. Target takes it from the exchange.

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::Encryption;

use super::quote::plain;
use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Credential, Description, End, NameKind, Side};
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, IkeSuite};

const KIND: Kind = Kind::Racoon2;
/// racoon2's macro for a peer at any address.
const ANYWHERE: &str = "IP_RW";

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(KIND);
    let file = |end: &str| format!("{folder}/{name}{end}");
    let is_native = it.option == SecurityOption::Native;
    let text = match is_native {
        true => {
            texts.notes.push("no IPsec: this traffic is NOT protected");
            selectors(it, &name)? + &format!("policy {name} {{\n\taction none;\n}};\n")
        }
        false => {
            match &it.credential {
                Credential::Certificates { chain, key, peer } => {
                    texts.certificates(file(".pem"), &chain[..1]);
                    texts.key(file(".key"), key);
                    texts.certificates(file("-peer.pem"), &peer[..1]);
                }
                Credential::PresharedKey(key) => texts.file(file(".psk"), key.text()),
            }
            let ends = [remote(it, &name, &file)?, selectors(it, &name)?];
            ends.concat() + &policy(it, &name)? + &associations(it, &name)?
        }
    };
    texts.configuration(file(".conf"), "#", text);
    let main = format!("{folder}/racoon2.conf");
    let include = format!("include {};", plain(KIND, "a file", &file(".conf"))?);
    // One line of the main file, which is read again.
    let append = format!("printf '%s\\n' '{include}' >> {main}");
    texts.run(&["sh", "-c", &append]);
    texts.run(&["service", "spmd", "restart"]);
    texts.run(&["service", "iked", "restart"]);
    let remove = format!("grep -vF '{include}' {main} > {main}.new; mv {main}.new {main}");
    texts.undo(&["sh", "-c", &remove]);
    texts.undo(&["service", "spmd", "restart"]);
    texts.undo(&["service", "iked", "restart"]);
    texts.remove_files();
    Ok(texts)
}

fn remote(
    it: &Description,
    name: &str,
    file: &dyn Fn(&str) -> String,
) -> Result<String, WriteFault> {
    let quoted = |text: String| plain(KIND, "a file", &text);
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line + "\n");
    say(format!(
        "remote {name} {{\n\tacceptable_kmp {{ ikev1; }};\n\tikev1 {{"
    ));
    if it.side == Side::Target {
        say("\t\tpassive on;".to_owned());
    }
    say(format!("\t\tmy_id {};", identity(&it.local)?));
    say(format!("\t\tpeers_id {};", identity(&it.remote)?));
    say(format!("\t\tpeers_ipaddr \"{}\";", address(&it.remote)));
    let lifetime_s = it.lifetime.as_secs();
    say(format!("\t\tkmp_sa_lifetime_time {lifetime_s} sec;"));
    match &it.credential {
        Credential::Certificates { .. } => {
            let (own, key) = (quoted(file(".pem"))?, quoted(file(".key"))?);
            say("\t\texchange_mode main;".to_owned());
            say("\t\tkmp_auth_method { rsasig; };".to_owned());
            say(format!("\t\tmy_public_key x509pem {own} {key};"));
            let peer = quoted(file("-peer.pem"))?;
            say(format!("\t\tpeers_public_key x509pem {peer};"));
        }
        Credential::PresharedKey(_) => {
            say("\t\texchange_mode aggressive;".to_owned());
            say("\t\tkmp_auth_method { psk; };".to_owned());
            say(format!("\t\tpre_shared_key {};", quoted(file(".psk"))?));
        }
    }
    let suites = words::all(KIND, "IKE", &it.proposals.ike, ike)?;
    let list = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        let mut words: Vec<&str> = suites.iter().map(pick).collect();
        words.sort_unstable();
        words.dedup();
        words
            .iter()
            .map(|word| format!("{word}; "))
            .collect::<String>()
    };
    say(format!("\t\tkmp_enc_alg {{ {}}};", list(|it| it.0)));
    say(format!("\t\tkmp_hash_alg {{ {}}};", list(|it| it.1)));
    say(format!("\t\tkmp_dh_group {{ {}}};", list(|it| it.2)));
    say(format!("\t}};\n\tselector_index {name}_in_0;\n}};"));
    Ok(lines.concat())
}

fn identity(end: &End) -> Result<String, WriteFault> {
    let name = plain(KIND, "an identity", end.identity.as_str())?;
    let kind = match end.identity.kind() {
        NameKind::Address => "ipaddr",
        NameKind::Fqdn => "fqdn",
        NameKind::UserFqdn => "email",
    };
    Ok(format!("{kind} {name}"))
}

fn address(end: &End) -> String {
    let first = end.addresses.first();
    first.map_or_else(|| ANYWHERE.to_owned(), ToString::to_string)
}

/// Both directions of each network.
fn selectors(it: &Description, name: &str) -> Result<String, WriteFault> {
    let client = match it.side {
        Side::Client => &it.local,
        Side::Target => &it.remote,
    };
    let client = match (it.option, client.addresses.first(), it.side) {
        (SecurityOption::Native, ..) => match it.any_address().is_ipv4() {
            true => "0.0.0.0/0".to_owned(),
            false => "::/0".to_owned(),
        },
        (_, Some(address), _) => address.to_string(),
        (_, None, Side::Target) => ANYWHERE.to_owned(),
        (_, None, Side::Client) => {
            return Err(WriteFault::Needs {
                kind: KIND,
                what: "the address of this end: it asks for none inside",
            });
        }
    };
    let mut text = String::new();
    for (at, network) in it.networks.iter().enumerate() {
        let network = words::network(network);
        for (short, direction) in [("out", "outbound"), ("in", "inbound")] {
            let is_to_network = (it.side == Side::Client) == (short == "out");
            let (source, destination) = match is_to_network {
                true => (&client, &network),
                false => (&network, &client),
            };
            text += &format!(
                "selector {name}_{short}_{at} {{\n\tdirection {direction};\n\tsrc \
                 \"{source}\";\n\tdst \"{destination}\";\n\tupper_layer_protocol \
                 \"any\";\n\tpolicy_index {name};\n}};\n"
            );
        }
    }
    Ok(text)
}

fn policy(it: &Description, name: &str) -> Result<String, WriteFault> {
    let (own, peer) = (it.local.addresses.first(), address(&it.remote));
    let Some(own) = own else {
        return Err(WriteFault::Needs {
            kind: KIND,
            what: "the address of this end",
        });
    };
    Ok(format!(
        "policy {name} {{\n\taction auto_ipsec;\n\tremote_index {name};\n\tipsec_mode tunnel;\n\
         \tipsec_index {{ {name}; }};\n\tipsec_level require;\n\tmy_sa_ipaddr \"{own}\";\n\
         \tpeers_sa_ipaddr \"{peer}\";\n}};\n"
    ))
}

/// The SA, or two of them that belong together.
fn associations(it: &Description, name: &str) -> Result<String, WriteFault> {
    let (mut names, mut text) = (Vec::new(), String::new());
    if !it.ah().is_empty() {
        let hashes = words::all(KIND, "AH", it.ah(), |suite| {
            Some(authentication(words::hash(suite)?))
        })?;
        text += &format!(
            "sa {name}_ah {{\n\tsa_protocol ah;\n\tah_auth_alg {{ {} }};\n}};\n",
            list(&hashes)
        );
        names.push(format!("{name}_ah"));
    }
    if !it.esp().is_empty() {
        let suites = words::all(KIND, "ESP", it.esp(), esp)?;
        let (ciphers, hashes): (Vec<_>, Vec<_>) = suites.into_iter().unzip();
        text += &format!(
            "sa {name}_esp {{\n\tsa_protocol esp;\n\tesp_enc_alg {{ {} }};\n\tesp_auth_alg {{ {} \
             }};\n}};\n",
            list(&ciphers),
            list(&hashes)
        );
        names.push(format!("{name}_esp"));
    }
    let names = match &names[..] {
        [one] => one.clone(),
        several => {
            let several: String = several.iter().map(|name| format!(" {name};")).collect();
            format!("{{{several} }}")
        }
    };
    Ok(format!(
        "ipsec {name} {{\n\tipsec_sa_lifetime_time {} sec;\n\tsa_index {names};\n}};\n{text}",
        it.lifetime.as_secs()
    ))
}

fn list(words: &[&str]) -> String {
    let mut words: Vec<&str> = words.to_vec();
    words.dedup();
    let words: Vec<String> = words.iter().map(|word| format!("{word};")).collect();
    words.join(" ")
}

fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "des_cbc",
        Cipher::TripleDes => "3des_cbc",
        Cipher::Aes128 => "aes128_cbc",
        Cipher::Aes192 => "aes192_cbc",
        Cipher::Aes256 => "aes256_cbc",
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

fn authentication(it: Hash) -> &'static str {
    match it {
        Hash::Md5 => "hmac_md5",
        Hash::Sha1 => "hmac_sha1",
        Hash::Sha256 => "hmac_sha2_256",
        Hash::Sha384 => "hmac_sha2_384",
        Hash::Sha512 => "hmac_sha2_512",
    }
}

fn ike(suite: &IkeSuite) -> Option<(&'static str, &'static str, &'static str)> {
    let group = words::modp(suite.group)?;
    Some((cipher(suite.cipher), hash(suite.hash), group))
}

fn esp(suite: &EspSuite) -> Option<(&'static str, &'static str)> {
    let hash = authentication(words::hash(suite)?);
    match suite.protection.encryption {
        Encryption::Cbc(it) => Some((cipher(it), hash)),
        Encryption::Null => Some(("null", hash)),
        Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 => None,
    }
}

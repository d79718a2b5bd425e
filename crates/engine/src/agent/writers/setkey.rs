//! FreeBSD without IKE: SAs and policies for `setkey -f`.

use crypto::cipher::Cipher;
use crypto::hash::Hash;

use super::manual::{self, Manual, Way};
use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Description, Side};

const KIND: Kind = Kind::Setkey;

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let mut texts = Texts::of(KIND);
    let (mut add, mut delete) = (String::new(), String::new());
    if manual::is_native(it) {
        texts.notes.push("no IPsec: this traffic is NOT protected");
        for (way, direction) in WAYS {
            for network in &it.networks {
                let any = match network.address.is_ipv4() {
                    true => "0.0.0.0/0",
                    false => "::/0",
                };
                let range = range(it, way, &words::network(network), any);
                add += &format!("spdadd {range} any -P {direction} none;\n");
                delete += &format!("spddelete {range} any -P {direction};\n");
            }
        }
    } else {
        texts.notes.push(manual::NOTE);
        let keys = Manual::of(KIND, it, |_| true, |_| true)?;
        for (way, direction) in WAYS {
            sas(&keys, way, &mut add, &mut delete);
            policies(it, (way, direction), &keys, &mut add, &mut delete);
        }
    }
    let file = |end: &str| format!("{folder}/{}{end}", it.name());
    texts.configuration(file(".setkey"), "#", add);
    texts.configuration(file("-down.setkey"), "#", delete);
    texts.run(&["setkey", "-f", &file(".setkey")]);
    texts.undo(&["setkey", "-f", &file("-down.setkey")]);
    texts.remove_files();
    Ok(texts)
}

const WAYS: [(Way, &str); 2] = [(Way::Out, "out"), (Way::In, "in")];

fn sas(keys: &Manual, way: Way, add: &mut String, delete: &mut String) {
    let [source, destination] = keys.path(way);
    if let Some((_, cipher, hash)) = keys.esp {
        let spi = keys.spi(way, "esp");
        let encryption = keys.octets(way, "esp encryption", cipher.key_len());
        let integrity = keys.octets(way, "esp integrity", manual::key_len(hash));
        *add += &format!(
            "add {source} {destination} esp {spi} -m tunnel -E {} {} -A {} {};\n",
            cipher_name(cipher),
            *encryption,
            hash_name(hash),
            *integrity
        );
        *delete += &format!("delete {source} {destination} esp {spi};\n");
    }
    if let Some(hash) = keys.ah {
        let spi = keys.spi(way, "ah");
        let mode = if keys.esp.is_some() {
            "transport"
        } else {
            "tunnel"
        };
        let integrity = keys.octets(way, "ah integrity", manual::key_len(hash));
        *add += &format!(
            "add {source} {destination} ah {spi} -m {mode} -A {} {};\n",
            hash_name(hash),
            *integrity
        );
        *delete += &format!("delete {source} {destination} ah {spi};\n");
    }
}

fn policies(
    it: &Description,
    (way, direction): (Way, &str),
    keys: &Manual,
    add: &mut String,
    delete: &mut String,
) {
    let [source, destination] = keys.path(way);
    let rules = match (keys.esp.is_some(), keys.ah.is_some()) {
        (true, true) => {
            format!("esp/tunnel/{source}-{destination}/require ah/transport//require")
        }
        (true, false) => format!("esp/tunnel/{source}-{destination}/require"),
        (false, _) => format!("ah/tunnel/{source}-{destination}/require"),
    };
    for network in &it.networks {
        let client = match it.side == Side::Client && way == Way::Out
            || it.side == Side::Target && way == Way::In
        {
            true => source,
            false => destination,
        };
        let range = range(it, way, &words::network(network), &client.to_string());
        *add += &format!("spdadd {range} any -P {direction} ipsec {rules};\n");
        *delete += &format!("spddelete {range} any -P {direction};\n");
    }
}

/// Source and destination of what goes this way.
fn range(it: &Description, way: Way, network: &str, client: &str) -> String {
    match (it.side == Side::Client) == (way == Way::Out) {
        true => format!("{client} {network}"),
        false => format!("{network} {client}"),
    }
}

fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "des-cbc",
        Cipher::TripleDes => "3des-cbc",
        Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => "rijndael-cbc",
    }
}

fn hash_name(hash: Hash) -> &'static str {
    match hash {
        Hash::Md5 => "hmac-md5",
        Hash::Sha1 => "hmac-sha1",
        Hash::Sha256 => "hmac-sha2-256",
        Hash::Sha384 => "hmac-sha2-384",
        Hash::Sha512 => "hmac-sha2-512",
    }
}

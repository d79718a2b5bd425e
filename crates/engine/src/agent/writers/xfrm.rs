//! Linux without IKE: states and policies for `ip -batch`.

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use wire::agent::Network;

use super::manual::{self, Manual, Way};
use super::texts::Texts;
use super::{Kind, WriteFault, words};
use crate::agent::description::{Description, Side};

const KIND: Kind = Kind::Xfrm;
/// Ties states to their policies.
const REQID: u32 = 0x0c7a;

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let mut texts = Texts::of(KIND);
    let (mut add, mut delete) = (String::new(), String::new());
    if manual::is_native(it) {
        texts.notes.push("no IPsec: this traffic is NOT protected");
        native(it, &mut add, &mut delete);
    } else {
        texts.notes.push(manual::NOTE);
        let keys = Manual::of(KIND, it, |_| true, |_| true)?;
        for way in [Way::Out, Way::In] {
            states(&keys, way, &mut add, &mut delete);
        }
        policies(it, &keys, &mut add, &mut delete);
    }
    let file = |end: &str| format!("{folder}/{}{end}", it.name());
    texts.configuration(file(".xfrm"), "#", add);
    texts.configuration(file("-down.xfrm"), "#", delete);
    texts.run(&["ip", "-batch", &file(".xfrm")]);
    texts.undo(&["ip", "-force", "-batch", &file("-down.xfrm")]);
    texts.remove_files();
    Ok(texts)
}

fn states(keys: &Manual, way: Way, add: &mut String, delete: &mut String) {
    let [source, destination] = keys.path(way);
    let ends = format!("src {source} dst {destination}");
    if let Some((_, cipher, hash)) = keys.esp {
        let spi = keys.spi(way, "esp");
        let encryption = keys.octets(way, "esp encryption", cipher.key_len());
        *add += &format!(
            "xfrm state add {ends} proto esp spi {spi} reqid {REQID} mode tunnel enc {} {} {}\n",
            cipher_name(cipher),
            *encryption,
            authentication(keys, way, "esp", hash)
        );
        *delete += &format!("xfrm state delete {ends} proto esp spi {spi}\n");
    }
    if let Some(hash) = keys.ah {
        let spi = keys.spi(way, "ah");
        // Alone it is the tunnel; around ESP it protects what ESP has made.
        let mode = if keys.esp.is_some() {
            "transport"
        } else {
            "tunnel"
        };
        *add += &format!(
            "xfrm state add {ends} proto ah spi {spi} reqid {REQID} mode {mode} {}\n",
            authentication(keys, way, "ah", hash)
        );
        *delete += &format!("xfrm state delete {ends} proto ah spi {spi}\n");
    }
}

fn authentication(keys: &Manual, way: Way, protocol: &str, hash: Hash) -> String {
    let (name, bits) = match hash {
        Hash::Md5 => ("hmac(md5)", 96),
        Hash::Sha1 => ("hmac(sha1)", 96),
        Hash::Sha256 => ("hmac(sha256)", 128),
        Hash::Sha384 => ("hmac(sha384)", 192),
        Hash::Sha512 => ("hmac(sha512)", 256),
    };
    let what = format!("{protocol} integrity");
    let key = keys.octets(way, &what, manual::key_len(hash));
    format!("auth-trunc {name} {} {bits}", *key)
}

fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "cbc(des)",
        Cipher::TripleDes => "cbc(des3_ede)",
        Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => "cbc(aes)",
    }
}

/// The directions of Linux: what is forwarded to a network comes in, too.
const DIRECTIONS: [(&str, Way); 3] = [("out", Way::Out), ("in", Way::In), ("fwd", Way::In)];

fn policies(it: &Description, keys: &Manual, add: &mut String, delete: &mut String) {
    for (direction, way) in DIRECTIONS {
        let [source, destination] = keys.path(way);
        let tmpl = |protocol: &str, mode: &str| {
            format!(
                " tmpl src {source} dst {destination} proto {protocol} reqid {REQID} mode {mode}"
            )
        };
        let templates = match (keys.esp.is_some(), keys.ah.is_some()) {
            (true, true) => tmpl("esp", "tunnel") + &tmpl("ah", "transport"),
            (true, false) => tmpl("esp", "tunnel"),
            (false, _) => tmpl("ah", "tunnel"),
        };
        for network in &it.networks {
            let is_to_network = (it.side == Side::Client) == (way == Way::Out);
            let network = words::network(network);
            let selector = match is_to_network {
                true => format!("src {} dst {network}", host(source)),
                false => format!("src {network} dst {}", host(destination)),
            };
            *add += &format!("xfrm policy add {selector} dir {direction}{templates}\n");
            *delete += &format!("xfrm policy delete {selector} dir {direction}\n");
        }
    }
}

fn host(address: std::net::IpAddr) -> String {
    let prefix_len = if address.is_ipv4() { 32 } else { 128 };
    words::network(&Network {
        address,
        prefix_len,
    })
}

fn native(it: &Description, add: &mut String, delete: &mut String) {
    for (direction, way) in DIRECTIONS {
        for network in &it.networks {
            let any = match network.address.is_ipv4() {
                true => "0.0.0.0/0",
                false => "::/0",
            };
            let is_to_network = (it.side == Side::Client) == (way == Way::Out);
            let network = words::network(network);
            let selector = match is_to_network {
                true => format!("src {any} dst {network}"),
                false => format!("src {network} dst {any}"),
            };
            *add += &format!("xfrm policy add {selector} dir {direction} action allow\n");
            *delete += &format!("xfrm policy delete {selector} dir {direction}\n");
        }
    }
}

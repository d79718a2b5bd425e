//! strongSwan: the same settings as swanctl.conf and as messages of vici.

use wire::agent::Network;
use wire::vici::{Section, Value};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::quote::toml_signs as quote;
use super::texts::Texts;
use super::{Kind, WriteFault, meant, words};
use crate::agent::description::{Credential, Description, Inner, Side};
use crate::agent::ike::IkeVersion;
use crate::agent::objectives::SecurityOption;
use crate::suite::{EspSuite, Ikev2Suite};

/// The name of the child.
const CHILD: &str = "net";
const INDENT: &str = "  ";
/// Octets that a quoted octet has at most: a control character is `\u0001`.
const QUOTED_MAX: usize = 6;

/// What a charon knows besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charon {
    /// ML-KEM and additional key exchanges, which strongSwan has from 6.0 on.
    pub has_mlkem: bool,
}

/// What charon is told by vici.
pub struct Vici {
    /// Of `load-pool`, if there is an address to lend.
    pub pool: Option<Wiped>,
    /// Of `load-shared`, with a pre-shared key.
    pub shared: Option<Wiped>,
    /// Of another `load-shared`, with a post-quantum pre-shared key.
    pub ppk: Option<Wiped>,
    /// Of `load-key`, with certificates.
    pub key: Option<Wiped>,
    /// Of `load-conn`.
    pub connection: Wiped,
}

/// A section that may have keys. Wiped on drop.
pub struct Wiped(pub Section);

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl ZeroizeOnDrop for Wiped {}

fn wipe(section: &mut Section) {
    for (_, value) in &mut section.0 {
        match value {
            Value::Section(inner) => wipe(inner),
            Value::Octets(octets) => octets.zeroize(),
            Value::List(items) => items.iter_mut().for_each(Zeroize::zeroize),
        }
    }
}

/// How certificates are named: by files, or by themselves.
enum Certificates<'a> {
    Files(&'a str),
    Themselves,
}

pub(super) fn write(it: &Description, folder: &str) -> Result<Texts, WriteFault> {
    let name = it.name();
    let mut texts = Texts::of(Kind::StrongSwan);
    if let Credential::Certificates { chain, key, peer } = &it.credential {
        texts.certificates(format!("{folder}/x509/{name}.pem"), &chain[..1]);
        for (at, further) in chain.iter().enumerate().skip(1) {
            let path = format!("{folder}/x509ca/{name}-{at}.pem");
            texts.certificates(path, std::slice::from_ref(further));
        }
        texts.key(format!("{folder}/private/{name}.key"), key);
        texts.certificates(format!("{folder}/x509/{name}-peer.pem"), &peer[..1]);
    }
    // Texts are for any charon of today.
    let connection = connection(it, &Certificates::Files(&name), Charon::default())?;
    let whole = Section::new().with_section(&name, connection);
    let mut whole = Section::new().with_section("connections", whole);
    if let Some(pool) = pool(it) {
        whole = whole.with_section("pools", pool);
    }
    let mut secrets = Section::new();
    if let Credential::PresharedKey(key) = &it.credential {
        let secret = Section::new()
            .with("id-local", it.local.identity.as_str())
            .with("id-remote", it.remote.identity.as_str())
            .with("secret", key.text().as_bytes());
        secrets = secrets.with_section(&format!("ike-{name}"), secret);
    }
    if let Some(ppk) = &it.ppk {
        let secret = Section::new()
            .with("id", ppk.id.as_str())
            .with("secret", ppk.key.text().as_bytes());
        secrets = secrets.with_section(&format!("ppk-{name}"), secret);
    }
    if !secrets.0.is_empty() {
        whole = whole.with_section("secrets", secrets);
    }
    let whole = Wiped(whole);
    let text = printed(&whole.0);
    texts.configuration(format!("{folder}/conf.d/{name}.conf"), "#", text);
    texts.run(&["swanctl", "--load-all", "--noprompt"]);
    match (it.side, it.option) {
        // Children of all tunnels have this name.
        (_, SecurityOption::Native) => {
            texts.undo(&["swanctl", "--uninstall", "--child", CHILD, "--ike", &name]);
        }
        (Side::Client, _) => {
            texts.run(&["swanctl", "--initiate", "--ike", &name, "--child", CHILD]);
            texts.undo(&["swanctl", "--terminate", "--ike", &name]);
        }
        (Side::Target, _) => texts.undo(&["swanctl", "--terminate", "--ike", &name]),
    }
    texts.remove_files();
    texts.undo(&["swanctl", "--load-all", "--clear", "--noprompt"]);
    Ok(texts)
}

/// The messages that load this end.
pub fn vici(it: &Description, charon: Charon) -> Result<Vici, WriteFault> {
    if let Some(why) = Kind::StrongSwan.lacks(it.option) {
        return Err(WriteFault::Option {
            kind: Kind::StrongSwan,
            option: it.option,
            why,
        });
    }
    let it = &*meant(it);
    let name = it.name();
    let (shared, key) = match &it.credential {
        Credential::PresharedKey(key) => {
            let names = [&it.local, &it.remote].map(|end| end.identity.as_str());
            let shared = Section::new()
                .with("id", &name)
                .with("type", "ike")
                .with("data", key.text().as_bytes())
                .with_list("owners", names);
            (Some(shared), None)
        }
        Credential::Certificates { key, .. } => {
            let key = Section::new().with("type", "any").with("data", &key.0);
            (None, Some(key))
        }
    };
    let ppk = it.ppk.as_ref().map(|ppk| {
        Section::new()
            .with("id", ppk_name(&name))
            .with("type", "ppk")
            .with("data", ppk.key.text().as_bytes())
            .with_list("owners", [ppk.id.as_str()])
    });
    let connection = connection(it, &Certificates::Themselves, charon)?;
    Ok(Vici {
        pool: pool(it).map(Wiped),
        shared: shared.map(Wiped),
        ppk: ppk.map(Wiped),
        key: key.map(Wiped),
        connection: Wiped(Section::new().with_section(&name, connection)),
    })
}

/// charon's name of a tunnel's PPK, by which it is unloaded.
pub fn ppk_name(tunnel: &str) -> String {
    format!("{tunnel}-ppk")
}

fn pool(it: &Description) -> Option<Section> {
    let Inner::Lent(address) = it.inner else {
        return None;
    };
    if it.option == SecurityOption::Native {
        return None;
    }
    let pool = Section::new().with("addrs", address.to_string());
    Some(Section::new().with_section(&it.name(), pool))
}

fn connection(
    it: &Description,
    by: &Certificates<'_>,
    charon: Charon,
) -> Result<Section, WriteFault> {
    let name = it.name();
    let is_native = it.option == SecurityOption::Native;
    let addresses = it.remote.addresses.iter().map(ToString::to_string);
    let mut section = Section::new().with("version", it.ike.number().to_string());
    section = match it.side {
        Side::Client => section.with_list("remote_addrs", addresses),
        Side::Target => section.with_list("remote_addrs", ["%any"]),
    };
    if !is_native {
        section = section.with_list("proposals", suites(it, charon)?);
        if let Some(ppk) = &it.ppk {
            section = section.with("ppk_required", "yes");
            if it.side == Side::Client {
                section = section.with("ppk_id", ppk.id.as_str());
            }
            // At Target charon compares the name before it has chosen among the tunnels of a user.
            // Without one it takes the PPK that Client names, of those that are loaded.
        }
        // The other end renews; a NAT's timeout is far shorter.
        section = section.with("dpd_delay", "30s").with("encap", "yes");
        section = match it.side {
            Side::Target => lifetimes(it, section),
            // Target says how long the IKE SA lives (RFC 4478). By charon's default, which is a
            // part of four hours, it would reauthenticate at once.
            Side::Client => section.with("over_time", "1s").with("rand_time", "0s"),
        };
        section = match it.inner {
            Inner::Asked => section.with_list("vips", [it.any_address().to_string()]),
            Inner::Lent(_) => section.with_list("pools", [&name]),
            Inner::Outer => section,
        };
    }
    if matches!(it.credential, Credential::PresharedKey(_)) && it.ike == IkeVersion::V1 {
        // Main mode finds a pre-shared key by the address alone (RFC 2409 §5.4).
        section = section.with("aggressive", "yes");
    }
    let [own, peer] = auth(it, by);
    let children = Section::new().with_section(CHILD, child(it)?);
    Ok(section
        .with_section("local", own)
        .with_section("remote", peer)
        .with_section("children", children))
}

/// The IKE SA, and its children with it, end with the tunnel, whoever is there. At a Target, charon
/// does not reauthenticate, but expects Client to, until `over_time` has passed.
fn lifetimes(it: &Description, section: Section) -> Section {
    section
        .with("rekey_time", "0s")
        .with("reauth_time", format!("{}s", it.lifetime.as_secs()))
        .with("over_time", "1s")
        .with("rand_time", "0s")
}

fn auth(it: &Description, by: &Certificates<'_>) -> [Section; 2] {
    let of = |text: &str, own: &str| {
        let section = Section::new().with("auth", text);
        section.with("id", own)
    };
    let names = [&it.local, &it.remote].map(|end| end.identity.as_str());
    match &it.credential {
        Credential::PresharedKey(_) => names.map(|name| of("psk", name)),
        Credential::Certificates { chain, peer, .. } => {
            let [own, other] = names.map(|name| of("pubkey", name));
            match by {
                Certificates::Files(name) => [
                    own.with_list("certs", [format!("{name}.pem")]),
                    other.with_list("certs", [format!("{name}-peer.pem")]),
                ],
                Certificates::Themselves => [
                    own.with_list("certs", &chain[..1]),
                    other.with_list("certs", &peer[..1]),
                ],
            }
        }
    }
}

fn child(it: &Description) -> Result<Section, WriteFault> {
    let networks = it.networks.iter().map(words::network);
    let (behind, own) = match it.side {
        Side::Client => ("remote_ts", "local_ts"),
        Side::Target => ("local_ts", "remote_ts"),
    };
    let section = Section::new().with_list(behind, networks);
    if it.option == SecurityOption::Native {
        let everywhere = match it.networks.iter().any(is_v4) {
            true => "0.0.0.0/0",
            false => "::/0",
        };
        let section = section.with_list(own, [everywhere]);
        return Ok(section.with("mode", "pass").with("start_action", "trap"));
    }
    let section = section.with_list(own, ["dynamic"]);
    let (key, suites) = match it.option {
        SecurityOption::Ah => ("ah_proposals", it.ah()),
        _ => ("esp_proposals", it.esp()),
    };
    let suites = words::all(Kind::StrongSwan, it.option.name(), suites, |suite| {
        Some(esp(suite))
    })?;
    Ok(section
        .with("mode", "tunnel")
        .with_list(key, suites)
        .with("start_action", "none"))
}

fn is_v4(network: &Network) -> bool {
    network.address.is_ipv4()
}

/// The house's words are strongSwan's.
fn suites(it: &Description, charon: Charon) -> Result<Vec<String>, WriteFault> {
    let is_classical = |it: &Ikev2Suite| it.additional.is_empty() && !it.is_post_quantum();
    let knows = |suite: &Ikev2Suite| charon.has_mlkem || is_classical(suite);
    match it.ike {
        IkeVersion::V1 => words::all(Kind::StrongSwan, "IKE", &it.proposals.ike, |suite| {
            Some(suite.to_string())
        }),
        IkeVersion::V2 => words::all(Kind::StrongSwan, "IKE", &it.proposals.ikev2, |suite| {
            knows(suite).then(|| suite.to_string())
        }),
    }
}

fn esp(suite: &EspSuite) -> String {
    let words = suite.to_string();
    words.strip_prefix("ah-").unwrap_or(&words).to_owned()
}

/// One setting a line, as swanctl.conf wants it. The text has its room from the start and is made
/// in place: a text that grows or is put together leaves parts of a key behind.
fn printed(section: &Section) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(room(section, 0)));
    print(section, 0, &mut text);
    text
}

/// Octets that it needs at most.
fn room(section: &Section, depth: usize) -> usize {
    let elements = section.0.iter().map(|(key, value)| {
        let line = 2 * INDENT.len() * depth + 2 * key.len() + "\"\" = {}\n\n".len();
        line + match value {
            Value::Section(inner) => room(inner, depth + 1),
            Value::Octets(octets) => QUOTED_MAX * octets.len(),
            Value::List(items) => items.iter().map(|it| QUOTED_MAX * it.len() + 2).sum(),
        }
    });
    elements.sum()
}

fn print(section: &Section, depth: usize, out: &mut String) {
    for (key, value) in &section.0 {
        out.extend(core::iter::repeat_n(INDENT, depth));
        out.push_str(key);
        match value {
            Value::Section(inner) => {
                out.push_str(" {\n");
                print(inner, depth + 1, out);
                out.extend(core::iter::repeat_n(INDENT, depth));
                out.push_str("}\n");
            }
            Value::Octets(value) => {
                out.push_str(" = \"");
                quote(&String::from_utf8_lossy(value), out);
                out.push_str("\"\n");
            }
            Value::List(items) => {
                out.push_str(" = \"");
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    quote(&String::from_utf8_lossy(item), out);
                }
                out.push_str("\"\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        let secret = Section::new()
            .with("id", "cta-07")
            .with("secret", "k\"e\\y\n");
        let all = Section::new().with_section("ppk-cta", secret);
        let lists = Section::new().with_list("vips", ["0.0.0.0", "::"]);
        let lists = lists.with_list("none", [""; 0]);
        Section::new()
            .with_section("secrets", all)
            .with_section("connections", lists)
    }

    #[test]
    fn a_text_is_quoted_and_has_not_grown() {
        let text = printed(&section());
        let expected = "secrets {\n  ppk-cta {\n    id = \"cta-07\"\n    secret = \
                        \"k\\\"e\\\\y\\u000a\"\n  }\n}\nconnections {\n  vips = \"0.0.0.0, ::\"\n  \
                        none = \"\"\n}\n";
        assert_eq!(*text, expected);
        assert_eq!(text.capacity(), room(&section(), 0));
        let hostile = Section::new()
            .with("", vec![1; 99])
            .with_list("", [[0xff; 50]; 9]);
        assert_eq!(printed(&hostile).capacity(), room(&hostile, 0));
    }

    #[test]
    fn what_may_have_keys_is_wiped() {
        const fn is_wiped<T: ZeroizeOnDrop>() {}
        const { is_wiped::<Wiped>() };
        let mut all = section();
        wipe(&mut all);
        let text = printed(&all);
        for word in ["k\\", "cta-07", "0.0"] {
            assert!(!text.contains(word), "{word}: {}", *text);
        }
    }
}

//! Caravan's own configuration.

use super::quote::{toml as text, toml_list as list};
use super::texts::Texts;
use super::{Kind, words};
use crate::agent::description::{Credential, Description, Inner, Side};
use crate::agent::ike::IkeVersion;
use crate::agent::objectives::SecurityOption;

/// Where a configuration finds its certificates and its key.
pub struct Places<'a> {
    /// Our certificates.
    pub own: &'a str,
    /// Our private key.
    pub key: &'a str,
    /// The other end's certificates.
    pub peer: &'a str,
    /// The post-quantum pre-shared key.
    pub ppk: &'a str,
}

pub(super) fn write(it: &Description, folder: &str) -> Texts {
    let name = it.name();
    let mut texts = Texts::of(Kind::Caravan);
    let places = [".pem", ".key", "-peer.pem", ".ppk"].map(|end| format!("{name}{end}"));
    if let Credential::Certificates { chain, key, peer } = &it.credential {
        texts.certificates(format!("{folder}/{}", places[0]), chain);
        texts.key(format!("{folder}/{}", places[1]), key);
        texts.certificates(format!("{folder}/{}", places[2]), &peer[..1]);
    }
    if let Some(ppk) = &it.ppk {
        texts.file(format!("{folder}/{}", places[3]), ppk.key.text());
    }
    if it.option == SecurityOption::Native {
        texts.notes.push("no IPsec: this traffic is NOT protected");
    }
    let places = Places {
        own: &places[0],
        key: &places[1],
        peer: &places[2],
        ppk: &places[3],
    };
    let path = format!("{folder}/{name}.toml");
    texts.configuration(path.clone(), "#", toml(it, &places));
    match it.side {
        Side::Client => {
            texts.run(&["caravan", "up", "-c", &path, "--detach"]);
            texts.undo(&["caravan", "down", &name]);
            texts.remove_files();
        }
        // The gateway's configuration includes the folder.
        Side::Target => {
            texts.run(&["caravan", "reload"]);
            texts.remove_files();
            texts.undo(&["caravan", "reload"]);
        }
    }
    texts
}

/// The tables of one tunnel. With a pre-shared key they contain it.
pub fn toml(it: &Description, places: &Places<'_>) -> String {
    let name = it.name();
    let is_native = it.option == SecurityOption::Native;
    let is_shared = matches!(it.credential, Credential::PresharedKey(_));
    let mut lines = vec![format!("[connections.{name}]")];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    let addresses: Vec<String> = it
        .remote
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    if !addresses.is_empty() {
        say("remote_addrs", list(&addresses));
    }
    let is_v1 = it.ike == IkeVersion::V1;
    if is_v1 {
        say("version", "1".to_owned());
    }
    say("proposals", list(&suites(it)));
    if let Some(ppk) = &it.ppk {
        // No tunnel without it: that is its default.
        say("ppk_id", text(ppk.id.as_str()));
        say("ppk_file", text(places.ppk));
    }
    match it.inner {
        Inner::Asked if !is_native => say("vips", list(&[it.any_address().to_string()])),
        Inner::Lent(_) if !is_native => say("pools", list(&[&name])),
        _ => {}
    }
    if is_shared && is_v1 {
        // Main mode finds a pre-shared key by the address alone (RFC 2409 §5.4).
        say("aggressive", "true".to_owned());
    }
    lifetime(it, &mut say);
    if it.legacy || is_shared && is_v1 || is_native {
        say("legacy", "true".to_owned());
    }
    let (own, peer) = ends(it, places);
    say("local", own);
    say("remote", peer);
    lines.push(format!("\n[connections.{name}.children.net]"));
    let side = match it.side {
        Side::Client => "remote_ts",
        Side::Target => "local_ts",
    };
    lines.push(format!("{side} = {}", list(&words::networks(&it.networks))));
    let protocols = [("esp_proposals", it.esp()), ("ah_proposals", it.ah())];
    for (key, suites) in protocols.iter().filter(|(_, suites)| !suites.is_empty()) {
        let suites: Vec<String> = suites.iter().map(ToString::to_string).collect();
        lines.push(format!("{key} = {}", list(&suites)));
    }
    match it.option {
        SecurityOption::Native => lines.push("esp_proposals = [\"none\"]".to_owned()),
        SecurityOption::AhEsp => lines.push("ah_around_esp = true".to_owned()),
        SecurityOption::Ah | SecurityOption::Esp => {}
    }
    if let (Inner::Lent(address), false) = (it.inner, is_native) {
        let address = text(&address.to_string());
        lines.push(format!("\n[pools.{name}]\naddrs = {address}"));
    }
    lines.join("\n") + "\n"
}

/// When the tunnel ends.
fn lifetime(it: &Description, say: &mut impl FnMut(&str, String)) {
    match it.side {
        // A certificate ends its session by itself.
        Side::Target if matches!(it.credential, Credential::PresharedKey(_)) => {
            say("rekey_time", text(&format!("{}s", it.lifetime.as_secs())));
            say("over_time", text("1s"));
        }
        // A gateway that says when it ends the session (RFC 4478) means the tunnel's end.
        Side::Client if it.ike == IkeVersion::V2 && it.option != SecurityOption::Native => {
            say("reauth", "false".to_owned());
        }
        _ => {}
    }
}

/// Suites of IKE.
fn suites(it: &Description) -> Vec<String> {
    let (first, second) = (it.proposals.ike.iter(), it.proposals.ikev2.iter());
    let first = first.map(ToString::to_string);
    first.chain(second.map(ToString::to_string)).collect()
}

/// `local` and `remote`.
fn ends(it: &Description, places: &Places<'_>) -> (String, String) {
    let [own, peer] = [&it.local, &it.remote].map(|end| text(end.identity.as_str()));
    match &it.credential {
        Credential::Certificates { .. } => (
            format!(
                "{{ certs = [{}], key = {}, id = {own} }}",
                text(places.own),
                text(places.key)
            ),
            format!("{{ certs = [{}], id = {peer} }}", text(places.peer)),
        ),
        Credential::PresharedKey(key) => (
            format!("{{ auth = \"psk\", id = {own} }}"),
            format!(
                "{{ auth = \"psk\", id = {peer}, secret = {} }}",
                text(&key.text())
            ),
        ),
    }
}

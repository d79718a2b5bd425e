//! `docs/vpn-configuration.md`: every key of a configuration with its value, default and meaning,
//! made from the tables of `config/file.rs`.
//!
//! `CARAVAN_BLESS=1 cargo test -p daemon --test tidy` writes it.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::tree::{Finding, Tree, top};

const PAGE: &str = "docs/vpn-configuration.md";
const SOURCE: &str = "crates/daemon/src/config/file.rs";
const AUTH: &str = "crates/daemon/src/config/file/auth.rs";
const CHOICES: &str = "crates/daemon/src/config/file/choices.rs";
/// Values that tables share.
const UNITS: &str = "crates/daemon/src/config/values.rs";
/// Enums that keys have as values and that other files define.
const VALUES: [&str; 4] = [
    "crates/daemon/src/routes/full.rs",
    "crates/engine/src/mip4/firewall.rs",
    "crates/engine/src/mip4/tunnel.rs",
    "crates/engine/src/sa/kinds.rs",
];
/// The tables of Mobile IPv4.
const MOBILITY: &str = "crates/daemon/src/config/mobility.rs";
const ASSOCIATION: &str = "crates/daemon/src/config/association.rs";
/// The tables of firewalls and of SKIP.
const FIREWALL: &str = "crates/daemon/src/config/firewall.rs";
const SKIP: &str = "crates/daemon/src/config/skip.rs";
const RADIUS: &str = "crates/daemon/src/config/radius.rs";
const LIMITS: &str = "crates/engine/src/config.rs";

const HEAD: &str = "# Configuration keys

Each process reads one TOML file: `caravan gateway -c FILE`, `caravan up -c FILE`, `caravan
home-agent -c FILE`, `caravan foreign-agent -c FILE` or `caravan firewall -c FILE`. `caravan check
FILE` reports errors and unwise settings, also in the file of [caravan wireless](vpn-wireless.md).
Unknown keys are errors. File names are relative to the folder of the configuration. Times and
sizes are text with a unit: `\"90s\"`, `\"4h\"`, `\"30d\"`; `\"64kb\"`, `\"1gib\"`. A key without a
default is optional unless the table says *needed*.

Samples: [gateway](../packaging/gateway.toml), [client](../packaging/client.toml),
[home agent](../packaging/home-agent.toml), [foreign agent](../packaging/foreign-agent.toml),
[mobile node](../packaging/mobile.toml), [firewall](../packaging/firewall.toml). This page is made
from `crates/daemon/src/config/file.rs` and `mobility.rs`, `firewall.rs` and `skip.rs` beside it,
and tested against them.
";

/// A table of the file, and the struct that reads it.
const TABLES: [(&str, &str); 23] = [
    ("`[daemon]`: the process", "DaemonTable"),
    (
        "`[connections.NAME]`: a peer, or a group of peers",
        "ConnectionTable",
    ),
    ("`local` and `remote`: authentication", "AuthTable"),
    (
        "`[connections.NAME.children.NAME]`: protected traffic",
        "ChildTable",
    ),
    ("`[pools.NAME]`: inner addresses for clients", "PoolTable"),
    (
        "`[[publish]]`: ports of the gateway that lead to servers",
        "PublishTable",
    ),
    (
        "`[radius]`: servers that decide about a gateway's peers",
        "RadiusTable",
    ),
    (
        "`[home_agent]`: a home agent of Mobile IPv4",
        "HomeAgentTable",
    ),
    (
        "`[foreign_agent]`: a foreign agent of Mobile IPv4",
        "ForeignAgentTable",
    ),
    ("`[mobile]`: a mobile node of Mobile IPv4", "MobileTable"),
    (
        "`[mobile_nodes.NAME]`: a mobile node that an agent serves",
        "MobileNodeTable",
    ),
    (
        "`[home_agents.NAME]` and `[foreign_agents.NAME]`: an agent that shares keys",
        "AgentTable",
    ),
    (
        "`association`: keys that a node and an agent share",
        "AssociationTable",
    ),
    (
        "`[firewall]`: the firewall of a mobile private network",
        "FirewallTable",
    ),
    (
        "`[access.NAME]`: a line of the firewall's access list",
        "AccessTable",
    ),
    (
        "`[mobile.firewall]`: what a mobile node knows of the firewall",
        "NodeFirewallTable",
    ),
    (
        "`[mobile.gateway]`: what a mobile node knows of its VPN gateway",
        "NodeGatewayTable",
    ),
    (
        "`[mobile.gateway.outside]`: a home agent outside",
        "NodeOutsideTable",
    ),
    (
        "`[[mobile.firewall.behind]]` and `[[mobile.firewall.others]]`: further firewalls",
        "WallTable",
    ),
    (
        "`[[home_agent.outside]]`: care-of addresses behind a firewall",
        "OutsideTable",
    ),
    ("`[skip]`: our own long-term key", "SkipTable"),
    (
        "`token`: a key that stays on its PKCS #11 token",
        "TokenTable",
    ),
    (
        "`skip` of a peer: keys in the packets, and what both ends know of them",
        "SkipPeerTable",
    ),
];

/// A field or a variant.
#[derive(Default)]
struct Entry {
    name: String,
    kind: String,
    doc: String,
    attribute: String,
}

/// Checks that the page on disk matches the code. With CARAVAN_BLESS set, writes it.
pub(crate) fn is_current(tree: &Tree) -> Vec<Finding> {
    let sources = [
        SOURCE,
        AUTH,
        CHOICES,
        UNITS,
        MOBILITY,
        ASSOCIATION,
        FIREWALL,
        SKIP,
        RADIUS,
    ];
    let texts = sources.into_iter().chain(VALUES).map(|path| {
        let text = &tree.find(path).expect("a source").text;
        text.split("\n#[cfg(test)]").next().unwrap_or_default()
    });
    let texts: Vec<&str> = texts.collect();
    let wanted = with_limits(page(&texts.join("\n")), tree);
    let there = tree.find(PAGE).map_or("", |file| file.text.as_str());
    if there == wanted {
        return Vec::new();
    }
    if std::env::var_os("CARAVAN_BLESS").is_some() {
        std::fs::write(top().join(PAGE), wanted).expect("the page can be written");
        return Vec::new();
    }
    vec![Finding {
        path: PAGE.to_owned(),
        line: 1,
        what: "not what config/file.rs says: CARAVAN_BLESS=1 cargo test -p daemon --test tidy"
            .to_owned(),
    }]
}

/// Replaces the names of the engine's default limits by their numbers.
fn with_limits(page: String, tree: &Tree) -> String {
    let engine = tree.find(LIMITS).expect("the engine's limits");
    let lines = engine.text.lines();
    lines.fold(page, |page, line| {
        let declared = line.strip_prefix("pub const ");
        let Some((name, value)) = declared.and_then(|it| it.split_once(": usize = ")) else {
            return page;
        };
        let value = value.trim_end_matches(';').replace('_', "");
        page.replace(&format!("engine::config::{name}"), &value)
    })
}

fn page(source: &str) -> String {
    let items = items(source);
    let mut page = HEAD.to_owned();
    for (title, name) in TABLES {
        let _ = write!(
            page,
            "\n## {title}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
        );
        for field in &items[name] {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                field.name,
                value(&items, &field.kind),
                default(source, &items, name, field),
                field.doc.replace('|', "\\|")
            );
        }
    }
    page
}

/// Structs and enums with their fields and variants.
fn items(source: &str) -> BTreeMap<String, Vec<Entry>> {
    let mut items = BTreeMap::new();
    let mut current: Option<(String, Vec<Entry>)> = None;
    let mut next = Entry::default();
    for line in source.lines() {
        let line_in = line.trim();
        let opened = ["pub struct ", "pub enum "]
            .iter()
            .find_map(|it| line.strip_prefix(it));
        if let Some(name) = opened.and_then(|rest| rest.strip_suffix(" {")) {
            current = Some((name.to_owned(), Vec::new()));
            next = Entry::default();
        } else if line == "}" {
            items.extend(current.take());
        } else if let Some((_, entries)) = &mut current {
            if let Some(doc) = line_in.strip_prefix("/// ") {
                next.doc = format!("{} {doc}", next.doc).trim().to_owned();
            } else if line_in.starts_with("#[") {
                next.attribute = line_in.to_owned();
            } else if let Some(declared) = line_in.strip_suffix(',') {
                let declared = declared.strip_prefix("pub ").unwrap_or(declared);
                let (name, kind) = declared.split_once(": ").unwrap_or((declared, ""));
                (next.name, next.kind) = (name.to_owned(), kind.to_owned());
                entries.push(core::mem::take(&mut next));
            }
        }
    }
    items
}

fn inside<'a>(kind: &'a str, around: &str) -> Option<&'a str> {
    kind.strip_prefix(around)?
        .strip_prefix('<')?
        .strip_suffix('>')
}

/// Describes a type in words.
fn value(items: &BTreeMap<String, Vec<Entry>>, kind: &str) -> String {
    if let Some(kind) = inside(kind, "Option") {
        return value(items, kind);
    }
    if let Some(kind) = inside(kind, "Vec") {
        return format!("list of {}", value(items, kind));
    }
    match kind {
        "String" | "SecretText" => "text".to_owned(),
        "PathBuf" => "file".to_owned(),
        "IpAddr" | "Ipv4Addr" => "address".to_owned(),
        "SocketAddr" => "address:port".to_owned(),
        "bool" => "true, false".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "number".to_owned(),
        "Span" => "time".to_owned(),
        "Size" => "size".to_owned(),
        _ if kind.ends_with("Table") => "table".to_owned(),
        "Network" => "network".to_owned(),
        "Service" => "protocol and port".to_owned(),
        "Origin" => "address, network, `\"*\"`".to_owned(),
        "Name" => "name of SKIP".to_owned(),
        "KijAlg" | "CryptAlg" | "MacAlg" => "name of an algorithm".to_owned(),
        "Profile" => "`\"skip-x25519\"`, `\"skip-draft\"`, `\"skip-paper\"`".to_owned(),
        "firewall::Mode" => "`\"binding\"`, `\"packet-parsing\"`".to_owned(),
        "ReplayProtection" => "`\"timestamps\"`, `\"nonces\"`".to_owned(),
        "Algorithm" => "`\"hmac-md5\"`, `\"hmac-sha-256\"`, `\"keyed-md5\"`".to_owned(),
        "Encap" => "`\"auto\"`, true, false".to_owned(),
        _ if kind.starts_with("BTreeMap") => "tables".to_owned(),
        _ => {
            let variants = items.get(kind).expect("a type of the file").iter();
            let words: Vec<String> = variants
                .map(|variant| format!("`\"{}\"`", word(&variant.name)))
                .collect();
            words.join(", ")
        }
    }
}

/// A variant as files write it: `AtOnce` is at-once.
fn word(variant: &str) -> String {
    let mut word = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

/// What the reader of the table says: `or` has the default, `needed` has none, `given` has that of
/// the type.
fn default(
    source: &str,
    items: &BTreeMap<String, Vec<Entry>>,
    table: &str,
    field: &Entry,
) -> String {
    let reader = block(source, &format!("impl ReadTable for {table} {{"));
    let read = line(reader, &format!("{}: keys.", field.name));
    let (method, rest) = read.split_once('(').expect("a method");
    match method {
        "needed" => "*needed*".to_owned(),
        "given" => match items.get(&field.kind) {
            Some(variants) if field.kind != "AuthTable" => {
                let first = variants.iter().find(|it| it.attribute == "#[default]");
                format!("`\"{}\"`", word(&first.expect("a default").name))
            }
            _ => String::new(),
        },
        _ => {
            let (_, value) = rest.split_once(", ").expect("a default");
            let value = value.strip_suffix(")?").expect("one line");
            // The default of the whole table.
            let value = match value.strip_prefix("usual.") {
                Some(_) => line(
                    block(source, &format!("impl Default for {table} {{")),
                    &format!("{}: ", field.name),
                ),
                None => value,
            };
            match value {
                "None" => String::new(),
                value => format!("`{}`", plain(value)),
            }
        }
    }
}

/// What follows a line of the source, up to the next line without indentation.
fn block<'a>(source: &'a str, start: &str) -> &'a str {
    let rest = source.split(start).nth(1).expect(start);
    rest.split("\n}").next().expect("its end")
}

/// The rest of the line that starts so, without its comma.
fn line<'a>(block: &'a str, start: &str) -> &'a str {
    let mut lines = block.lines().map(str::trim);
    let rest = lines.find_map(|line| line.strip_prefix(start));
    rest.expect(start).trim_end_matches(',')
}

/// A Rust value as TOML.
fn plain(text: &str) -> String {
    if let Some(seconds) = text
        .strip_prefix("Span::seconds(")
        .and_then(|it| it.strip_suffix(')'))
    {
        let seconds: u64 = seconds.replace('_', "").parse().expect("seconds");
        return match (seconds % 3600, seconds % 60) {
            (0, _) => format!("\"{}h\"", seconds / 3600),
            (_, 0) => format!("\"{}m\"", seconds / 60),
            _ => format!("\"{seconds}s\""),
        };
    }
    if text == "Profile::X25519" {
        return "\"skip-x25519\"".to_owned();
    }
    // A variant, not a constant of a module.
    let variant = text.rsplit_once("::").filter(|(kind, _)| {
        let name = kind.rsplit("::").next().unwrap_or_default();
        name.starts_with(char::is_uppercase)
    });
    if let Some((_, variant)) = variant {
        return format!("\"{}\"", word(variant));
    }
    let text = text.trim_end_matches(".to_owned()");
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => text.replace('_', ""),
        false => text.to_owned(),
    }
}

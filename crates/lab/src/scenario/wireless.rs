//! Layers of a wireless link: how a station gets access to it (IEEE 802.1X), and the cipher of its
//! frames.

use document::{Fault, Table};
use engine::link::wireless::LinkCipher;
use serde::{Serialize, Serializer};

use super::Role;
use super::catalogue::{Catalogue, Entry, Kind};
use super::motion::{Change, Move};
use super::topology::Topology;

/// What protects the radio.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wireless {
    /// Who gets access where, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Access>,
    /// Links with a cipher.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<Cipher>,
}

/// A station that an access point lets in only after an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Index of the station.
    pub station: usize,
    /// Index of the access point.
    pub access_point: usize,
    /// Names of exchanges, one after the other.
    pub methods: Vec<String>,
}

/// A link whose frames are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cipher {
    /// Index of the link, which ends at an access point.
    pub link: usize,
    /// The cipher.
    #[serde(serialize_with = "named")]
    pub cipher: LinkCipher,
}

/// The methods of access whose keys or passwords are known to be weak (RFC 3748 §5.4, RFC 4017).
/// RSA of 1024 bits is shorter than programs take if nobody tells them to.
const LEGACY_METHODS: [&str; 2] = ["eap-md5", "eap-tls-rsa1024"];
/// Exchanges of one access.
const METHODS_MAX: usize = 8;

impl Wireless {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.access.is_empty() && self.ciphers.is_empty()
    }

    /// The cipher of a link.
    pub fn cipher(&self, link: usize) -> Option<LinkCipher> {
        let mut ciphers = self.ciphers.iter();
        ciphers.find(|it| it.link == link).map(|it| it.cipher)
    }

    /// How a station gets access at an access point.
    pub fn access(&self, station: usize, access_point: usize) -> Option<&Access> {
        let ends = (station, access_point);
        let mut all = self.access.iter();
        all.find(|it| (it.station, it.access_point) == ends)
    }

    /// Every station at every access point that it ever uses. Those that layers name stay.
    pub(super) fn let_in(&mut self, methods: &[String], topology: &Topology, moves: &[Move]) {
        for (index, joint) in topology.links.iter().enumerate() {
            if topology.nodes[joint.far].role != Role::AccessPoint {
                continue;
            }
            let brought = moves.iter().filter_map(|step| match step.change {
                Change::Station { node, to } if to == index => Some(node),
                _ => None,
            });
            for station in joint.near.iter().copied().chain(brought) {
                let is_station = topology.nodes[station].role == Role::Station;
                if is_station && self.access(station, joint.far).is_none() {
                    self.access.push(Access {
                        station,
                        access_point: joint.far,
                        methods: methods.to_vec(),
                    });
                }
            }
        }
    }

    /// Every link that ends at an access point. Those that layers name keep their cipher.
    pub(super) fn encipher(&mut self, cipher: LinkCipher, topology: &Topology) {
        for (link, joint) in topology.links.iter().enumerate() {
            let is_radio = topology.nodes[joint.far].role == Role::AccessPoint;
            if is_radio && self.cipher(link).is_none() {
                self.ciphers.push(Cipher { link, cipher });
            }
        }
    }
}

/// The methods of an access layer: one exchange, or a list of them.
pub(super) fn methods(
    table: &Table<'_>,
    is_legacy: bool,
    catalogue: &Catalogue,
    files: &mut Vec<(String, String)>,
) -> Result<Vec<String>, Fault> {
    let written = table.need("method")?;
    let items = match &written.value {
        document::Value::List(items) => &items[..],
        _ => std::slice::from_ref(written),
    };
    if items.is_empty() || items.len() > METHODS_MAX {
        return Err(written.fault(format!("must be 1 to {METHODS_MAX} exchanges")));
    }
    let mut names = Vec::new();
    for item in items {
        let entry = catalogue.named(Kind::Exchange, item)?;
        files.push(entry.fingerprint());
        let own = own_name(entry)?;
        if LEGACY_METHODS.contains(&&*own) && !is_legacy {
            return Err(item.fault(format!("legacy = true is needed for {own}")));
        }
        names.push(entry.name.clone());
    }
    Ok(names)
}

/// The name that an exchange gives itself. A layer may name it by a path, which says nothing of
/// what it is.
fn own_name(entry: &Entry) -> Result<String, Fault> {
    let document = document::parse(&entry.file, &entry.text)?;
    Ok(document.table()?.need("name")?.text()?.to_owned())
}

/// The cipher of a layer.
pub(super) fn cipher(table: &Table<'_>, is_legacy: bool) -> Result<LinkCipher, Fault> {
    let item = table.need("cipher")?;
    let known = LinkCipher::ALL.map(|one| (one.name(), one));
    let cipher = item.choice("cipher", &known)?;
    let permitted = cipher.permit(is_legacy);
    permitted.map_err(|refused| item.fault(refused.to_string()))?;
    Ok(cipher)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn named<S: Serializer>(cipher: &LinkCipher, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(cipher.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::layered::Layered;
    use crate::scenario::tests::entry;

    /// A policy of one layer `access`, in a catalogue with EAP-MD5 under a path, too.
    fn read(head: &str, method: &str) -> Result<Option<Layered>, Fault> {
        let md5 = "name = \"eap-md5\"\ntitle = \"MD5\"\n";
        let tls = "name = \"eap-tls\"\ntitle = \"TLS\"\n";
        let short = "name = \"eap-tls-rsa1024\"\ntitle = \"Short keys\"\n";
        let catalogue = Catalogue::new([
            entry(Kind::Exchange, "eap-md5", md5),
            entry(Kind::Exchange, "my/own.toml", md5),
            entry(Kind::Exchange, "my/other.toml", tls),
            entry(Kind::Exchange, "eap-tls-rsa1024", short),
        ]);
        let text = format!(
            "name = \"pn\"\ntitle = \"pn\"\n{head}\
             [[layer]]\nkind = \"access\"\nmethod = \"{method}\"\n"
        );
        Layered::find(&entry(Kind::Policy, "pn", &text), &catalogue)
    }

    #[test]
    fn a_weak_method_needs_legacy_whatever_its_path() {
        for (method, own) in [
            ("eap-md5", "eap-md5"),
            ("my/own.toml", "eap-md5"),
            ("eap-tls-rsa1024", "eap-tls-rsa1024"),
        ] {
            let fault = read("", method).expect_err("refused").to_string();
            let wanted = format!("legacy = true is needed for {own}");
            assert!(fault.contains(&wanted), "{fault}");
            assert!(read("legacy = true\n", method).is_ok());
        }
        assert!(read("", "my/other.toml").is_ok());
    }
}

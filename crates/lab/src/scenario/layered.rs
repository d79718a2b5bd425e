//! Policies in layers: files of `policies/` that name a layer for each part of the path, without
//! its ends.
//!
//! ```toml
//! name = "pn-11"
//! title = "for people"
//! legacy = true                  # it has an insecure layer
//! [[layer]]
//! kind = "access"                # of each station, to each access point that it uses
//! method = "eap-md5"             # a file of exchanges/, or a list of them
//! [[layer]]
//! kind = "link-cipher"           # of each link that ends at an access point
//! cipher = "wep-104"
//! [[layer]]
//! kind = "ipsec"                 # of each station, to its nearest gateway
//! policy = "3des-sha1"           # another file of policies/, or a suite
//! [[layer]]
//! kind = "transport"             # of each flow by TCP, between its ends: TLS
//! version = "tls-1.3"            # or tls-1.2
//! suite = "aes256gcm16"          # of that version, in the words of ESP
//! method = "tls13"               # its handshake, a file of exchanges/; tls13-resumed resumes
//! record = "16384 B"             # the most that a record carries; absent: that
//! ```

use document::{Fault, Item, Place, Value, parse};
use engine::link::wireless::LinkCipher;

use super::catalogue::{Catalogue, Entry, Kind};
use super::transport::Tls;
use super::wireless;
use crate::cost::{Policy, Standing};

/// What a policy in layers says.
#[derive(Clone, Debug, PartialEq)]
pub struct Layered {
    /// The name in the catalogue.
    pub name: String,
    /// For people.
    pub title: String,
    /// Whether it may have insecure layers.
    pub is_legacy: bool,
    /// Exchanges, one after the other, before a station is let in; none: nothing is asked.
    pub access: Option<Vec<String>>,
    /// Of the frames between station and access point.
    pub cipher: Option<LinkCipher>,
    /// The policy of tunnels, and where it is named.
    pub ipsec: Option<(String, Place)>,
    /// What protects flows by TCP between their ends.
    pub transport: Option<Tls>,
    /// SHA-256 of each file that it names, the exchanges.
    pub(super) files: Vec<(String, String)>,
}

#[derive(Clone, Copy)]
enum Layer {
    Access,
    LinkCipher,
    Ipsec,
    Transport,
}

const KINDS: [(&str, Layer); 4] = [
    ("access", Layer::Access),
    ("link-cipher", Layer::LinkCipher),
    ("ipsec", Layer::Ipsec),
    ("transport", Layer::Transport),
];

impl Layered {
    /// Reads a policy file; none if it has no layers. Whoever reads it as a suite reports a text
    /// that is no TOML.
    pub fn find(entry: &Entry, catalogue: &Catalogue) -> Result<Option<Self>, Fault> {
        let document = parse(&entry.file, &entry.text).ok();
        let is_layered = |it: &Item| match &it.value {
            Value::Table(keys) => keys.contains_key("layer"),
            _ => false,
        };
        let layered = document.filter(is_layered);
        layered
            .map(|document| Self::read(&document, catalogue))
            .transpose()
    }

    /// Its layers in one line: methods, cipher, policy, and TLS.
    pub fn words(&self) -> String {
        let access = self.access.iter().flatten().map(String::as_str);
        let cipher = self.cipher.map(LinkCipher::name);
        let ipsec = self.ipsec.as_ref().map(|(name, _)| name.as_str());
        let transport = self.transport.as_ref().map(|tls| tls.records.to_string());
        let transport = transport.as_deref();
        let all: Vec<&str> = access.chain(cipher).chain(ipsec).chain(transport).collect();
        match all.is_empty() {
            true => "none".to_owned(),
            false => all.join(" + "),
        }
    }

    fn read(document: &Item, catalogue: &Catalogue) -> Result<Self, Fault> {
        let table = document.table()?;
        let mut layered = Self {
            name: table.need("name")?.text()?.to_owned(),
            title: table.need("title")?.text()?.to_owned(),
            is_legacy: table.or("legacy", false, Item::boolean)?,
            access: None,
            cipher: None,
            ipsec: None,
            transport: None,
            files: Vec::new(),
        };
        for key in ["suite", "skip", "keys", "mode", "udp", "outer"] {
            table.refuse(key, "a policy has either layers or a suite")?;
        }
        for item in table.need("layer")?.list()? {
            layered.add(item, catalogue)?;
        }
        table.finish()?;
        Ok(layered)
    }

    fn add(&mut self, item: &Item, catalogue: &Catalogue) -> Result<(), Fault> {
        let table = item.table()?;
        let kind = table.need("kind")?;
        let is_second = match kind.choice("layer", &KINDS)? {
            Layer::Access => {
                let files = &mut self.files;
                let methods = wireless::methods(&table, self.is_legacy, catalogue, files)?;
                self.access.replace(methods).is_some()
            }
            Layer::LinkCipher => {
                let cipher = wireless::cipher(&table, self.is_legacy)?;
                self.cipher.replace(cipher).is_some()
            }
            Layer::Ipsec => {
                let policy = self.ipsec(table.need("policy")?, catalogue)?;
                self.ipsec.replace(policy).is_some()
            }
            Layer::Transport => {
                let tls = Tls::read(&table, self.is_legacy, catalogue, &mut self.files)?;
                self.transport.replace(tls).is_some()
            }
        };
        if is_second {
            return Err(kind.fault("a policy has one layer of each kind"));
        }
        table.finish()
    }

    /// The policy of a layer `ipsec`. Whoever resolves it reports a name that nothing has.
    fn ipsec(&self, item: &Item, catalogue: &Catalogue) -> Result<(String, Place), Fault> {
        let name = item.text()?;
        let policy = match catalogue.find(Kind::Policy, name) {
            Some(entry) => Some(Policy::parse(&entry.file, &entry.text)?),
            None => name.parse().ok().map(Policy::of),
        };
        let standing = policy.map(|it| it.standing());
        let is_insecure = matches!(
            standing,
            Some(Standing::Legacy(_) | Standing::LegacySkip(_))
        );
        if is_insecure && !self.is_legacy {
            return Err(item.fault(format!("legacy = true is needed for {name}")));
        }
        Ok((name.to_owned(), item.place.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::entry;

    /// A policy of one layer `ipsec`, in a catalogue with a policy of 3DES.
    fn read(head: &str, policy: &str) -> Result<Option<Layered>, Fault> {
        let suite = "name = \"old\"\ntitle = \"old\"\nsuite = \"3des-sha1\"\n";
        let catalogue = Catalogue::new([entry(Kind::Policy, "old", suite)]);
        let text = format!(
            "name = \"pn\"\ntitle = \"pn\"\n{head}\
             [[layer]]\nkind = \"ipsec\"\npolicy = \"{policy}\"\n"
        );
        Layered::find(&entry(Kind::Policy, "pn", &text), &catalogue)
    }

    #[test]
    fn an_insecure_ipsec_layer_needs_legacy() {
        for policy in ["old", "3des-sha1"] {
            let fault = read("", policy).expect_err("refused").to_string();
            let wanted = format!("legacy = true is needed for {policy}");
            assert!(fault.contains(&wanted), "{fault}");
            assert!(read("legacy = true\n", policy).is_ok());
        }
        assert!(read("", "aes128gcm16").is_ok());
    }
}

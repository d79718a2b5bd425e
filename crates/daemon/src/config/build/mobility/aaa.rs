//! AAA keys of mobile nodes (RFC 4721).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use engine::mip4::aaa::{AaaKey, CHAP_SPI};
use engine::mip4::association::{Algorithm, Associations};

use super::{Builder, ConfigError, KEY_OCTETS_MIN};
use crate::config::file::ConfigFile;
use crate::config::mobility::AaaTable;

/// What a foreign agent shares with mobile nodes, by home address.
type VisitorKeys = (BTreeMap<Ipv4Addr, Associations>, BTreeMap<Ipv4Addr, AaaKey>);

impl Builder<'_> {
    pub(super) fn aaa(
        &self,
        key: &str,
        table: Option<&AaaTable>,
    ) -> Result<Option<AaaKey>, ConfigError> {
        let Some(table) = table else {
            return Ok(None);
        };
        if table.algorithm == Algorithm::KeyedMd5 {
            let text = "\"keyed-md5\" is the weak form of RFC 2002: no AAA server needs it";
            return Err(self.value(&format!("{key}.algorithm"), text));
        }
        if !AaaKey::is_usable(table.spi) {
            let text = format!("{} is reserved: 256 at least, or {CHAP_SPI}", table.spi);
            return Err(self.value(&format!("{key}.spi"), &text));
        }
        let octets = self.key_octets(key, (&table.key, &table.key_file), KEY_OCTETS_MIN)?;
        let made = AaaKey::new(table.spi, table.algorithm, &octets);
        let empty = || self.value(&format!("{key}.key"), "the key is empty");
        made.map(Some).ok_or_else(empty)
    }

    pub(super) fn visitor_keys(&self, file: &ConfigFile) -> Result<VisitorKeys, ConfigError> {
        let (mut associations, mut aaa_keys) = VisitorKeys::default();
        for (name, node) in &file.mobile_nodes {
            let key = format!("mobile_nodes.{name}");
            let aaa = self.aaa(&format!("{key}.aaa"), node.aaa.as_ref())?;
            if node.association.is_none() && aaa.is_none() {
                let text = "it has no key: add an association or aaa";
                return Err(self.value(&key, text));
            }
            if let Some(shared) = &node.association {
                let shared = self.association(&format!("{key}.association"), shared)?;
                associations.insert(node.home_address, shared);
            }
            aaa_keys.extend(aaa.map(|aaa| (node.home_address, aaa)));
        }
        Ok((associations, aaa_keys))
    }
}

/// What a reader of the file should know about an AAA key.
pub(super) fn standing(key: &str, table: &AaaTable) -> String {
    match table.spi {
        CHAP_SPI => format!(
            "{key}: authenticators as in CHAP are MD5 over the key: weak, and only beside the \
             association with the home agent"
        ),
        _ => format!(
            "{key}: straight to the home agent, authenticators are as in CHAP, whatever its \
             algorithm (RFC 4721 §3.1)"
        ),
    }
}

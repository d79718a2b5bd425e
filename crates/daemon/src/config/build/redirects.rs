//! `redirect`: where a client lets its gateway send it.

use std::net::IpAddr;

use engine::config::{Redirects, Version};
use engine::selector::TrafficSelector;

use super::file::ConnectionTable;
use super::{Builder, ConfigError, Loaded, Names};
use crate::resolver;

impl Builder<'_> {
    /// Refuses keys of IKEv2 with IKEv1, if they ask for something.
    pub(super) fn only_ikev2(
        &self,
        name: &str,
        table: &ConnectionTable,
        version: Version,
    ) -> Result<(), ConfigError> {
        let keys = [
            ("crash_detection", table.crash_detection),
            ("resumption", table.resumption),
            ("redirect", table.redirect.is_some()),
            ("dnssec_domains", !table.dnssec_domains.is_empty()),
            ("mobike", table.mobike == Some(true)),
            ("reauth", table.reauth == Some(true)),
        ];
        let given = keys.into_iter().find(|(_, is_given)| *is_given);
        match given {
            Some((key, _)) if !version.has_v2() => {
                let key = format!("connections.{name}.{key}");
                Err(self.value(&key, "IKEv1 does not have it: version = 2"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn redirects(
        &self,
        loaded: &mut Loaded,
        connection: &str,
        table: &ConnectionTable,
    ) -> Result<Redirects, ConfigError> {
        let Some(entries) = &table.redirect else {
            return Ok(Redirects::default());
        };
        let key = format!("connections.{connection}.redirect");
        if table.remote_addrs.is_empty() {
            let text = "a gateway is not sent anywhere: this is for a client, with remote_addrs";
            return Err(self.value(&key, text));
        }
        let mut redirects = match entries.is_empty() {
            true => Redirects::NONE,
            false => Redirects::default(),
        };
        for entry in entries {
            let looks_like_network = entry.contains('/') || entry.parse::<IpAddr>().is_ok();
            if looks_like_network {
                let network: TrafficSelector = entry.parse().map_err(|error| {
                    let text = format!("{entry} is no address and no network: {error}");
                    self.value(&key, &text)
                })?;
                redirects.networks.push((network.first, network.last));
                continue;
            }
            let is_of_names = |it: char| it.is_ascii_alphanumeric() || "-.".contains(it);
            if entry.is_empty() || entry.len() > NAME_MAX || !entry.chars().all(is_of_names) {
                let text = format!("{entry:?} is no address, no network and no name of a host");
                return Err(self.value(&key, &text));
            }
            let addresses = self.addresses_of(loaded, connection, entry)?;
            redirects.names.push((entry.clone(), addresses));
        }
        Ok(redirects)
    }

    /// A name that leads nowhere here is a warning: the client has other gateways.
    fn addresses_of(
        &self,
        loaded: &mut Loaded,
        connection: &str,
        name: &str,
    ) -> Result<Vec<IpAddr>, ConfigError> {
        if self.names == Names::Unasked {
            return Ok(Vec::new());
        }
        match resolver::addresses(name, 0, loaded.daemon.fwmark) {
            Ok(found) => Ok(found.into_iter().map(|it| it.ip()).collect()),
            Err(error) => {
                let text = format!("redirect: {name} cannot be resolved here: {error}");
                loaded.warnings.push((connection.to_owned(), text));
                Ok(Vec::new())
            }
        }
    }
}

/// Octets of a name (RFC 1035 §2.3.4).
const NAME_MAX: usize = 255;

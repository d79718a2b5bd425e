//! Domains that come with resolvers (RFC 8598), keys of DNSSEC for them, and the domains for which
//! a client takes any.

use engine::dns::{MAX_DOMAINS, MAX_TRUST_ANCHORS, TrustAnchor, domain};

use super::file::{ConnectionTable, PoolTable};
use super::{Builder, ConfigError};

impl Builder<'_> {
    /// The domains for whose names alone a pool's resolvers are asked.
    pub(super) fn domains(&self, key: &str, table: &PoolTable) -> Result<Vec<String>, ConfigError> {
        if table.dns.is_empty() && !table.domains.is_empty() {
            let text = "there is no resolver for them: add dns = [\"ADDRESS\"]";
            return Err(self.value(key, text));
        }
        self.names(key, &table.domains)
    }

    /// The keys of a pool with these domains.
    pub(super) fn trust_anchors(
        &self,
        key: &str,
        table: &PoolTable,
        domains: &[String],
    ) -> Result<Vec<TrustAnchor>, ConfigError> {
        self.few(key, table.dnssec_ta.len(), MAX_TRUST_ANCHORS)?;
        let anchors: Vec<TrustAnchor> = self.words(key, &table.dnssec_ta)?;
        let strange = anchors.iter().find(|it| !domains.contains(&it.domain));
        match strange {
            Some(strange) => {
                let text = format!("{} is not in domains of this pool", strange.domain);
                Err(self.value(key, &text))
            }
            None => Ok(anchors),
        }
    }

    /// The domains for which a client takes keys. The root is no domain here (RFC 8598 §6).
    pub(super) fn dnssec_domains(
        &self,
        connection: &str,
        table: &ConnectionTable,
    ) -> Result<Vec<String>, ConfigError> {
        let given = &table.dnssec_domains;
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let key = format!("connections.{connection}.dnssec_domains");
        if table.remote_addrs.is_empty() {
            let text = "a gateway is given no keys: this is for a client, with remote_addrs";
            return Err(self.value(&key, text));
        }
        if table.vips.is_empty() {
            let text = "keys come with an inner address: ask for one, vips = [\"0.0.0.0\"]";
            return Err(self.value(&key, text));
        }
        let domains = self.names(&key, given)?;
        let top = domains.iter().find(|it| !it.contains('.'));
        match top.filter(|_| !table.dnssec_top_level) {
            Some(top) => {
                let text = format!(
                    "{top} is a top-level domain: the gateway could speak for every name in it; \
                     name domains in it, or add dnssec_top_level = true if it is all yours"
                );
                Err(self.value(&key, &text))
            }
            None => Ok(domains),
        }
    }

    fn names(&self, key: &str, texts: &[String]) -> Result<Vec<String>, ConfigError> {
        self.few(key, texts.len(), MAX_DOMAINS)?;
        let read = |text: &String| {
            let none = || self.value(key, &format!("{text:?} is no domain, such as corp.example"));
            domain(text).ok_or_else(none)
        };
        texts.iter().map(read).collect()
    }

    fn few(&self, key: &str, count: usize, most: usize) -> Result<(), ConfigError> {
        match count <= most {
            true => Ok(()),
            false => Err(self.value(key, &format!("{count} are more than {most}"))),
        }
    }
}

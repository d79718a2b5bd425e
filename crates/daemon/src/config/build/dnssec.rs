//! Keys of DNSSEC that come with resolvers (RFC 8598): those of a pool, and the domains for which a
//! client takes any.

use engine::dns::{MAX_DOMAINS, MAX_TRUST_ANCHORS, TrustAnchor, domain};

use super::file::{ConnectionTable, PoolTable};
use super::{Builder, ConfigError, Loaded};

impl Builder<'_> {
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
        loaded: &mut Loaded,
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
        self.few(&key, given.len(), MAX_DOMAINS)?;
        let read = |text: &String| domain(text).ok_or_else(|| self.no_domain(&key, text));
        let domains: Vec<String> = given.iter().map(read).collect::<Result<_, _>>()?;
        if let Some(top) = domains.iter().find(|it| !it.contains('.')) {
            let text = format!(
                "dnssec_domains: {top} is a top-level domain: the gateway can speak for every \
                 name in it"
            );
            loaded.warnings.push((connection.to_owned(), text));
        }
        Ok(domains)
    }

    pub(super) fn few(&self, key: &str, count: usize, most: usize) -> Result<(), ConfigError> {
        match count <= most {
            true => Ok(()),
            false => Err(self.value(key, &format!("{count} are more than {most}"))),
        }
    }

    pub(super) fn no_domain(&self, key: &str, text: &str) -> ConfigError {
        self.value(key, &format!("{text:?} is no domain, such as corp.example"))
    }
}

//! The gateways to which a connection lets itself be sent (RFC 5685). A gateway elsewhere proves
//! itself as any other of the connection.

use std::net::IpAddr;

use wire::ikev2::Gateway;

use super::Connection;

/// Where a connection lets itself be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirects {
    /// To the other addresses that the connection names itself.
    pub has_own: bool,
    /// To addresses from the first to the last of a pair.
    pub networks: Vec<(IpAddr, IpAddr)>,
    /// To a gateway of this name, at these addresses. Nobody is asked for others.
    pub names: Vec<(String, Vec<IpAddr>)>,
}

impl Default for Redirects {
    /// What the configuration names anyhow is no risk.
    fn default() -> Self {
        Self {
            has_own: true,
            networks: Vec::new(),
            names: Vec::new(),
        }
    }
}

impl Redirects {
    /// Nowhere.
    pub const NONE: Self = Self {
        has_own: false,
        networks: Vec::new(),
        names: Vec::new(),
    };

    /// The addresses of a gateway, if the connection lets itself be sent there.
    pub(crate) fn addresses(&self, gateway: &Gateway, connection: &Connection) -> Vec<IpAddr> {
        match gateway {
            Gateway::Address(address) => {
                let address = address.to_canonical();
                let is_within = |(first, last): &(IpAddr, IpAddr)| {
                    first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
                };
                let is_named = self.has_own && connection.names(address);
                let is_allowed = is_named || self.networks.iter().any(is_within);
                is_allowed.then_some(address).into_iter().collect()
            }
            Gateway::Fqdn(name) => {
                let mut names = self.names.iter();
                let found = names.find(|(own, _)| own.eq_ignore_ascii_case(name));
                found.map_or(Vec::new(), |(_, addresses)| addresses.clone())
            }
        }
    }

    /// Whether the connection lets itself be sent to a gateway.
    pub(crate) fn allows(&self, gateway: &Gateway, connection: &Connection) -> bool {
        !self.addresses(gateway, connection).is_empty()
    }

    /// Whether there is anywhere to be sent to.
    pub(crate) fn lead_anywhere(&self, connection: &Connection) -> bool {
        let mut own = connection.remote_addrs.iter().map(|it| it.ip());
        let first = own.next();
        let has_others = self.has_own && own.any(|it| Some(it) != first);
        has_others || !self.networks.is_empty() || !self.names.is_empty()
    }
}

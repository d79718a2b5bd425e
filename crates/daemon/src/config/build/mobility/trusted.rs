//! Which networks a home agent takes to be inside, and which of them VPN gateways give to hosts
//! outside (RFC 5265 §4.3).

use engine::selector::TrafficSelector;

use super::{Builder, ConfigError, selector};
use crate::config::file::ConfigFile;
use crate::config::firewall::Network;
use crate::config::mobility::HomeAgentTable;

const TRUSTED: &str = "home_agent.trusted_networks";
const TUNNELLED: &str = "home_agent.vpn_networks";

impl Builder<'_> {
    /// The networks inside, and those of VPN gateways. A node at home asks from there, so the home
    /// network is inside.
    pub(super) fn inside(
        &self,
        (table, file): (&HomeAgentTable, &ConfigFile),
    ) -> Result<(Vec<TrafficSelector>, Vec<TrafficSelector>), ConfigError> {
        let (trusted, tunnelled) = match (&table.trusted_networks, &table.vpn_networks) {
            (None, None) => return Ok(Default::default()),
            (None, Some(_)) => {
                let text = "without trusted_networks no reply says who is inside: remove it, or \
                            add trusted_networks";
                return Err(self.value(TUNNELLED, text));
            }
            (Some(_), None) => {
                let text = "vpn_networks must be there, too: who has an address of a VPN gateway's \
                            pool is outside, and can pass on what a node asks. Name the pools, \
                            such as vpn_networks = [\"192.168.9.0/24\"], or write [] if there \
                            are none";
                return Err(self.value(TRUSTED, text));
            }
            (Some(trusted), Some(tunnelled)) => (trusted, tunnelled),
        };
        self.check_alone((table, file))?;
        if trusted.iter().any(|it| it.bits == 0) {
            let text = "\"0.0.0.0/0\" would take every network to be inside: name your own alone";
            return Err(self.value(TRUSTED, text));
        }
        let home = TrafficSelector::subnet(table.address.into(), table.prefix);
        let nodes = file.mobile_nodes.values().map(|it| it.home_address);
        for address in nodes.chain([table.address]) {
            if !trusted.iter().any(|it| it.has(address)) {
                let text = format!(
                    "the home network {}/{} is not among them: its nodes would never be at home",
                    home.first, table.prefix
                );
                return Err(self.value(TRUSTED, &text));
            }
            if tunnelled.iter().any(|it| it.has(address)) {
                let text = format!(
                    "they have {address}, of the home network: its node would never be at home, \
                     and a gateway must not give it to others"
                );
                return Err(self.value(TUNNELLED, &text));
            }
        }
        let selectors = |all: &[Network]| all.iter().copied().map(selector).collect();
        Ok((selectors(trusted), selectors(tunnelled)))
    }

    /// Nodes outside choose the addresses that a home agent behind a firewall of SKIP sees.
    fn check_alone(
        &self,
        (table, file): (&HomeAgentTable, &ConfigFile),
    ) -> Result<(), ConfigError> {
        let others = [
            ("`firewalls`", !table.firewalls.is_empty()),
            ("[[home_agent.outside]]", !table.outside.is_empty()),
            ("[access.NAME]", !file.access.is_empty()),
        ];
        let Some((other, _)) = others.iter().find(|(_, is_there)| *is_there) else {
            return Ok(());
        };
        let text = format!(
            "{other} is there too: then requests come from addresses that nodes outside choose, \
             and no address proves that a node is inside. Remove one of both: nodes with \
             [mobile.gateway] and nodes with [mobile.firewall] need two home agents"
        );
        Err(self.value(TRUSTED, &text))
    }
}

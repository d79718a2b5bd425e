//! What a mobile node knows of the VPN gateway of its home network, and of a home agent outside:
//! from tables to values, and what its connection must be.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use engine::config::{Child, ChildLayer, Connection, Encapsulation, Start, Version};
use engine::mip4::association::ReplayProtection;
use engine::mip4::mobile_node;
use engine::sa::Mode;
use engine::selector::TrafficSelector;

use super::{Builder, ConfigError, Loaded};
use crate::config::file::{ConfigFile, ConnectionTable};
use crate::config::firewall::{NodeGatewayTable, NodeOutsideTable};
use crate::config::mobility::MobileTable;
use crate::config::parts::{Mobility, NodeGateway};

/// The shortest T_MONITOR. RFC 5265 §3.2.4 calls some seconds not practical.
const MONITOR_MIN: Duration = Duration::from_secs(10);
/// The longest: nobody notices sooner that a node was taken out unseen.
const MONITOR_MAX: Duration = Duration::from_secs(3_600);
/// Where the filter lets IKE pass.
const IKE: u16 = 500;

impl Builder<'_> {
    /// The VPN gateway of a mobile node.
    pub(super) fn node_gateway(
        &self,
        (table, file): (&NodeGatewayTable, &ConfigFile),
        node: &MobileTable,
    ) -> Result<Box<NodeGateway>, ConfigError> {
        if node.firewall.is_some() {
            let text = "[mobile.firewall] is there too: the way home is through one of them";
            return Err(self.value("mobile.gateway", text));
        }
        if !(MONITOR_MIN..=MONITOR_MAX).contains(&table.monitor.0) {
            let text = format!(
                "{} s is outside 10 s to 1 h; RFC 5265 advises 60 s",
                table.monitor.0.as_secs()
            );
            return Err(self.value("mobile.gateway.monitor", &text));
        }
        if node.association.replay == ReplayProtection::Nonces {
            let text = "with [mobile.gateway] the node asks in clear and through the tunnel at the \
                        same time, and nonces allow one question: replay = \"timestamps\"";
            return Err(self.value("mobile.association.replay", text));
        }
        let name = &table.connection;
        let Some(connection) = file.connections.get(name) else {
            let text = format!("there is no [connections.{name}] in this file");
            return Err(self.value("mobile.gateway.connection", &text));
        };
        let outside = match &table.outside {
            Some(it) => Some(self.node_outside(it, node)?),
            None => None,
        };
        if outside.is_some() && !connection.local_addrs.is_empty() {
            let text = "with [mobile.gateway.outside] the tunnel begins at its home_address";
            return Err(self.value(&format!("connections.{name}.local_addrs"), text));
        }
        Ok(Box::new(NodeGateway {
            connection: name.clone(),
            addresses: self.gateways(name, connection)?,
            is_filtered: table.filter,
            clear: table.clear.iter().map(|it| (it.0, it.1)).collect(),
            outside,
        }))
    }

    /// What the node is to its home agent outside. That one hears everybody, and proves nothing
    /// about where the node is.
    fn node_outside(
        &self,
        table: &NodeOutsideTable,
        node: &MobileTable,
    ) -> Result<mobile_node::Config, ConfigError> {
        let key = |last: &str| format!("mobile.gateway.outside.{last}");
        self.host(&key("home_agent"), table.home_agent)?;
        self.host(&key("home_address"), table.home_address)?;
        if table.home_agent == table.home_address {
            let text = "it is the home agent's address: each has its own";
            return Err(self.value(&key("home_address"), text));
        }
        let inside = TrafficSelector::subnet(node.home_address.into(), node.prefix);
        for (last, address) in [
            ("home_agent", table.home_agent),
            ("home_address", table.home_address),
        ] {
            if inside.contains_address(address.into()) {
                let text = format!("{address} is in the home network, which is inside");
                return Err(self.value(&key(last), &text));
            }
        }
        Ok(mobile_node::Config {
            home_address: table.home_address,
            home_agent: table.home_agent,
            nai: None,
            aaa: None,
            associations: self.association(&key("association"), &table.association)?,
            foreign_agents: BTreeMap::new(),
            lifetime: self.seconds(&key("lifetime"), table.lifetime, false)?,
            encapsulation: table.encapsulation,
            is_reverse: true,
            encapsulates_delivery: false,
            wants_broadcasts: false,
            is_simultaneous: false,
            udp: table.udp,
            firewall: None,
            hears_revocations: node.revocation,
            monitor: None,
        })
    }

    /// Its addresses, which the node's filter names. No name can be resolved through the filter.
    fn gateways(&self, name: &str, table: &ConnectionTable) -> Result<Vec<Ipv4Addr>, ConfigError> {
        let key = |last: &str| format!("connections.{name}.{last}");
        if table.remote_addrs.is_empty() {
            let text = "a mobile node needs the gateway's address";
            return Err(self.value(&key("remote_addrs"), text));
        }
        if table.remote_port != IKE {
            let text = "[mobile.gateway] lets IKE pass on UDP ports 500 and 4500 alone";
            return Err(self.value(&key("remote_port"), text));
        }
        let read = |text: &String| match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(address),
            Err(_) => {
                let said = "not an IPv4 address: a node outside asks no resolver in clear";
                let text = format!("\"{}\" is {said}", text.escape_debug());
                Err(self.value(&key("remote_addrs"), &text))
            }
        };
        table.remote_addrs.iter().map(read).collect()
    }

    /// Makes a connection one that a mobile node brings up outside, or says what it lacks.
    pub(super) fn serve_node(
        &self,
        connection: &mut Connection,
        loaded: &Loaded,
    ) -> Result<(), ConfigError> {
        let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
            return Ok(());
        };
        let agent = IpAddr::V4(node.config.home_agent);
        let key = |last: &str| format!("connections.{}.{last}", connection.name);
        let outside = node.outside();
        if connection.version != Version::V2 || (outside.is_none() && !connection.mobike) {
            let text = match outside {
                Some(_) => "[mobile.gateway] needs IKEv2: version = 2",
                None => {
                    "[mobile.gateway] needs IKEv2 with MOBIKE: version = 2, and not mobike = false"
                }
            };
            return Err(self.value(&key("version"), text));
        }
        if !connection.wants_inner.v4 {
            let text = "the tunnel's inner address is the care-of address: vips = [\"0.0.0.0\"]";
            return Err(self.value(&key("vips"), text));
        }
        let mut all = connection.children.iter();
        let reaches = |child: &Child| {
            let is_own = child.local.is_empty() && child.mode == Mode::Tunnel;
            let mut remote = child.remote.iter();
            is_own && remote.any(|it| it.protocol == 0 && it.contains_address(agent))
        };
        if !all.any(reaches) {
            let text = format!(
                "no child leads from the inner address to the home agent: remote_ts = \
                 [\"{agent}/32\"], without local_ts"
            );
            return Err(self.value(&key("children"), &text));
        }
        connection.start = Start::OnCommand;
        match outside {
            Some(outside) => self.begin_outside(connection, outside.home_address),
            None => Ok(()),
        }
    }

    /// The tunnel begins at an address that a home agent outside keeps, and never moves: all its
    /// packets go through that one's tunnel.
    fn begin_outside(
        &self,
        connection: &mut Connection,
        home_address: Ipv4Addr,
    ) -> Result<(), ConfigError> {
        let key = |last: &str| format!("connections.{}.{last}", connection.name);
        if connection.encapsulation == Encapsulation::Always {
            let text = "with [mobile.gateway.outside] ESP is in no UDP of its own: that of the \
                        home agent outside is a key there";
            return Err(self.value(&key("encap"), text));
        }
        let mut all = connection.children.iter();
        if all.any(|child| child.layer != ChildLayer::Alone) {
            let text = "AH around ESP does not go through a home agent outside";
            return Err(self.value(&key("children"), text));
        }
        connection.local_addrs = vec![home_address.into()];
        connection.mobike = false;
        // IKE stays at port 500, by which the gateway knows that ESP is in no UDP.
        connection.encapsulation = Encapsulation::ThroughNat;
        for child in &mut connection.children {
            child.layer = ChildLayer::Carried;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

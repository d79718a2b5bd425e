//! The tables of Mobile IPv4, key by key: a home agent, a foreign agent or a mobile node, and with
//! whom it shares keys.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use document::{Fault, Item};
use engine::mip4::association::Algorithm;
use engine::mip4::tunnel::{ReverseTunnel, UdpWish};
use engine::sa::Encapsulation;

use super::association::{ASSOCIATION, AssociationTable};
use super::firewall::{Network, NodeFirewallTable, NodeGatewayTable, OutsideTable};
use super::read::{Keys, Read, ReadTable};
use super::values::{SecretText, Span};

/// The name under which a home agent runs.
pub const HOME_AGENT: &str = "home-agent";
/// The name under which a foreign agent runs.
pub const FOREIGN_AGENT: &str = "foreign-agent";
/// The name under which a mobile node runs.
pub const MOBILE: &str = "mobile";

/// `[home_agent]`
#[derive(Debug)]
pub struct HomeAgentTable {
    /// Our address on the home link. Mobile nodes register there, and tunnels end there.
    pub address: Ipv4Addr,
    /// Bits of the home network's prefix.
    pub prefix: u8,
    /// Interface of the home link. There we answer ARP for nodes that are away, and advertise.
    pub interface: String,
    /// The longest lifetime of a binding.
    pub max_lifetime: Span,
    /// Bindings that one node may have at a time. 1 refuses simultaneous bindings.
    pub max_bindings: usize,
    /// Encapsulations that we offer beside IP in IP. Default: "minimal" and "gre".
    pub encapsulations: Option<Vec<Encapsulation>>,
    /// Whether nodes may, or must, send through a reverse tunnel (RFC 3024).
    pub reverse_tunnel: ReverseTunnel,
    /// Interval of keepalives in UDP tunnels, at least 10 s; "0" refuses such tunnels, and then no
    /// node behind a NAT is reached (RFC 3519).
    pub udp_keepalive: Span,
    /// Let nodes and foreign agents have UDP tunnels where there is no NAT: those with `udp =
    /// "always"`. Others are denied with code 129 (RFC 3519).
    pub forced_udp: bool,
    /// Tell foreign agents and nodes when a binding ends before its time, and listen to foreign
    /// agents (RFC 3543). Agents need an association for it.
    pub revocation: bool,
    /// Send broadcasts of the home link to nodes that are away and want them, up to 100 packets a
    /// second (RFC 5944 §4.3).
    pub broadcasts: bool,
    /// Send agent advertisements on the home link. By them a node that has no address there
    /// recognizes its home.
    pub advertise: bool,
    /// How long an advertisement holds. A third of it is the longest time between two.
    pub advertised_lifetime: Span,
    /// Care-of addresses outside a firewall. The first one that fits counts.
    pub outside: Vec<OutsideTable>,
    /// Firewalls, by their inside address, that mobile nodes may name in their requests.
    pub firewalls: Vec<Ipv4Addr>,
    /// Accept data from firewalls without the header between care-of address and us.
    pub header_removal: bool,
    /// Networks inside, with the home network. Requests from elsewhere are then dropped, but for
    /// those from `vpn_networks`, and replies to there say so: they prove to nodes with
    /// `[mobile.gateway]` that these are inside (RFC 5265). Not beside firewalls, here or in
    /// `outside`, nor `[access.NAME]`. Default: everybody is heard, and nothing is proven.
    pub trusted_networks: Option<Vec<Network>>,
    /// Networks that hosts outside have addresses of: the pools of VPN gateways, also parts of
    /// `trusted_networks`. Requests from there are heard, and replies prove nothing. Needed with
    /// `trusted_networks`; [] where there are none.
    pub vpn_networks: Option<Vec<Network>>,
}

impl ReadTable for HomeAgentTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            address: keys.needed("address", "our own, such as address = \"10.18.3.1\"")?,
            prefix: keys.needed("prefix", "its bits, such as prefix = 24")?,
            interface: keys.needed("interface", "of the home link: interface = \"eth1\"")?,
            max_lifetime: keys.or("max_lifetime", Span::seconds(3_600))?,
            max_bindings: keys.or("max_bindings", 4)?,
            encapsulations: keys.given("encapsulations")?,
            reverse_tunnel: keys.or("reverse_tunnel", ReverseTunnel::Allowed)?,
            // The default of RFC 3519 §4.9.
            udp_keepalive: keys.or("udp_keepalive", Span::seconds(110))?,
            forced_udp: keys.or("forced_udp", true)?,
            revocation: keys.or("revocation", true)?,
            broadcasts: keys.or("broadcasts", false)?,
            advertise: keys.or("advertise", true)?,
            // Nodes notice within seconds that they have come home.
            advertised_lifetime: keys.or("advertised_lifetime", Span::seconds(9))?,
            outside: keys.given("outside")?,
            firewalls: keys.given("firewalls")?,
            header_removal: keys.or("header_removal", false)?,
            trusted_networks: keys.given("trusted_networks")?,
            vpn_networks: keys.given("vpn_networks")?,
        })
    }
}

/// `[foreign_agent]`
#[derive(Debug)]
pub struct ForeignAgentTable {
    /// Our address on the link of the visitors.
    pub address: Ipv4Addr,
    /// Interface of that link.
    pub interface: String,
    /// The care-of address that we offer: an address of ours that home agents reach. Default:
    /// `address`.
    pub care_of: Option<Ipv4Addr>,
    /// The longest lifetime that we relay.
    pub max_lifetime: Span,
    /// Visitors at a time. If they are all there, one that proves itself takes the place of one
    /// that does not.
    pub max_visitors: usize,
    /// Encapsulations that we offer beside IP in IP. Default: "minimal" and "gre".
    pub encapsulations: Option<Vec<Encapsulation>>,
    /// Whether visitors may, or must, send through a reverse tunnel (RFC 3024).
    pub reverse_tunnel: ReverseTunnel,
    /// Nodes with an address of their own must register here, too.
    pub required: bool,
    /// Home agents that visitors may have, as networks. Default: every one.
    pub home_agents: Option<Vec<Network>>,
    /// Requests must answer an advertised challenge (RFC 4721). Then only nodes of
    /// `[mobile_nodes.NAME]` are served.
    pub challenges: bool,
    /// Tell home agents when a visit ends before its time, and listen to them (RFC 3543). They need
    /// an association for it.
    pub revocation: bool,
    /// Tunnels in UDP to home agents that share an association with us (RFC 3519).
    pub udp: UdpWish,
    /// How long an advertisement holds. A third of it is the longest time between two.
    pub advertised_lifetime: Span,
}

impl ReadTable for ForeignAgentTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            address: keys.needed("address", "our own, such as address = \"198.51.100.1\"")?,
            interface: keys.needed("interface", "of the visitors: interface = \"wlan0\"")?,
            care_of: keys.given("care_of")?,
            max_lifetime: keys.or("max_lifetime", Span::seconds(3_600))?,
            max_visitors: keys.or("max_visitors", 250)?,
            encapsulations: keys.given("encapsulations")?,
            reverse_tunnel: keys.or("reverse_tunnel", ReverseTunnel::Allowed)?,
            required: keys.or("required", false)?,
            home_agents: keys.given("home_agents")?,
            challenges: keys.or("challenges", false)?,
            revocation: keys.or("revocation", true)?,
            udp: keys.or("udp", UdpWish::BehindNat)?,
            advertised_lifetime: keys.or("advertised_lifetime", Span::seconds(9))?,
        })
    }
}

/// `[mobile]`
#[derive(Debug)]
pub struct MobileTable {
    /// The address that this node keeps wherever it is.
    pub home_address: Ipv4Addr,
    /// Bits of the home network's prefix.
    pub prefix: u8,
    /// The home agent's address.
    pub home_agent: Ipv4Addr,
    /// Interfaces to use, the preferred one first.
    pub interfaces: Vec<String>,
    /// Network access identifier that names this node, such as "user@example" (RFC 2794).
    pub nai: Option<String>,
    /// The lifetime of a registration. It is renewed after three quarters of it.
    pub lifetime: Span,
    /// How packets travel between home agent and care-of address.
    pub encapsulation: Encapsulation,
    /// Send through the tunnel too. Most networks drop packets with a foreign source address.
    pub reverse_tunnel: bool,
    /// Encapsulate also what goes to a foreign agent (RFC 3024 §5.2).
    pub encapsulating_delivery: bool,
    /// Let the home agent end a registration before its time (RFC 3543).
    pub revocation: bool,
    /// Keep the former binding when moving, so that packets come to both places.
    pub simultaneous: bool,
    /// Get broadcasts of the home network abroad, if the home agent has `broadcasts`.
    pub broadcasts: bool,
    /// Tunnels in UDP (RFC 3519).
    pub udp: UdpWish,
    /// The firewall of the home network, if there is one.
    pub firewall: Option<NodeFirewallTable>,
    /// The VPN gateway of the home network, in a firewall's place.
    pub gateway: Option<NodeGatewayTable>,
    /// The keys shared with the home agent.
    pub association: AssociationTable,
    /// The key shared with an AAA server, by which this node also proves itself (RFC 4721).
    pub aaa: Option<AaaTable>,
}

impl ReadTable for MobileTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            home_address: keys.needed("home_address", "home_address = \"10.18.3.17\"")?,
            prefix: keys.needed("prefix", "of the home network, such as prefix = 24")?,
            home_agent: keys.needed("home_agent", "home_agent = \"10.18.3.1\"")?,
            interfaces: keys.needed("interfaces", "interfaces = [\"eth0\", \"wlan0\"]")?,
            nai: keys.given("nai")?,
            lifetime: keys.or("lifetime", Span::seconds(300))?,
            encapsulation: keys.or("encapsulation", Encapsulation::IpInIp)?,
            reverse_tunnel: keys.or("reverse_tunnel", true)?,
            encapsulating_delivery: keys.or("encapsulating_delivery", false)?,
            revocation: keys.or("revocation", true)?,
            simultaneous: keys.or("simultaneous", false)?,
            broadcasts: keys.or("broadcasts", false)?,
            udp: keys.or("udp", UdpWish::BehindNat)?,
            firewall: keys.given("firewall")?,
            gateway: keys.given("gateway")?,
            association: keys.needed("association", ASSOCIATION)?,
            aaa: keys.given("aaa")?,
        })
    }
}

/// `[mobile_nodes.NAME]`
#[derive(Debug)]
pub struct MobileNodeTable {
    /// The node's home address.
    pub home_address: Ipv4Addr,
    /// Network access identifier by which the node may name itself (RFC 2794).
    pub nai: Option<String>,
    /// The keys shared with it. A foreign agent needs none if there is `aaa`.
    pub association: Option<AssociationTable>,
    /// Its AAA key: its requests must prove it, too (RFC 4721). The home agent checks it, or the
    /// foreign agent, or both.
    pub aaa: Option<AaaTable>,
}

impl ReadTable for MobileNodeTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            home_address: keys.needed("home_address", "home_address = \"10.18.3.17\"")?,
            nai: keys.given("nai")?,
            association: keys.given("association")?,
            aaa: keys.given("aaa")?,
        })
    }
}

/// `[home_agents.NAME]` and `[foreign_agents.NAME]`
#[derive(Debug)]
pub struct AgentTable {
    /// The agent's address, from which its messages come.
    pub address: Ipv4Addr,
    /// The keys shared with it.
    pub association: AssociationTable,
}

impl ReadTable for AgentTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            address: keys.needed("address", "of the agent: address = \"198.51.100.1\"")?,
            association: keys.needed("association", ASSOCIATION)?,
        })
    }
}

/// `aaa`. Its key has no `Debug`.
pub struct AaaTable {
    /// Its number: 256 or more, or 2 for authenticators as in CHAP, which many RADIUS servers check
    /// (RFC 4721 §8). Straight to the home agent, a node always sends these.
    pub spi: u32,
    /// How requests through a foreign agent are authenticated, if `spi` is not 2.
    pub algorithm: Algorithm,
    /// The key in hexadecimal, 16 octets or more.
    pub key: Option<SecretText>,
    /// File with the key in hexadecimal.
    pub key_file: Option<PathBuf>,
}

impl ReadTable for AaaTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            spi: keys.needed("spi", "a number that both sides know, such as spi = 2000")?,
            algorithm: keys.or("algorithm", Algorithm::HmacMd5)?,
            key: keys.given("key")?,
            key_file: keys.given("key_file")?,
        })
    }
}

impl core::fmt::Debug for AaaTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AAA key {}", self.spi)
    }
}

impl Read for Encapsulation {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &Self::ALL.map(|it| (it.name(), it)))
    }
}

impl Read for ReverseTunnel {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [
            ("refused", Self::Refused),
            ("allowed", Self::Allowed),
            ("required", Self::Required),
        ];
        item.choice("value", &words)
    }
}

impl Read for UdpWish {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &Self::ALL.map(|it| (it.name(), it)))
    }
}

impl Read for Algorithm {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [
            ("hmac-md5", Self::HmacMd5),
            ("hmac-sha-256", Self::HmacSha256),
            ("keyed-md5", Self::KeyedMd5),
        ];
        item.choice("value", &words)
    }
}

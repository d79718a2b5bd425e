//! The tables of a firewall of a mobile private network, key by key, and what its mobile nodes and
//! home agents write about it.

use std::net::Ipv4Addr;

use document::{Fault, Item};
use engine::firewall;
use engine::firewall::access::Origin;
use engine::mip4::firewall::Side;
use engine::mip4::tunnel::UdpWish;
use engine::sa::Encapsulation;

use super::association::{ASSOCIATION, AssociationTable};
use super::read::{Keys, Read, ReadTable};
use super::skip::SkipPeerTable;
use super::values::{Span, Transport};

/// The name under which a firewall runs.
pub const FIREWALL: &str = "firewall";

/// `[firewall]`
#[derive(Debug)]
pub struct FirewallTable {
    /// Our address outside: mobile nodes send to it.
    pub outside: Ipv4Addr,
    /// Interface outside. What comes from there is dropped unless it is authentic.
    pub outside_interface: String,
    /// Interfaces inside. What comes from them is not filtered. Absent: all others that exist when
    /// the firewall starts. What comes later is closed.
    pub inside_interfaces: Vec<String>,
    /// Our address inside: home agents send to it.
    pub inside: Ipv4Addr,
    /// Home agents behind us. Without one, each line of the access list needs `inside`.
    pub home_agents: Vec<Ipv4Addr>,
    /// Addresses inside that end SKIP themselves, and are known outside. Packets of SKIP from and
    /// to them pass as they are: nobody here knows who sends them.
    pub end_to_end: Vec<Ipv4Addr>,
    /// A mobile node that is silent for so long is forgotten. Two registrations should fit in.
    pub binding_lifetime: Span,
    /// How it finds the node of a packet from inside. "binding": by the care-of address, to which
    /// the node's last authentic packet has bound its line of the access list. "packet-parsing": by
    /// the home address in the packet, so that a node may have several care-of addresses at once.
    pub mode: firewall::Mode,
    /// Leave out the header between care-of address and home agent in tunnelled data. Home agents
    /// and nodes must accept that.
    pub header_removal: bool,
    /// Mobile nodes may come in UDP, which passes NATs.
    pub udp: bool,
}

impl ReadTable for FirewallTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            outside: keys.needed("outside", "our address there: outside = \"203.0.113.1\"")?,
            outside_interface: keys.needed("outside_interface", "outside_interface = \"eth0\"")?,
            inside_interfaces: keys.given("inside_interfaces")?,
            inside: keys.needed("inside", "our address there: inside = \"10.18.0.1\"")?,
            home_agents: keys.given("home_agents")?,
            end_to_end: keys.given("end_to_end")?,
            // `firewall::LIFETIME`.
            binding_lifetime: keys.or("binding_lifetime", Span::seconds(3_600))?,
            mode: keys.or("mode", firewall::Mode::Binding)?,
            header_removal: keys.or("header_removal", false)?,
            udp: keys.or("udp", false)?,
        })
    }
}

/// `[access.NAME]`: a line of the access list. Hosts are searched first, then networks, then
/// mobile nodes; all others are denied.
#[derive(Debug)]
pub struct AccessTable {
    /// Where its packets come from: "192.0.2.7", "192.0.2.0/24", or "*" for a mobile node.
    pub address: Origin,
    /// Networks inside that its packets go to and come from, beside the home agents that mobile
    /// nodes reach in any case.
    pub inside: Vec<Network>,
    /// A mobile node's home address, if its name does not say it.
    pub home_address: Option<Ipv4Addr>,
    /// How its packets are protected.
    pub skip: SkipPeerTable,
}

impl ReadTable for AccessTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            address: keys.needed("address", "where packets come from: address = \"*\"")?,
            inside: keys.given("inside")?,
            home_address: keys.given("home_address")?,
            skip: keys.needed("skip", SKIP)?,
        })
    }
}

/// `[mobile.firewall]`: the firewall of the home network.
#[derive(Debug)]
pub struct NodeFirewallTable {
    /// Its address outside, to which we send. The home agent's own, here or in the last of
    /// `behind`: SKIP goes from end to end, from every place but home.
    pub outside: Ipv4Addr,
    /// Its address inside, or of several that of the last one: the home agent sends there, and our
    /// requests name it. Needed, but not from end to end.
    pub inside: Option<Ipv4Addr>,
    /// Networks behind it: care-of addresses there need no firewall. Needed, but not from end to
    /// end.
    pub networks: Option<Vec<Network>>,
    /// Further firewalls on the way, from there inwards. Packets have a header for each, the
    /// outermost first.
    pub behind: Vec<WallTable>,
    /// Other firewalls of the home network, beside this one, that may send to us.
    pub others: Vec<WallTable>,
    /// Where we are. "by-address": as `networks` says. "inside" or "outside": always. With
    /// "outside" the filter stays at home, too.
    pub side: Side,
    /// Send to it in UDP, which passes NATs. The firewall must take that.
    pub udp: bool,
    /// Accept data whose header between home agent and care-of address the firewall has left out.
    pub header_removal: bool,
    /// Outside, let only SKIP, registrations, DHCP, what keeps a link alive, and what `clear` names
    /// pass on our interfaces. The filter stays when the process ends outside; root's
    /// `caravan down` removes it.
    pub filter: bool,
    /// Connections that we may open in clear outside, by protocol and port: "tcp/80".
    pub clear: Vec<Service>,
    /// How packets are protected between us and it.
    pub skip: SkipPeerTable,
}

impl ReadTable for NodeFirewallTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            outside: keys.needed("outside", "its address: outside = \"203.0.113.1\"")?,
            inside: keys.given("inside")?,
            networks: keys.given("networks")?,
            behind: keys.given("behind")?,
            others: keys.given("others")?,
            side: keys.or("side", Side::ByAddress)?,
            udp: keys.or("udp", false)?,
            header_removal: keys.or("header_removal", false)?,
            filter: keys.or("filter", true)?,
            clear: keys.given("clear")?,
            skip: keys.needed("skip", SKIP)?,
        })
    }
}

/// `[mobile.gateway]`: the VPN gateway of the home network (RFC 5266).
#[derive(Debug)]
pub struct NodeGatewayTable {
    /// The connection of this file whose tunnel carries everything between us and the home agent
    /// outside. It has MOBIKE, if there is no `outside`, and an inner address, the care-of address.
    /// It is up outside alone, whatever its `start` says, and takes nothing else: its `on_failure`,
    /// `lan` and `other_family` do not count.
    pub connection: String,
    /// How long a proof that we are inside holds; it is renewed after three quarters of that:
    /// T_MONITOR of RFC 5265.
    pub monitor: Span,
    /// Outside, let only the gateway's tunnel, registrations, DHCP, what keeps a link alive, and
    /// what `clear` names pass on our interfaces. The filter stays when the process ends outside;
    /// root's `caravan down` removes it.
    pub filter: bool,
    /// Connections that we may open in clear outside, by protocol and port: "tcp/80".
    pub clear: Vec<Service>,
    /// A home agent outside, which gives the tunnel an outer address that never moves (RFC 5265).
    /// Without it MOBIKE moves the tunnel.
    pub outside: Option<NodeOutsideTable>,
}

impl ReadTable for NodeGatewayTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            connection: keys.needed("connection", "its name, such as connection = \"work\"")?,
            monitor: keys.or("monitor", Span::seconds(60))?,
            filter: keys.or("filter", true)?,
            clear: keys.given("clear")?,
            outside: keys.given("outside")?,
        })
    }
}

/// `[mobile.gateway.outside]`: the home agent outside (x-HA of RFC 5265).
#[derive(Debug)]
pub struct NodeOutsideTable {
    /// Its address. We register there outside, from where we are.
    pub home_agent: Ipv4Addr,
    /// The address that it keeps for us: the tunnel to the gateway begins there.
    pub home_address: Ipv4Addr,
    /// The lifetime of a registration. It is renewed after three quarters of it.
    pub lifetime: Span,
    /// How packets travel between it and us.
    pub encapsulation: Encapsulation,
    /// Tunnels in UDP (RFC 3519).
    pub udp: UdpWish,
    /// The keys shared with it.
    pub association: AssociationTable,
}

impl ReadTable for NodeOutsideTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            home_agent: keys.needed("home_agent", "home_agent = \"198.51.100.1\"")?,
            home_address: keys.needed("home_address", "home_address = \"198.51.100.17\"")?,
            lifetime: keys.or("lifetime", Span::seconds(300))?,
            encapsulation: keys.or("encapsulation", Encapsulation::IpInIp)?,
            udp: keys.or("udp", UdpWish::BehindNat)?,
            association: keys.needed("association", ASSOCIATION)?,
        })
    }
}

/// `[[mobile.firewall.behind]]` and `[[mobile.firewall.others]]`.
#[derive(Debug)]
pub struct WallTable {
    /// Its address: the firewall before it, or we, send there.
    pub outside: Ipv4Addr,
    /// How packets are protected between us and it.
    pub skip: SkipPeerTable,
}

impl ReadTable for WallTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            outside: keys.needed("outside", "its address: outside = \"192.168.6.2\"")?,
            skip: keys.needed("skip", "such as skip = { public = \"inner.skip.pub\" }")?,
        })
    }
}

/// `[[home_agent.outside]]`: care-of addresses that are behind a firewall, seen from the home
/// network.
#[derive(Debug)]
pub struct OutsideTable {
    /// The care-of addresses.
    pub care_of: Network,
    /// The inside address of their firewall.
    pub firewall: Ipv4Addr,
}

impl ReadTable for OutsideTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            care_of: keys.needed("care_of", "care-of addresses: care_of = \"0.0.0.0/0\"")?,
            firewall: keys.needed("firewall", "its address: firewall = \"10.18.0.1\"")?,
        })
    }
}

const SKIP: &str = "what both ends know, such as skip = { public = \"ms1.skip.pub\", remote = \
                    \"1/10.18.3.17\" }";

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first one.
    pub first: Ipv4Addr,
    /// Bits of the prefix.
    pub bits: u8,
}

impl Network {
    /// Whether an address is in it.
    pub fn has(&self, address: Ipv4Addr) -> bool {
        let rest = u32::MAX.checked_shr(self.bits.into()).unwrap_or(0);
        address.to_bits() & !rest == self.first.to_bits()
    }

    fn of(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        let (first, bits) = (first.parse::<Ipv4Addr>().ok()?, bits.parse().ok()?);
        let rest = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
        (bits <= 32 && first.to_bits() & rest == 0).then_some(Self { first, bits })
    }
}

impl Read for Network {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        let form = "a network, such as \"10.18.0.0/16\", without bits behind its prefix";
        Self::of(text).ok_or_else(|| item.fault(format!("{text:?} is not {form}")))
    }
}

/// A protocol and a port, which is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service(pub Transport, pub u16);

impl Read for Service {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        let service = text.split_once('/').and_then(|(protocol, port)| {
            let protocol = match protocol {
                "tcp" => Transport::Tcp,
                "udp" => Transport::Udp,
                _ => return None,
            };
            Some(Self(protocol, port.parse().ok().filter(|it| *it != 0)?))
        });
        let form = "a protocol and a port, such as \"tcp/80\" or \"udp/53\"";
        service.ok_or_else(|| item.fault(format!("{text:?} is not {form}")))
    }
}

impl Read for Origin {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        if text == "*" {
            return Ok(Self::Nomadic);
        }
        let network = Network::of(text).map(|it| Self::Network(it.first, it.bits));
        let host = || text.parse().map(Self::Host).ok();
        network.or_else(host).ok_or_else(|| {
            let form = "an address, a network such as \"192.0.2.0/24\", or \"*\"";
            item.fault(format!("{text:?} is not {form}"))
        })
    }
}

impl Read for firewall::Mode {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [
            ("binding", Self::Binding),
            ("packet-parsing", Self::PacketParsing),
        ];
        item.choice("mode", &words)
    }
}

impl Read for Side {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [
            ("by-address", Self::ByAddress),
            ("inside", Self::Inside),
            ("outside", Self::Outside),
        ];
        item.choice("side", &words)
    }
}

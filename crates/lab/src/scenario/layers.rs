//! The layers of a graph: who protects or carries the packets of which station, and how.

use document::{Fault, Item, Place, Table};

use super::catalogue::{self, Catalogue};
use super::layered::Layered;
use super::mobile::{MobileIp, Skip, udp_wish};
use super::motion::{Flow, Move, POLICIES_MAX, Tunnel, link_of, members};
use super::topology::{Topology, node_of};
use super::transport::{self, Tls, Transport};
use super::wireless::{self, Access, Cipher, Wireless};
use super::{Node, Role};

/// What layers say.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) policies: Vec<Named>,
    /// The policy of the scenario: that of stations that no layer names.
    pub(super) own: Option<String>,
    /// Tunnels that layers name; none: no layer does.
    pub(super) tunnels: Option<Vec<Tunnel>>,
    pub(super) mobile: Vec<MobileIp>,
    pub(super) outside: Vec<MobileIp>,
    pub(super) skip: Vec<Skip>,
    pub(super) wireless: Wireless,
    pub(super) transport: Vec<Transport>,
    /// SHA-256 of files that are not policies.
    pub(super) files: Vec<(String, String)>,
}

/// The name of a policy, and its place.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) place: Place,
}

/// What layers refer to.
pub(super) struct Around<'a> {
    pub(super) topology: &'a Topology,
    pub(super) moves: &'a [Move],
    pub(super) flows: &'a [Flow],
    pub(super) catalogue: &'a Catalogue,
}

/// The kinds of layers.
#[derive(Clone, Copy)]
enum Kind {
    Ipsec,
    MobileIp,
    Skip,
    Access,
    LinkCipher,
    Transport,
}

const KINDS: [(&str, Kind); 6] = [
    ("access", Kind::Access),
    ("link-cipher", Kind::LinkCipher),
    ("ipsec", Kind::Ipsec),
    ("mobile-ip", Kind::MobileIp),
    ("skip", Kind::Skip),
    ("transport", Kind::Transport),
];

impl Named {
    pub(super) fn of(item: &Item) -> Result<Self, Fault> {
        Ok(Self {
            name: item.text()?.to_owned(),
            place: item.place.clone(),
        })
    }
}

impl Layers {
    /// One policy for all stations, which may itself be of layers.
    pub(super) fn of(policy: &Item, around: &Around<'_>) -> Result<Self, Fault> {
        let mut layers = Self::default();
        layers.add_policy(policy, around)?;
        Ok(layers)
    }

    /// Layers with their ends, and if `policy` is given, one policy for all other stations.
    pub(super) fn read(
        item: &Item,
        policy: Option<&Item>,
        around: &Around<'_>,
    ) -> Result<Self, Fault> {
        let mut layers = Self::default();
        let items = members(item, "layers")?;
        if items.is_empty() {
            return Err(item.fault("there must be at least one layer"));
        }
        for item in items {
            layers.add(item, around)?;
        }
        match policy {
            Some(policy) => layers.add_policy(policy, around)?,
            None => drop(layers.tunnels.get_or_insert_default()),
        }
        Ok(layers)
    }

    fn add(&mut self, item: &Item, around: &Around<'_>) -> Result<(), Fault> {
        let table = item.table()?;
        let kind = table.need("kind")?;
        let nodes = &around.topology.nodes;
        let ends = || Ends::read(&table, nodes);
        match kind.choice("layer", &KINDS)? {
            Kind::Ipsec => self.read_ipsec(item, &table, &ends()?)?,
            Kind::MobileIp => self.read_mobile(item, &table, &ends()?)?,
            Kind::Skip => self.read_skip(item, &table, &ends()?)?,
            Kind::Access => self.read_access(item, &table, (&ends()?, around.catalogue))?,
            Kind::LinkCipher => self.read_cipher(item, &table, around.topology)?,
            Kind::Transport => self.read_transport(item, &table, around)?,
        }
        table.finish()
    }

    /// The policy of the scenario, and what its layers say of stations and links that no layer of
    /// the scenario names.
    fn add_policy(&mut self, policy: &Item, around: &Around<'_>) -> Result<(), Fault> {
        let own = Named::of(policy)?;
        let entry = around.catalogue.find(catalogue::Kind::Policy, &own.name);
        let layered = match entry {
            Some(entry) => Layered::find(entry, around.catalogue)?,
            None => None,
        };
        let Some(layered) = layered else {
            self.own = Some(own.name.clone());
            self.policies.insert(0, own);
            return Ok(());
        };
        self.policies.insert(0, own);
        self.files.extend(layered.files);
        if let Some(methods) = &layered.access {
            self.wireless.let_in(methods, around.topology, around.moves);
        }
        if let Some(cipher) = layered.cipher {
            self.wireless.encipher(cipher, around.topology);
        }
        if let Some(tls) = &layered.transport {
            for (flow, _) in around
                .flows
                .iter()
                .enumerate()
                .filter(|it| transport::is_tcp(it.1))
            {
                if self.transport(flow).is_none() {
                    let tls = tls.clone();
                    self.transport.push(Transport { flow, tls });
                }
            }
        }
        let (name, place) = layered
            .ipsec
            .unwrap_or(("none".to_owned(), policy.place.clone()));
        self.own = Some(name.clone());
        self.policies.push(Named { name, place });
        Ok(())
    }

    fn read_access(
        &mut self,
        item: &Item,
        table: &Table<'_>,
        (ends, catalogue): (&Ends, &Catalogue),
    ) -> Result<(), Fault> {
        let what = "access goes from a station to an access point";
        ends.must_lead_to(item, Role::AccessPoint, what)?;
        let is_legacy = table.or("legacy", false, Item::boolean)?;
        let methods = wireless::methods(table, is_legacy, catalogue, &mut self.files)?;
        if self.wireless.access(ends.from, ends.to).is_some() {
            let what = "this station already has access to this access point";
            return Err(item.fault_of(&["from", "to"], what));
        }
        self.wireless.access.push(Access {
            station: ends.from,
            access_point: ends.to,
            methods,
        });
        Ok(())
    }

    fn read_cipher(
        &mut self,
        item: &Item,
        table: &Table<'_>,
        topology: &Topology,
    ) -> Result<(), Fault> {
        let named = table.need("link")?;
        let link = link_of(named, &topology.links)?;
        if topology.nodes[topology.links[link].far].role != Role::AccessPoint {
            return Err(named.fault("a link with a cipher ends at an access point"));
        }
        let is_legacy = table.or("legacy", false, Item::boolean)?;
        let cipher = wireless::cipher(table, is_legacy)?;
        if self.wireless.cipher(link).is_some() {
            return Err(item.fault_of(&["link"], "this link already has a cipher"));
        }
        self.wireless.ciphers.push(Cipher { link, cipher });
        Ok(())
    }

    fn read_transport(
        &mut self,
        item: &Item,
        table: &Table<'_>,
        around: &Around<'_>,
    ) -> Result<(), Fault> {
        let flow = transport::flow_of(table.need("flow")?, around.flows)?;
        let is_legacy = table.or("legacy", false, Item::boolean)?;
        let tls = Tls::read(table, is_legacy, around.catalogue, &mut self.files)?;
        if self.transport(flow).is_some() {
            return Err(item.fault_of(&["flow"], "this flow already has a transport"));
        }
        self.transport.push(Transport { flow, tls });
        Ok(())
    }

    fn transport(&self, flow: usize) -> Option<&Transport> {
        self.transport.iter().find(|it| it.flow == flow)
    }

    fn read_ipsec(&mut self, item: &Item, table: &Table<'_>, ends: &Ends) -> Result<(), Fault> {
        let named = table.need("policy")?;
        let policy = named.text()?.to_owned();
        let is_between_sites = ends.is_gateway.0 && ends.is_gateway.1 && ends.from != ends.to;
        let is_of_station = ends.roles.0 == Role::Station && ends.is_gateway.1;
        if !is_of_station && !is_between_sites {
            let what =
                "ipsec goes from a station to a gateway, or between routers that end tunnels";
            return Err(item.fault_of(&["from", "to"], what));
        }
        let tunnels = self.tunnels.get_or_insert_default();
        if tunnels.iter().any(|tunnel| tunnel.from == ends.from) {
            return Err(item.fault_of(&["from"], "this station already has a tunnel"));
        }
        let others = tunnels.iter().filter(|other| other.to == ends.to);
        let mut others: Vec<&str> = others.map(|other| &*other.policy).collect();
        others.push(&policy);
        others.sort_unstable();
        others.dedup();
        if others.len() > POLICIES_MAX {
            let what = format!("more than {POLICIES_MAX} policies at one gateway");
            return Err(named.fault(what));
        }
        let (from, to) = (ends.from, ends.to);
        tunnels.push(Tunnel { from, to, policy });
        self.policies.push(Named::of(named)?);
        Ok(())
    }

    fn read_mobile(&mut self, item: &Item, table: &Table<'_>, ends: &Ends) -> Result<(), Fault> {
        let what = "mobile-ip goes from a station to its home agent";
        ends.must_lead_to(item, Role::HomeAgent, what)?;
        let list = match table.or("outside", false, Item::boolean)? {
            true => &mut self.outside,
            false => &mut self.mobile,
        };
        if list.iter().any(|other| other.station == ends.from) {
            return Err(item.fault_of(&["from"], "this station already has a home agent"));
        }
        list.push(MobileIp::read(table, (ends.from, ends.to))?);
        Ok(())
    }

    fn read_skip(&mut self, item: &Item, table: &Table<'_>, ends: &Ends) -> Result<(), Fault> {
        let what = "skip goes from a station to a firewall";
        ends.must_lead_to(item, Role::Firewall, what)?;
        if self
            .skip
            .iter()
            .any(|other| (other.station, other.firewall) == (ends.from, ends.to))
        {
            let what = "this station already has keys for this firewall";
            return Err(item.fault_of(&["from"], what));
        }
        let named = table.need("policy")?;
        self.skip.push(Skip {
            station: ends.from,
            firewall: ends.to,
            policy: named.text()?.to_owned(),
            udp: udp_wish(table)?,
        });
        self.policies.push(Named::of(named)?);
        Ok(())
    }
}

/// The ends of a layer: indices of nodes, and their roles.
struct Ends {
    from: usize,
    to: usize,
    roles: (Role, Role),
    is_gateway: (bool, bool),
}

impl Ends {
    fn read(table: &Table<'_>, nodes: &[Node]) -> Result<Self, Fault> {
        let from = node_of(table.need("from")?, nodes)?;
        let to = node_of(table.need("to")?, nodes)?;
        Ok(Self {
            from,
            to,
            roles: (nodes[from].role, nodes[to].role),
            is_gateway: (nodes[from].is_gateway(), nodes[to].is_gateway()),
        })
    }

    fn must_lead_to(&self, item: &Item, other: Role, what: &str) -> Result<(), Fault> {
        match self.roles == (Role::Station, other) {
            true => Ok(()),
            false => Err(item.fault_of(&["from", "to"], what)),
        }
    }
}

//! The layers of a graph: who protects or carries the packets of which station, and how.

use document::{Fault, Item, Table};

use super::mobile::{MobileIp, Skip, udp_wish};
use super::motion::{POLICIES_MAX, Tunnel, members};
use super::topology::{Topology, node_of};
use super::{Node, Role};

/// What layers say, and the positions of their policies in the file.
#[derive(Default)]
pub(super) struct Layers<'a> {
    pub(super) policies: Vec<&'a Item>,
    /// None: each station has a tunnel to the nearest gateway.
    pub(super) tunnels: Option<Vec<Tunnel>>,
    pub(super) mobile: Vec<MobileIp>,
    pub(super) skip: Vec<Skip>,
}

/// The kinds of layers.
#[derive(Clone, Copy)]
enum Kind {
    Ipsec,
    MobileIp,
    Skip,
    /// Known, but not available.
    Later,
}

const KINDS: [(&str, Kind); 6] = [
    ("access", Kind::Later),
    ("link-cipher", Kind::Later),
    ("ipsec", Kind::Ipsec),
    ("mobile-ip", Kind::MobileIp),
    ("skip", Kind::Skip),
    ("transport", Kind::Later),
];

impl<'a> Layers<'a> {
    /// One policy for all stations.
    pub(super) fn of(policy: &'a Item) -> Self {
        Self {
            policies: vec![policy],
            ..Self::default()
        }
    }

    pub(super) fn read(item: &'a Item, topology: &Topology) -> Result<Self, Fault> {
        let mut layers = Self {
            tunnels: Some(Vec::new()),
            ..Self::default()
        };
        let items = members(item, "layers")?;
        if items.is_empty() {
            return Err(item.fault("there must be at least one layer"));
        }
        for item in items {
            let table = item.table()?;
            let kind = table.need("kind")?;
            let chosen = kind.choice("layer", &KINDS)?;
            let ends = Ends::read(&table, &topology.nodes)?;
            match chosen {
                Kind::Ipsec => layers.read_ipsec(item, &table, &ends)?,
                Kind::MobileIp => layers.read_mobile(item, &table, &ends)?,
                Kind::Skip => layers.read_skip(item, &table, &ends)?,
                Kind::Later => {
                    let what = "this layer is not available yet: the lab supports ipsec, \
                                mobile-ip and skip";
                    return Err(kind.fault(what));
                }
            }
            table.finish()?;
        }
        Ok(layers)
    }

    fn read_ipsec(&mut self, item: &'a Item, table: &Table<'a>, ends: &Ends) -> Result<(), Fault> {
        let named = table.need("policy")?;
        let policy = named.text()?.to_owned();
        ends.must_lead_to(
            item,
            Role::Gateway,
            "ipsec goes from a station to a gateway",
        )?;
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
        self.policies.push(named);
        Ok(())
    }

    fn read_mobile(&mut self, item: &Item, table: &Table<'_>, ends: &Ends) -> Result<(), Fault> {
        let what = "mobile-ip goes from a station to its home agent";
        ends.must_lead_to(item, Role::HomeAgent, what)?;
        if self.mobile.iter().any(|other| other.station == ends.from) {
            return Err(item.fault_of(&["from"], "this station already has a home agent"));
        }
        let read = MobileIp::read(table, (ends.from, ends.to))?;
        self.mobile.push(read);
        Ok(())
    }

    fn read_skip(&mut self, item: &'a Item, table: &Table<'a>, ends: &Ends) -> Result<(), Fault> {
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
        self.policies.push(named);
        Ok(())
    }
}

/// The ends of a layer: indices of nodes, and their roles.
struct Ends {
    from: usize,
    to: usize,
    roles: (Role, Role),
}

impl Ends {
    fn read(table: &Table<'_>, nodes: &[Node]) -> Result<Self, Fault> {
        let from = node_of(table.need("from")?, nodes)?;
        let to = node_of(table.need("to")?, nodes)?;
        Ok(Self {
            from,
            to,
            roles: (nodes[from].role, nodes[to].role),
        })
    }

    fn must_lead_to(&self, item: &Item, other: Role, what: &str) -> Result<(), Fault> {
        match self.roles == (Role::Station, other) {
            true => Ok(()),
            false => Err(item.fault_of(&["from", "to"], what)),
        }
    }
}

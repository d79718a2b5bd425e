//! The nodes of a scenario: their roles and processors.

use std::net::IpAddr;

use serde::Serialize;

use super::{Catalogue, Fault, Item, Kind, Table, name, quantity};

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Unique within the scenario.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its processor; none: computing takes no time.
    pub computer: Option<Computer>,
    /// The time after which a NAT removes an idle UDP mapping.
    pub udp_timeout_s: Option<f64>,
    /// Whether a router drops what comes from the stations' side with an address that is not of
    /// that side.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub filters_sources: bool,
    /// Whether routers inside a firewall know the networks outside of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub announces: bool,
    /// Its address on the segment whose range has it; none: the next free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Whether a router ends tunnels too, of its networks' stations and of other such routers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends_tunnels: bool,
    /// Whether the radio of a station or an access point ciphers its frames: no processor does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ciphers_in_hardware: bool,
    /// The node with an access point's RADIUS server, by name; none: it is in the access point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radius: Option<String>,
}

/// A device of the catalogue at a clock rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Computer {
    /// Name in the catalogue.
    pub device: String,
    /// Operations or cycles per second; none: the device's own value.
    pub speed: Option<Speed>,
}

/// How fast a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// Million operations per second, for devices whose cost is in operations.
    Mips(f64),
    /// Cycles per second, for devices whose cost is in cycles.
    ClockHz(f64),
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The client: it initiates the tunnel and protects its packets.
    Station,
    /// Stores and forwards; the links that it joins are one segment.
    Relay,
    /// Forwards between segments, by address.
    Router,
    /// Forwards, and translates addresses and ports.
    Nat,
    /// The responder of tunnels.
    Gateway,
    /// Answers the station, behind the gateway.
    Server,
    /// Keeps the bindings of mobile nodes, on the link that is their home (RFC 5944).
    HomeAgent,
    /// A router that serves visiting mobile nodes (RFC 5944).
    ForeignAgent,
    /// Ends SKIP between a private network, behind it, and the others. It forwards nothing else.
    Firewall,
    /// Joins the stations of its radio to the link that starts from it; they are one segment.
    AccessPoint,
}

const ROLES: [(&str, Role); 10] = [
    ("station", Role::Station),
    ("relay", Role::Relay),
    ("router", Role::Router),
    ("nat", Role::Nat),
    ("gateway", Role::Gateway),
    ("server", Role::Server),
    ("home-agent", Role::HomeAgent),
    ("foreign-agent", Role::ForeignAgent),
    ("firewall", Role::Firewall),
    ("access-point", Role::AccessPoint),
];

/// The slowest processor, in MIPS, that a scenario may have.
const MIPS_LEAST: f64 = 1e-3;
const MIPS_MAX: f64 = 1e9;

impl Role {
    /// Whether its processor protects or wraps packets; that of a server, flows in TLS.
    pub const fn computes(self) -> bool {
        !matches!(self, Self::Relay | Self::Router | Self::Nat)
    }

    /// Whether it joins links to one segment.
    pub const fn is_bridge(self) -> bool {
        matches!(self, Self::Relay | Self::AccessPoint)
    }

    /// Whether it forwards what comes to it.
    pub const fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::ForeignAgent)
    }

    /// Whether it has routes to what lies on both of its sides.
    pub const fn has_routes(self) -> bool {
        self.is_router() || matches!(self, Self::Nat | Self::Gateway | Self::Firewall)
    }
}

impl Node {
    /// Whether tunnels end here.
    pub const fn is_gateway(&self) -> bool {
        matches!(self.role, Role::Gateway) || self.ends_tunnels
    }

    pub(super) fn read(
        item: &Item,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let table = item.table()?;
        let role = table.need("role")?.choice("role", &ROLES)?;
        let ends_tunnels = table.or("ends_tunnels", false, Item::boolean)?;
        if !role.computes() && !ends_tunnels {
            for key in ["device", "mips", "clock"] {
                let what =
                    "only a station, a gateway, an agent, a firewall or a server can have this key";
                table.refuse(key, what)?;
            }
        }
        if role != Role::Router {
            table.refuse("filters_sources", "only a router can have this key")?;
            table.refuse("ends_tunnels", "only a router can have this key")?;
        }
        if role != Role::AccessPoint {
            table.refuse("radius", "only an access point can have this key")?;
        }
        if !matches!(role, Role::AccessPoint | Role::Station) {
            let what = "only a station or an access point can have this key";
            table.refuse("ciphers_in_hardware", what)?;
        }
        if role == Role::Relay {
            table.refuse("address", "a relay has no address")?;
        }
        if role != Role::Firewall {
            table.refuse("announces", "only a firewall can have this key")?;
        }
        if role != Role::Nat {
            table.refuse("udp_timeout", "only a NAT can have this key")?;
        }
        let node = Self {
            name: name::of_node(table.need("name")?)?,
            role,
            computer: Computer::read(&table, catalogue, files)?,
            udp_timeout_s: table.or("udp_timeout", None, |item| {
                match item.quantity(quantity::time)? {
                    0.0 => Err(item.fault("this must be above zero")),
                    timeout_s => Ok(Some(timeout_s)),
                }
            })?,
            filters_sources: table.or("filters_sources", false, Item::boolean)?,
            announces: table.or("announces", false, Item::boolean)?,
            address: table.or("address", None, |item| {
                let text = item.text()?;
                let what = || item.fault(format!("'{text}' is not an IP address"));
                text.parse().map(Some).map_err(|_| what())
            })?,
            ends_tunnels,
            ciphers_in_hardware: table.or("ciphers_in_hardware", false, Item::boolean)?,
            radius: table.or("radius", None, |item| Ok(Some(item.text()?.to_owned())))?,
        };
        table.finish()?;
        Ok(node)
    }
}

impl Computer {
    fn read(
        table: &Table<'_>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Option<Self>, Fault> {
        let speed = match (table.find("mips"), table.find("clock")) {
            (Some(_), Some(_)) => {
                let what = "both mips and clock are given: remove one";
                return Err(table.fault_of(&["mips", "clock"], what));
            }
            (Some(mips), None) => Some(Speed::Mips(mips.number(MIPS_LEAST, MIPS_MAX)?)),
            (None, Some(clock)) => Some(Speed::ClockHz(clock.quantity(quantity::clock)?)),
            (None, None) => None,
        };
        let Some(device) = table.find("device") else {
            return match speed {
                Some(_) => {
                    let what = "this speed needs a device: name one";
                    Err(table.fault_of(&["device", "mips", "clock"], what))
                }
                None => Ok(None),
            };
        };
        files.push(catalogue.named(Kind::Device, device)?.fingerprint());
        Ok(Some(Self {
            device: device.text()?.to_owned(),
            speed,
        }))
    }
}

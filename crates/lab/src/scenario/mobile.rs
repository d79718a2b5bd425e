//! Layers that carry packets of mobile nodes: Mobile IP between a station and its home agent, and
//! SKIP between a station and a firewall.

use document::{Fault, Item, Table};
use engine::mip4::tunnel::UdpWish;
use engine::sa::Encapsulation;
use serde::{Serialize, Serializer};

use super::quantity;

/// A station that keeps its address wherever it is (RFC 5944).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MobileIp {
    /// Index of the station.
    pub station: usize,
    /// Index of its home agent. Its link is the station's home.
    pub agent: usize,
    /// What its tunnels are made of.
    #[serde(serialize_with = "encapsulation")]
    pub encapsulation: Encapsulation,
    /// Whether its own packets go through the tunnel too (RFC 3024).
    pub is_reverse: bool,
    /// Whether the tunnel is in UDP (RFC 3519).
    #[serde(serialize_with = "udp")]
    pub udp: UdpWish,
    /// The lifetime of a registration that it asks for.
    pub lifetime_s: u16,
}

/// A station whose packets carry their keys through a firewall.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skip {
    /// Index of the station.
    pub station: usize,
    /// Index of the firewall.
    pub firewall: usize,
    /// Its policy, by name.
    pub policy: String,
    /// Whether its packets are in UDP.
    #[serde(serialize_with = "udp")]
    pub udp: UdpWish,
}

/// The lifetime of a registration, if the file says nothing: that of agent advertisements (RFC 5944
/// §2.3.1).
const LIFETIME_S: u16 = 1800;

impl MobileIp {
    /// The keys of the layer beside its ends.
    pub(super) fn read(table: &Table<'_>, (station, agent): (usize, usize)) -> Result<Self, Fault> {
        let lifetime = |item: &Item| {
            let seconds = item.quantity(quantity::time)?;
            // 0xffff is a registration without an end.
            match seconds.round() {
                whole if (1.0..65_535.0).contains(&whole) => Ok(whole as u16),
                _ => Err(item.fault(format!("{seconds} s is not from 1 s to 65534 s"))),
            }
        };
        Ok(Self {
            station,
            agent,
            encapsulation: table.or("encapsulation", Encapsulation::IpInIp, |item| {
                item.choice(
                    "encapsulation",
                    &Encapsulation::ALL.map(|it| (it.name(), it)),
                )
            })?,
            is_reverse: table.or("reverse_tunnel", true, Item::boolean)?,
            udp: udp_wish(table)?,
            lifetime_s: table.or("lifetime", LIFETIME_S, lifetime)?,
        })
    }
}

/// The key `udp` of either layer.
pub(super) fn udp_wish(table: &Table<'_>) -> Result<UdpWish, Fault> {
    table.or("udp", UdpWish::BehindNat, |item| {
        item.choice("udp", &UdpWish::ALL.map(|it| (it.name(), it)))
    })
}

fn encapsulation<S: Serializer>(value: &Encapsulation, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

pub(super) fn udp<S: Serializer>(value: &UdpWish, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

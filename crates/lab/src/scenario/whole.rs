//! Links and moves in whole numbers, as links that carry packets need them: those of the event
//! kernel and those of the testbed (`caravan link`). Each number is rounded here and only here.
//!
//! Left out: the tandem and the closed forms, which use the numbers as written.

use engine::link::RATE_BPS_MAX;
use serde::Serialize;

use super::{Change, Joint, LinkChange, Move, Rate, Scenario};
use crate::time::nanoseconds;

/// A link between nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WholeLink {
    /// Its name in the scenario.
    pub name: String,
    /// Indices of the nodes that share its near side at the beginning.
    pub near: Vec<usize>,
    /// Index of the node at its other end.
    pub far: usize,
    /// Rates in both directions.
    pub rate: WholeRate,
    /// Propagation delay.
    pub delay_ns: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that are overtaken by the next one.
    pub reorder: f64,
    /// The size of its queue; none: no limit.
    pub queue_bytes: Option<u64>,
    /// The MTU; none: no limit.
    pub mtu_bytes: Option<u32>,
    /// Bytes that the link adds to every packet.
    pub overhead_bytes: u32,
    /// Time that the medium takes for every packet besides its bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub access_ns: u64,
    /// Name of a recording that is used instead of the rates.
    pub trace: Option<String>,
    /// Whether both directions share one wire.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_half_duplex: bool,
}

/// Rates in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WholeRate {
    /// Away from the stations.
    pub up_bps: u64,
    /// Towards the stations.
    pub down_bps: u64,
}

/// A change while packets flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WholeMove {
    /// The time after the beginning of the flows.
    pub at_ns: u64,
    /// What changes.
    #[serde(flatten)]
    pub change: Change<WholeLinkChange>,
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WholeLinkChange {
    /// New rates.
    Rate(WholeRate),
    /// A new delay.
    DelayNs(u64),
    /// A new loss.
    Loss(f64),
    /// Whether it carries packets.
    Up(bool),
}

impl Scenario {
    /// Its links, in their order.
    pub(super) fn whole_links(&self) -> Vec<WholeLink> {
        let links = self.links.iter().enumerate();
        let links = links.map(|(index, joint)| {
            let cipher = self.wireless.cipher(index);
            let added = cipher.map_or(0, |cipher| cipher.overhead() as u32);
            let link = WholeLink::of(joint);
            WholeLink {
                overhead_bytes: link.overhead_bytes.saturating_add(added),
                ..link
            }
        });
        links.collect()
    }

    /// Its moves, in the order of time.
    pub(super) fn whole_moves(&self) -> Vec<WholeMove> {
        let mut moves: Vec<WholeMove> = self.moves.iter().map(WholeMove::of).collect();
        moves.sort_by_key(|it| it.at_ns);
        moves
    }
}

impl WholeLink {
    fn of(joint: &Joint) -> Self {
        let link = &joint.link;
        Self {
            name: joint.name.clone(),
            near: joint.near.clone(),
            far: joint.far,
            rate: WholeRate::of(link.rate),
            delay_ns: nanoseconds(link.delay_s),
            loss: link.loss,
            reorder: link.reorder,
            queue_bytes: link.queue_bytes.map(|bytes| libm::round(bytes) as u64),
            mtu_bytes: link.mtu_bytes.map(|bytes| libm::round(bytes) as u32),
            // the bytes that a link adds are a bound
            overhead_bytes: link.overhead_bytes.ceil() as u32,
            access_ns: nanoseconds(link.access_s),
            trace: link.trace.clone(),
            is_half_duplex: link.is_half_duplex,
        }
    }
}

fn is_zero(nanoseconds: &u64) -> bool {
    *nanoseconds == 0
}

impl WholeRate {
    /// The nearest whole numbers that a link can have.
    fn of(rate: Rate) -> Self {
        let whole = |bps: f64| (libm::round(bps) as u64).clamp(1, RATE_BPS_MAX);
        Self {
            up_bps: whole(rate.up_bps),
            down_bps: whole(rate.down_bps),
        }
    }
}

impl WholeMove {
    fn of(step: &Move) -> Self {
        Self {
            at_ns: nanoseconds(step.at_s),
            change: match step.change {
                Change::Station { node, to } => Change::Station { node, to },
                Change::Link { link, to } => Change::Link {
                    link,
                    to: match to {
                        LinkChange::Rate(rate) => WholeLinkChange::Rate(WholeRate::of(rate)),
                        LinkChange::DelayS(delay) => WholeLinkChange::DelayNs(nanoseconds(delay)),
                        LinkChange::Loss(loss) => WholeLinkChange::Loss(loss),
                        LinkChange::Up(is_up) => WholeLinkChange::Up(is_up),
                    },
                },
            },
        }
    }
}

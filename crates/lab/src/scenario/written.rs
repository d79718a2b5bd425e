//! A resolved scenario as JSON: the form that is hashed, and that answers contain.

use serde::{Serialize, Serializer};

use super::address::Network;
use super::{
    Flow, Joint, Link, MobileIp, Move, Node, Run, Scenario, Skip, Traffic, Transport, Wireless,
};

/// The form that is hashed: keys that the short form does not have are left out.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    title: &'a str,
    seed: u64,
    policy: &'a str,
    accounting: &'a str,
    calendar_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<u8>,
    run: Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<&'a Traffic>,
    nodes: &'a [Node],
    links: Links<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows: Option<&'a [Flow]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moves: Option<&'a [Move]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<Vec<Layer<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mobile: &'a [MobileIp],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    outside: &'a [MobileIp],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skip: &'a [Skip],
    #[serde(skip_serializing_if = "Wireless::is_empty")]
    wireless: &'a Wireless,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    transport: &'a [Transport],
    #[serde(skip_serializing_if = "is_true")]
    clamps_mss: bool,
    files: &'a [(String, String)],
}

/// The policy is left out if it is the scenario's own.
#[derive(Serialize)]
struct Layer<'a> {
    from: usize,
    to: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
}

/// The ends of a chain's link follow from its position.
#[derive(Serialize)]
struct ChainLink<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(flatten)]
    link: &'a Link,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Links<'a> {
    Chain(Vec<ChainLink<'a>>),
    Graph(&'a [Joint]),
}

impl<'a> ChainLink<'a> {
    const fn of(joint: &'a Joint) -> Self {
        Self {
            network: joint.network,
            link: &joint.link,
        }
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            name: &self.name,
            title: &self.title,
            seed: self.seed,
            policy: &self.policy,
            accounting: self.accounting.name(),
            calendar_s: self.calendar_s,
            family: self.is_v6.then_some(6),
            run: self.run,
            traffic: self
                .flows
                .first()
                .filter(|_| self.is_short)
                .map(|flow| &flow.traffic),
            nodes: &self.nodes,
            links: match self.is_short {
                true => Links::Chain(self.links.iter().map(ChainLink::of).collect()),
                false => Links::Graph(&self.links),
            },
            flows: (!self.is_short).then_some(&self.flows),
            moves: (!self.is_short).then_some(&self.moves),
            layers: self.layers.as_ref().map(|layers| {
                let layers = layers.iter().map(|tunnel| Layer {
                    from: tunnel.from,
                    to: tunnel.to,
                    policy: (tunnel.policy != self.policy).then_some(&*tunnel.policy),
                });
                layers.collect()
            }),
            // The hash of a scenario without layers has the policy alone.
            others: self
                .others
                .as_deref()
                .filter(|it| self.layers.is_some() || *it != self.policy),
            mobile: &self.mobile,
            outside: &self.outside,
            skip: &self.skip,
            wireless: &self.wireless,
            transport: &self.transport,
            clamps_mss: self.clamps_mss,
            files: &self.files,
        };
        written.serialize(serializer)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_true(value: &bool) -> bool {
    *value
}

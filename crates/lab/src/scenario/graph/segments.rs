//! Which links are one segment, and the addresses that the file gives to its nodes.

use std::net::IpAddr;

use document::Fault;

use super::{POOLS, Segment};
use crate::scenario::{Role, Scenario};

/// The addresses that the file gives to nodes of a segment; two nodes with one are an error.
pub(super) fn taken(
    scenario: &Scenario,
    given: impl Iterator<Item = (usize, IpAddr)>,
) -> Result<Vec<IpAddr>, Fault> {
    let mut taken: Vec<(usize, IpAddr)> = Vec::new();
    for (node, address) in given {
        let other = taken.iter().find(|(_, other)| *other == address);
        if let Some((other, _)) = other.filter(|(other, _)| *other != node) {
            let name = |node: usize| &scenario.nodes[node].name;
            let what = format!("'{}' and '{}' have one address", name(*other), name(node));
            let key = format!("node.{}.address", name(node));
            return Err(scenario.fault(&[&key], what));
        }
        taken.push((node, address));
    }
    Ok(taken.into_iter().map(|(_, address)| address).collect())
}

/// Links that relays and access points join, those nearest to the stations first.
pub(super) fn segments(scenario: &Scenario) -> Vec<Segment> {
    let is_bridge = |node: usize| scenario.nodes[node].role.is_bridge();
    let role = |node: usize| scenario.nodes[node].role;
    let mut segments: Vec<Segment> = Vec::new();
    for (index, joint) in scenario.links.iter().enumerate() {
        // a link that starts at a bridge belongs to the segment that ends there
        if joint.near.iter().any(|near| is_bridge(*near)) {
            continue;
        }
        let mut links = vec![index];
        let mut end = joint.far;
        while is_bridge(end)
            && let Some(next) = scenario.links.iter().position(|it| it.near.contains(&end))
            && !links.contains(&next)
        {
            links.push(next);
            end = scenario.links[next].far;
        }
        // Several radios may lead to one link.
        let last = links.last().copied().unwrap_or(index);
        let known = segments.iter_mut().find(|it| it.links.contains(&last));
        if let Some(known) = known {
            let new: Vec<usize> = links
                .into_iter()
                .filter(|it| !known.links.contains(it))
                .collect();
            known.links.splice(0..0, new);
            continue;
        }
        let gateway = joint
            .near
            .first()
            .filter(|near| role(**near) == Role::Gateway);
        segments.push(Segment {
            network: POOLS,
            links,
            behind: gateway.copied(),
            head: POOLS.first,
        });
    }
    segments
}

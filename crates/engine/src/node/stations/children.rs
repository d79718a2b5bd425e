//! The children of a station, and the traffic that waits for them.

use crate::config::{Child, Connection};
use crate::node::Node;
use crate::plane::OutboundChange;
use crate::sa::{ChildId, Mode};
use crate::selector::TrafficSelector;

impl Node {
    /// Lets a station child's traffic wait for it.
    pub(super) fn expect(&mut self, child: ChildId) {
        let Some(entry) = self.children.get(&child) else {
            return;
        };
        let selectors = (&entry.local[..], &entry.remote[..]);
        let (local, remote) = expected(&entry.connection, entry.child(), selectors);
        self.outputs
            .outbound(OutboundChange::Expect(child, local, remote));
    }
}

/// The children of one configured child: IKEv2 carries all its selectors in one.
pub(super) fn selectors_of(
    connection: &Connection,
    child: &Child,
) -> Vec<(Vec<TrafficSelector>, Vec<TrafficSelector>)> {
    match connection.version.has_v1() {
        true => selector_pairs(child),
        false => vec![(child.local.clone(), child.remote.clone())],
    }
}

/// IKEv1's quick mode carries one selector per side: a child with several becomes as many pairs,
/// each of one family.
fn selector_pairs(child: &Child) -> Vec<(Vec<TrafficSelector>, Vec<TrafficSelector>)> {
    let or_dynamic = |selectors: &[TrafficSelector]| match selectors {
        [] => vec![Vec::new()],
        some => some.iter().map(|one| vec![*one]).collect(),
    };
    let is_one_family = |(local, remote): &(Vec<TrafficSelector>, Vec<TrafficSelector>)| match (
        &local[..],
        &remote[..],
    ) {
        ([local], [remote]) => local.is_of_family(remote),
        _ => true,
    };
    let remotes = or_dynamic(&child.remote);
    or_dynamic(&child.local)
        .into_iter()
        .flat_map(|local| {
            remotes
                .iter()
                .map(move |remote| (local.clone(), remote.clone()))
        })
        .filter(is_one_family)
        .collect()
}

/// The traffic that waits for a child: to the other side's selector, from anywhere on this host
/// unless a selector limits the source; in transport mode, to the peer itself.
fn expected(
    connection: &Connection,
    child: &Child,
    (local, remote): (&[TrafficSelector], &[TrafficSelector]),
) -> (Vec<TrafficSelector>, Vec<TrafficSelector>) {
    let peers = connection.remote_addrs.iter().map(|address| {
        let host = TrafficSelector::host(address.ip());
        let first = remote.first();
        first.map_or(host, |remote| remote.at(address.ip()))
    });
    let remotes: Vec<TrafficSelector> = match (child.mode, remote) {
        (Mode::Tunnel, [_, ..]) => remote.to_vec(),
        _ => peers.collect(),
    };
    let from_anywhere = |remote: &TrafficSelector| TrafficSelector::everything(remote.first);
    let locals = match local {
        [_, ..] if child.mode == Mode::Tunnel => local.to_vec(),
        _ => remotes.iter().map(from_anywhere).collect(),
    };
    (locals, remotes)
}

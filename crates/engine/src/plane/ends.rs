//! Inbound tunnels of Mobile IPv4. They have no SPI: the ends of the outer packet name them, then
//! the home address, because a foreign agent's care-of address is the end of many nodes' tunnels.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use wire::ip::protocol::{AH, ESP, GRE, IPV4, MINIMAL, SKIP};

use crate::counters::DropReason;
use crate::plane::inner::Inner;
use crate::plane::opener::Opener;
use crate::plane::policy;
use crate::sa::{ChildId, Encapsulation, Path, Via};
use crate::selector::TrafficSelector;

/// What an outer packet shows of its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) encapsulation: Encapsulation,
    /// Addresses, and in UDP ports, exactly (RFC 3519 §4.3).
    pub(crate) path: Path,
}

/// Tunnels by their ends.
#[derive(Default)]
pub(crate) struct Tunnels {
    openers: Vec<Option<Box<Opener>>>,
    free: Vec<usize>,
    by_name: BTreeMap<(ChildId, u32), usize>,
    /// Each with the home address, if its selectors name hosts.
    places: BTreeSet<(Ends, Option<IpAddr>, usize)>,
}

impl Tunnels {
    /// Adds a tunnel, which has no namesake.
    pub(crate) fn insert(&mut self, opener: Opener) {
        let slot = self.free.pop().unwrap_or(self.openers.len());
        self.by_name.insert((opener.child, opener.spi), slot);
        self.places.extend(places(&opener, slot));
        if slot == self.openers.len() {
            self.openers.push(None);
        }
        self.openers[slot] = Some(Box::new(opener));
    }

    pub(crate) fn remove(&mut self, child: ChildId, number: u32) -> Option<Box<Opener>> {
        let slot = self.by_name.remove(&(child, number))?;
        let opener = self.openers[slot].take()?;
        for place in places(&opener, slot) {
            self.places.remove(&place);
        }
        self.free.push(slot);
        Some(opener)
    }

    /// The tunnel through which this packet may come.
    pub(crate) fn find(&mut self, ends: Ends, inner: &Inner) -> Result<&mut Opener, DropReason> {
        let (source, destination) = (inner.flow.source, inner.flow.destination);
        let keys = [Some(source), Some(destination), None];
        let listed = keys.into_iter().flat_map(|key| self.at(ends, key));
        let found = listed.filter(|slot| {
            let opener = self.openers[*slot].as_ref();
            opener.is_some_and(|it| policy::admits(inner, &it.remote, &it.local, false))
        });
        // A host that sends its own packets through a tunnel of its own may have claimed any
        // address, so the tunnel that is for that address comes first.
        let is_own = |slot: &usize| {
            let opener = self.openers[*slot].as_ref();
            opener.is_some_and(|it| it.sent_on_from.is_some())
        };
        let Some(slot) = found.min_by_key(|slot| (is_own(slot), *slot)) else {
            return Err(match self.has(ends) {
                true => DropReason::SelectorMismatch,
                false => DropReason::UnknownTunnel,
            });
        };
        let opener = self.openers[slot].as_deref_mut();
        opener.ok_or(DropReason::UnknownTunnel)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Opener> {
        self.openers.iter().flatten().map(|opener| &**opener)
    }

    fn at(&self, ends: Ends, key: Option<IpAddr>) -> impl Iterator<Item = usize> {
        let range = (ends, key, 0)..=(ends, key, usize::MAX);
        self.places.range(range).map(|place| place.2)
    }

    /// Whether a tunnel has these ends.
    pub(crate) fn has(&self, ends: Ends) -> bool {
        let next = self.places.range((ends, None, 0)..).next();
        next.is_some_and(|place| place.0 == ends)
    }
}

/// Where a tunnel is listed.
fn places(opener: &Opener, slot: usize) -> Vec<(Ends, Option<IpAddr>, usize)> {
    let Some(encapsulation) = opener.encapsulation() else {
        return Vec::new();
    };
    let mut forms = vec![encapsulation];
    if encapsulation == Encapsulation::Minimal {
        forms.push(Encapsulation::IpInIp);
    }
    let all_hosts = |them: &[TrafficSelector]| them.iter().all(TrafficSelector::is_host);
    let hosts = match (all_hosts(&opener.remote), all_hosts(&opener.local)) {
        (true, _) => Some(&opener.remote),
        (false, true) => Some(&opener.local),
        (false, false) => None,
    };
    let keys = match hosts {
        Some(hosts) => hosts.iter().map(|host| Some(host.first)).collect(),
        None => vec![None],
    };
    let path = opener.path;
    let each = forms.into_iter().map(|encapsulation| Ends {
        encapsulation,
        path,
    });
    each.flat_map(|ends| keys.iter().map(move |key| (ends, *key, slot)))
        .collect()
}

/// Our ends of raw SAs, with the number of SAs of each. A packet that was opened and is for one of
/// them is opened again.
#[derive(Default)]
pub(crate) struct OwnEnds(BTreeMap<IpAddr, usize>);

impl OwnEnds {
    pub(crate) fn add(&mut self, path: &Path) {
        if path.via == Via::Raw {
            *self.0.entry(path.local.ip()).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        let address = path.local.ip();
        if path.via == Via::Raw
            && let Some(count) = self.0.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&address);
            }
        }
    }

    /// Whether an opened packet is for one of them. The kernel reassembles fragments.
    pub(crate) fn take(&self, inner: &Inner) -> bool {
        matches!(inner.flow.protocol, IPV4 | GRE | ESP | AH | MINIMAL | SKIP)
            && !inner.flow.is_fragment
            && self.0.contains_key(&inner.flow.destination)
    }
}

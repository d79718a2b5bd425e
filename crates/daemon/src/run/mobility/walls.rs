//! The firewalls of a mobile node, as its security layer has them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::mip4::security::{Form, Other, Security, Skip};

use crate::config::{MobileSetup, NodeFirewall, Wall};
use crate::count_file::{self, CountFile};

/// All pairs, as they are stored.
pub(super) fn pairs(setup: &MobileSetup) -> BTreeSet<String> {
    let walls = setup.firewall.iter().flat_map(|it| it.walls());
    walls.flat_map(|wall| [pair(wall), heard(wall)]).collect()
}

/// The pair of node and firewall, as it is stored.
pub(super) fn pair(wall: &Wall) -> String {
    let (local, remote) = wall.association.names();
    format!("{local} {remote} {}", wall.outside)
}

/// The same for what was heard from the firewall.
pub(super) fn heard(wall: &Wall) -> String {
    count_file::heard(&pair(wall), &wall.association)
}

/// A header for each firewall on the way. Only the last one sees what may have a short form.
pub(super) fn skip(firewall: &NodeFirewall, home: Ipv4Addr, counts: &CountFile) -> Security {
    let one = |wall: &Wall| Skip {
        association: wall.association.clone(),
        firewall: wall.outside,
        form: Form::Raw,
        behind: None,
        others: Vec::new(),
        short_form: None,
        stored_n: counts.bound(&pair(wall)),
        heard_n: counts.bound(&heard(wall)),
    };
    let mut all = firewall.behind.iter().rev().chain([&firewall.first]);
    let mut chain: Option<Box<Skip>> = None;
    for wall in &mut all {
        let is_last = chain.is_none();
        chain = Some(Box::new(Skip {
            behind: chain,
            short_form: Some(home).filter(|_| is_last && firewall.takes_short_form),
            ..one(wall)
        }));
    }
    let Some(mut first) = chain else {
        return Security::None;
    };
    let others = firewall.others.iter();
    let others = others.map(|wall| Other {
        association: wall.association.clone(),
        firewall: wall.outside,
        heard_n: counts.bound(&heard(wall)),
    });
    first.others = others.collect();
    if firewall.is_udp {
        first.form = Form::Udp;
    }
    Security::Skip(first)
}

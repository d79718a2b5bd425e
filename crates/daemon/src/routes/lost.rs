//! Notices that somebody else has removed our rules or blocking routes, and puts them back:
//! systemd-networkd removes what it has not made when it configures a link.
//!
//! The kernel reports our own removals too. Only what the footprint still has is put back, and only
//! what was missing counts: it may have been removed and added again since. Left out: routes into
//! the tunnel. Without one, its block refuses the traffic.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::RuleMessage;

use super::netlink::{self, Netlink};
use super::{BLOCK_METRIC, Prefix, RouteError};
use crate::footprint::FootprintFile;

/// Delay before a broken watch is reopened.
const REOPEN: Duration = Duration::from_secs(1);
/// Removals that are remembered. After more, everything is added again.
const REMOVALS_MAX: usize = 1000;

/// What was removed from the host's tables.
#[derive(Debug, Default)]
pub struct Removed {
    rules: Vec<RuleMessage>,
    blocks: BTreeSet<Prefix>,
    /// Reports were lost: it may be anything.
    may_be_all: bool,
}

/// The kernel's reports of removed rules and blocking routes.
pub struct Watch {
    messages: BoxStream<'static, NetlinkPayload<RouteNetlinkMessage>>,
    removed: Removed,
}

impl Watch {
    /// Must run within a tokio runtime.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            messages: messages()?,
            removed: Removed::default(),
        })
    }

    /// Returns once something was removed. Cancel-safe.
    pub async fn removed(&mut self) {
        while self.removed.is_empty() {
            let Some(message) = self.messages.next().await else {
                self.removed.may_be_all = true;
                tokio::time::sleep(REOPEN).await;
                if let Ok(opened) = messages() {
                    self.messages = opened;
                }
                continue;
            };
            self.removed.note(message);
            // A change of link is many messages at once.
            while let Some(Some(message)) = self.messages.next().now_or_never() {
                self.removed.note(message);
            }
        }
    }

    /// Adds again what the footprint has of that. Returns how much it was. After an error the next
    /// call adds everything again.
    pub async fn put_back(&mut self, file: &FootprintFile) -> Result<u64, RouteError> {
        let removed = core::mem::take(&mut self.removed);
        let done = removed.put_back(file).await;
        self.removed.may_be_all = done.is_err();
        done
    }
}

fn messages() -> io::Result<BoxStream<'static, NetlinkPayload<RouteNetlinkMessage>>> {
    let groups = [
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv4Rule,
        MulticastGroup::Ipv6Route,
        MulticastGroup::Ipv6Rule,
    ];
    let (connection, _, messages) = rtnetlink::new_multicast_connection(&groups)?;
    tokio::spawn(connection);
    Ok(messages.map(|(message, _)| message.payload).boxed())
}

impl Removed {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.blocks.is_empty() && !self.may_be_all
    }

    fn note(&mut self, message: NetlinkPayload<RouteNetlinkMessage>) {
        match message {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRule(rule))
                if netlink::has_our_priority(&rule) =>
            {
                self.rules.push(rule);
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRoute(route)) => {
                self.blocks.extend(block(&route));
            }
            NetlinkPayload::Overrun(_) => self.may_be_all = true,
            _ => {}
        }
        if self.rules.len() + self.blocks.len() > REMOVALS_MAX {
            *self = Self {
                may_be_all: true,
                ..Self::default()
            };
        }
    }

    async fn put_back(&self, file: &FootprintFile) -> Result<u64, RouteError> {
        let footprint = &file.footprint;
        let blocks = footprint.blocks.values().flatten();
        let blocks: BTreeSet<&Prefix> = blocks
            .filter(|it| self.may_be_all || self.blocks.contains(it))
            .collect();
        let is_gone = |rule: &&super::Rule| {
            let mut all = self.rules.iter();
            self.may_be_all || all.any(|it| netlink::is_of(it, rule))
        };
        let rules: Vec<_> = footprint.rules.iter().filter(is_gone).collect();
        if blocks.is_empty() && rules.is_empty() {
            return Ok(0);
        }
        let netlink = Netlink::open()?;
        let mut count = 0;
        for prefix in &blocks {
            let table = footprint.table;
            let was_missing = netlink.put_block(table, **prefix, BLOCK_METRIC).await?;
            count += u64::from(was_missing);
        }
        for rule in &rules {
            count += u64::from(netlink.add_rule(rule).await?);
        }
        Ok(count)
    }
}

/// The destination of a blocking route.
fn block(route: &RouteMessage) -> Option<Prefix> {
    if route.header.kind != RouteType::Unreachable {
        return None;
    }
    let length = route.header.destination_prefix_length;
    let to = route.attributes.iter().find_map(|it| match it {
        RouteAttribute::Destination(RouteAddress::Inet(v4)) => Some((*v4).into()),
        RouteAttribute::Destination(RouteAddress::Inet6(v6)) => Some((*v6).into()),
        _ => None,
    });
    let is_ipv6 = route.header.address_family == rtnetlink::packet_route::AddressFamily::Inet6;
    // A default route has no destination.
    let address = to.unwrap_or(Prefix::everything(is_ipv6).address);
    Some(Prefix { address, length })
}

#[cfg(test)]
mod tests;

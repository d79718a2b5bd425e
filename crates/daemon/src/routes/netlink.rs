//! The rtnetlink requests that we need. Adding an existing entry and removing a missing one
//! succeed.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope, RouteType};
use rtnetlink::packet_route::rule::{
    RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange,
};
use rtnetlink::packet_route::{AddressFamily, IpProtocol, route::RouteProtocol};
use rtnetlink::{AddressMessageBuilder, Handle, LinkUnspec, RouteMessageBuilder};

use super::entries::{LinkRoute, Neighbour};
use super::full::{Purpose, SECURED_PORT};
use super::{Prefix, RouteError, Rule, TableRoute};

/// Priorities of the rules: before the main table's 32766, after the local table's 0. The kernel
/// evaluates lower ones first.
const BY_AGENT: u32 = 217;
const SPARED: u32 = 218;
const KEPT: u32 = 219;
const LOCAL: u32 = 220;
const TUNNEL: u32 = 221;
const LANDING: u32 = 222;
const MOBILE: u32 = 223;
const UNREGISTERED: u32 = 224;
/// The table of the host's own routes.
const MAIN_TABLE: u32 = 254;
/// The kernel's table of our own addresses.
const LOCAL_TABLE: u32 = 255;
/// DNS (RFC 1035 §4.2).
const DOMAIN_PORT: u16 = 53;

/// A socket to the kernel's tables.
pub(super) struct Netlink(Handle);

impl Netlink {
    /// Must run within a tokio runtime, which drives the socket.
    pub(super) fn open() -> Result<Self, RouteError> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|why| RouteError::Netlink {
                what: "open a netlink socket".to_owned(),
                why,
            })?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    pub(super) async fn link_index(&self, name: &str) -> Result<u32, RouteError> {
        let mut links = self.0.link().get().match_name(name.to_owned()).execute();
        let found = links.try_next().await;
        let what = || format!("find the device {name}");
        let link = check(found, what, &[])?.flatten();
        link.map(|link| link.header.index)
            .ok_or_else(|| RouteError::Netlink {
                what: what(),
                why: io::ErrorKind::NotFound.into(),
            })
    }

    pub(super) async fn bring_up(&self, link: u32, mtu: u16) -> Result<(), RouteError> {
        let message = LinkUnspec::new_with_index(link).mtu(mtu.into()).up();
        let done = self.0.link().set(message.build()).execute().await;
        check(
            done,
            || format!("set the tunnel device's MTU to {mtu}"),
            &[],
        )
        .map(drop)
    }

    pub(super) async fn add_address(&self, link: u32, address: IpAddr) -> Result<(), RouteError> {
        let length = Prefix::host(address).length;
        let mut request = self.0.address().add(link, address, length).replace();
        if address.is_ipv6() {
            // A tunnel has no other hosts. During duplicate detection, no route could use the
            // address.
            let message = request.message_mut();
            message.header.flags = AddressHeaderFlags::Nodad;
            let flags = AddressAttribute::Flags(AddressFlags::Nodad);
            message.attributes.push(flags);
        }
        let what = || format!("add the inner address {address}");
        let added = check(request.execute().await, what, &[libc_errno::EXIST]);
        naming_ipv6_off(address, added).map(drop)
    }

    pub(super) async fn remove_address(
        &self,
        link: u32,
        address: IpAddr,
    ) -> Result<(), RouteError> {
        let length = Prefix::host(address).length;
        let message = match address {
            IpAddr::V4(v4) => AddressMessageBuilder::<std::net::Ipv4Addr>::new()
                .index(link)
                .address(v4, length)
                .build(),
            IpAddr::V6(v6) => AddressMessageBuilder::<std::net::Ipv6Addr>::new()
                .index(link)
                .address(v6, length)
                .build(),
        };
        let done = self.0.address().del(message).execute().await;
        check(
            done,
            || format!("remove the inner address {address}"),
            &libc_errno::GONE,
        )
        .map(drop)
    }

    pub(super) async fn add_route(
        &self,
        link: u32,
        route: &TableRoute,
        metric: u32,
    ) -> Result<(), RouteError> {
        let mut message = route_message(route.table, route.to, metric).output_interface(link);
        if route.to.address.is_ipv4() {
            message = message.scope(RouteScope::Link);
        }
        if let Some(source) = route.source {
            let wrong = |_| RouteError::Netlink {
                what: format!("route {} from {source}", route.to),
                why: io::ErrorKind::InvalidInput.into(),
            };
            message = message.pref_source(source).map_err(wrong)?;
        }
        let what = || format!("route {} into the tunnel", route.to);
        let added = self.add(message.build(), what).await;
        match naming_ipv6_off(route.to.address, added) {
            // The address has just gone. The next update of the host finds another one, or none.
            Err(RouteError::Netlink { why, .. })
                if route.source.is_some() && why.raw_os_error() == Some(libc_errno::INVALID) =>
            {
                let sourceless = TableRoute {
                    source: None,
                    ..*route
                };
                Box::pin(self.add_route(link, &sourceless, metric)).await
            }
            added => added,
        }
    }

    pub(super) async fn add_block(
        &self,
        table: u32,
        to: Prefix,
        metric: u32,
    ) -> Result<(), RouteError> {
        let message = route_message(table, to, metric).kind(RouteType::Unreachable);
        self.add(message.build(), || format!("block {to}")).await
    }

    /// Adds a block, and returns whether there was none.
    pub(super) async fn put_block(
        &self,
        table: u32,
        to: Prefix,
        metric: u32,
    ) -> Result<bool, RouteError> {
        let message = route_message(table, to, metric).kind(RouteType::Unreachable);
        let done = self.0.route().add(message.build()).execute().await;
        let what = || format!("block {to}");
        let is_missing = check(done, what, &[libc_errno::EXIST])?.is_some();
        if !is_missing {
            // It may be a route of another kind.
            self.add_block(table, to, metric).await?;
        }
        Ok(is_missing)
    }

    async fn add(
        &self,
        message: RouteMessage,
        what: impl Fn() -> String,
    ) -> Result<(), RouteError> {
        let done = self.0.route().add(message).replace().execute().await;
        check(done, what, &[libc_errno::EXIST]).map(drop)
    }

    pub(super) async fn remove_route(
        &self,
        route: &TableRoute,
        metric: u32,
    ) -> Result<(), RouteError> {
        // Any scope matches. With a specific one, IPv4 would miss routes of other scopes.
        let message = route_message(route.table, route.to, metric).scope(RouteScope::NoWhere);
        let done = self.0.route().del(message.build()).execute().await;
        check(
            done,
            || format!("remove the route to {}", route.to),
            &libc_errno::GONE,
        )
        .map(drop)
    }

    pub(super) async fn remove_block(
        &self,
        table: u32,
        to: Prefix,
        metric: u32,
    ) -> Result<(), RouteError> {
        let message = route_message(table, to, metric).kind(RouteType::Unreachable);
        let done = self.0.route().del(message.build()).execute().await;
        check(
            done,
            || format!("lift the block on {to}"),
            &libc_errno::GONE,
        )
        .map(drop)
    }

    /// Gives an interface an address with its network.
    pub(super) async fn add_link_address(
        &self,
        link: u32,
        address: Ipv4Addr,
        prefix: u8,
    ) -> Result<(), RouteError> {
        let request = self.0.address().add(link, address.into(), prefix);
        let what = || format!("add the home address {address}");
        let done = request.replace().execute().await;
        check(done, what, &[libc_errno::EXIST]).map(drop)
    }

    /// Takes an address with its network from an interface.
    pub(super) async fn remove_link_address(
        &self,
        link: u32,
        address: Ipv4Addr,
        prefix: u8,
    ) -> Result<(), RouteError> {
        let message = AddressMessageBuilder::<Ipv4Addr>::new()
            .index(link)
            .address(address, prefix)
            .build();
        let done = self.0.address().del(message).execute().await;
        let what = || format!("remove the home address {address}");
        check(done, what, &libc_errno::GONE).map(drop)
    }

    /// Notes where a host on a link is, for as long as it is there.
    pub(super) async fn add_neighbour(&self, one: &Neighbour) -> Result<(), RouteError> {
        let request = self.0.neighbours().add(one.link, one.address.into());
        let request = request.link_layer_address(&one.mac).replace();
        let what = || format!("note the link-layer address of {}", one.address);
        check(request.execute().await, what, &[]).map(drop)
    }

    pub(super) async fn remove_neighbour(&self, one: &Neighbour) -> Result<(), RouteError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = one.link;
        let address = NeighbourAddress::Inet(one.address);
        message.attributes = vec![NeighbourAttribute::Destination(address)];
        let done = self.0.neighbours().del(message).execute().await;
        let what = || format!("forget the link-layer address of {}", one.address);
        check(done, what, &libc_errno::GONE).map(drop)
    }

    pub(super) async fn add_link_route(
        &self,
        route: &LinkRoute,
        metric: u32,
    ) -> Result<(), RouteError> {
        let what = || format!("route {} over a link", route.to);
        self.add(link_route(route, metric), what).await
    }

    pub(super) async fn remove_link_route(
        &self,
        route: &LinkRoute,
        metric: u32,
    ) -> Result<(), RouteError> {
        let mut message = link_route(route, metric);
        message.header.scope = RouteScope::NoWhere;
        let done = self.0.route().del(message).execute().await;
        let what = || format!("remove the route to {}", route.to);
        check(done, what, &libc_errno::GONE).map(drop)
    }

    /// Packets to this address that come out of a device are for this host, and those of programs
    /// go into it.
    pub(super) async fn add_broadcast(&self, link: u32, to: Ipv4Addr) -> Result<(), RouteError> {
        let what = || format!("receive broadcasts to {to}");
        self.add(broadcast(link, to), what).await
    }

    pub(super) async fn remove_broadcast(&self, link: u32, to: Ipv4Addr) -> Result<(), RouteError> {
        let done = self.0.route().del(broadcast(link, to)).execute().await;
        let what = || format!("stop receiving broadcasts to {to}");
        check(done, what, &libc_errno::GONE).map(drop)
    }

    /// Adds a rule, and returns whether it was missing.
    pub(super) async fn add_rule(&self, rule: &Rule) -> Result<bool, RouteError> {
        let mut request = self.0.rule().add();
        *request.message_mut() = rule_message(rule);
        let what = || format!("add the rule for table {}", rule.table);
        let added = check(request.execute().await, what, &[libc_errno::EXIST])?;
        Ok(added.is_some())
    }

    pub(super) async fn remove_rule(&self, rule: &Rule) -> Result<(), RouteError> {
        let request = self.0.rule().del(rule_message(rule));
        let what = || format!("remove the rule for table {}", rule.table);
        check(request.execute().await, what, &libc_errno::GONE).map(drop)
    }
}

fn route_message(table: u32, to: Prefix, metric: u32) -> RouteMessageBuilder<IpAddr> {
    RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(to.address, to.length)
        .expect("a prefix of its own family")
        .table_id(table)
        .priority(metric)
        .protocol(RouteProtocol::Static)
}

fn link_route(route: &LinkRoute, metric: u32) -> RouteMessage {
    let (IpAddr::V4(to), length) = (route.to.address, route.to.length) else {
        return RouteMessage::default();
    };
    let mut message = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(to, length)
        .table_id(route.table)
        .priority(metric)
        .protocol(RouteProtocol::Static)
        .output_interface(route.link);
    message = match route.by {
        Some(by) => message.gateway(by).onlink(),
        None => message.scope(RouteScope::Link),
    };
    match route.source {
        Some(source) => message.pref_source(source).build(),
        None => message.build(),
    }
}

fn broadcast(link: u32, to: Ipv4Addr) -> RouteMessage {
    let route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(to, 32)
        .table_id(LOCAL_TABLE)
        .protocol(RouteProtocol::Static)
        .scope(RouteScope::Link)
        .kind(RouteType::Broadcast)
        .output_interface(link);
    route.build()
}

pub(super) fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = match rule.is_ipv6 {
        false => AddressFamily::Inet,
        true => AddressFamily::Inet6,
    };
    message.header.action = RuleAction::ToTable;
    let tables = [rule.table, rule.table + 1, MAIN_TABLE];
    let [table, next, main] = tables.map(RuleAttribute::Table);
    let mark = [
        RuleAttribute::FwMark(rule.fwmark),
        RuleAttribute::FwMask(u32::MAX),
    ];
    let (priority, more) = match &rule.purpose {
        Purpose::ByAgent { own, gateway } => {
            let gateway = towards(&mut message, Prefix::host((*gateway).into()));
            (BY_AGENT, vec![from(&mut message, *own), gateway, table])
        }
        Purpose::Spared => {
            message.header.action = RuleAction::Goto;
            let [mark, mask] = mark;
            (SPARED, vec![mark, mask, RuleAttribute::Goto(LANDING)])
        }
        Purpose::Kept(prefix) => (KEPT, vec![towards(&mut message, *prefix), table]),
        Purpose::Questions { is_tcp } => {
            let [protocol, port] = questions(*is_tcp, DOMAIN_PORT);
            (KEPT, vec![protocol, port, table])
        }
        Purpose::Secured(prefix) => (KEPT, secured(&mut message, *prefix, table)),
        Purpose::Local(prefix) => {
            // Default routes, and all wider ones, lead away from here.
            let wider = RuleAttribute::SuppressPrefixLen(u32::from(prefix.length) - 1);
            (LOCAL, vec![towards(&mut message, *prefix), wider, main])
        }
        Purpose::Group(prefix) => (LOCAL, vec![towards(&mut message, *prefix), main]),
        Purpose::CareOf(own) => (LOCAL, vec![from(&mut message, *own), main]),
        Purpose::Visitor { home, link } => {
            let end = from(&mut message, *home);
            (KEPT, vec![end, next, through(link)])
        }
        Purpose::Arrived { link } => (TUNNEL, vec![table, through(link)]),
        Purpose::Returned {
            agent,
            is_source,
            link,
        } => {
            let end = end(&mut message, *agent, *is_source);
            (KEPT, vec![end, next, through(link)])
        }
        Purpose::Tunnel | Purpose::Mobile => {
            message.header.flags = RuleFlags::Invert;
            let [mark, mask] = mark;
            let is_mobile = rule.purpose == Purpose::Mobile;
            let priority = if is_mobile { MOBILE } else { TUNNEL };
            (priority, vec![mark, mask, table])
        }
        Purpose::Landing => {
            message.header.action = RuleAction::Nop;
            (LANDING, Vec::new())
        }
        Purpose::Unregistered(home) => {
            message.header.action = RuleAction::Unreachable;
            (UNREGISTERED, vec![from(&mut message, *home)])
        }
    };
    message.attributes = vec![RuleAttribute::Priority(priority)];
    message.attributes.extend(more);
    message
}

/// Whether a rule of the kernel has a priority of ours.
pub(super) fn has_our_priority(found: &RuleMessage) -> bool {
    priority(found).is_some_and(|it| (BY_AGENT..=UNREGISTERED).contains(&it))
}

/// Rules of lower numbers come first.
pub(super) fn priority(rule: &RuleMessage) -> Option<u32> {
    let mut all = rule.attributes.iter();
    all.find_map(|it| match it {
        RuleAttribute::Priority(number) => Some(*number),
        _ => None,
    })
}

/// Whether a rule of the kernel is this one. The kernel names more attributes than we do.
pub(super) fn is_of(found: &RuleMessage, rule: &Rule) -> bool {
    let own = rule_message(rule);
    let ends = |it: &RuleMessage| (it.header.family, it.header.src_len, it.header.dst_len);
    let mut attributes = own.attributes.iter();
    ends(found) == ends(&own)
        && found.header.action == own.header.action
        && attributes.all(|it| found.attributes.contains(it))
}

/// DNS by TCP or UDP, to this port.
fn questions(is_tcp: bool, port: u16) -> [RuleAttribute; 2] {
    let protocol = match is_tcp {
        true => IpProtocol::Tcp,
        false => IpProtocol::Udp,
    };
    let port = RulePortRange {
        start: port,
        end: port,
    };
    [
        RuleAttribute::IpProtocol(protocol),
        RuleAttribute::DestinationPortRange(port),
    ]
}

/// DNS over TLS to a host, by this table.
fn secured(message: &mut RuleMessage, host: Prefix, table: RuleAttribute) -> Vec<RuleAttribute> {
    let [protocol, port] = questions(true, SECURED_PORT);
    vec![towards(message, host), protocol, port, table]
}

fn towards(message: &mut RuleMessage, prefix: Prefix) -> RuleAttribute {
    message.header.dst_len = prefix.length;
    RuleAttribute::Destination(prefix.address)
}

/// Packets that come from an interface. The kernel keeps its name when it is gone.
fn through(link: &str) -> RuleAttribute {
    RuleAttribute::Iifname(link.to_owned())
}

/// Packets from this address, or to it.
fn end(message: &mut RuleMessage, address: Ipv4Addr, is_source: bool) -> RuleAttribute {
    match is_source {
        true => from(message, address),
        false => towards(message, Prefix::host(address.into())),
    }
}

fn from(message: &mut RuleMessage, address: Ipv4Addr) -> RuleAttribute {
    message.header.src_len = 32;
    RuleAttribute::Source(address.into())
}

/// Error numbers that mean that nothing needs to be done.
mod libc_errno {
    use nix::libc;

    pub(super) const EXIST: i32 = libc::EEXIST;
    /// For an address or a route of IPv6. A missing right is EPERM.
    pub(super) const SWITCHED_OFF: i32 = libc::EACCES;
    /// For example a source that is not our address.
    pub(super) const INVALID: i32 = libc::EINVAL;
    /// No such route, rule, address or device; or no IPv6 in this kernel.
    pub(super) const GONE: [i32; 5] = [
        libc::ESRCH,
        libc::ENOENT,
        libc::EADDRNOTAVAIL,
        libc::ENODEV,
        libc::EAFNOSUPPORT,
    ];
}

/// Says it if an address or route is refused because this host has no IPv6.
fn naming_ipv6_off<T>(address: IpAddr, done: Result<T, RouteError>) -> Result<T, RouteError> {
    match done {
        Err(RouteError::Netlink { what, why })
            if address.is_ipv6() && why.raw_os_error() == Some(libc_errno::SWITCHED_OFF) =>
        {
            Err(RouteError::Ipv6Off(what))
        }
        done => done,
    }
}

/// The answer, or `None` if the kernel's error is in `harmless`.
fn check<T>(
    result: Result<T, rtnetlink::Error>,
    what: impl Fn() -> String,
    harmless: &[i32],
) -> Result<Option<T>, RouteError> {
    let why = match result {
        Ok(value) => return Ok(Some(value)),
        Err(rtnetlink::Error::NetlinkError(message)) => message.to_io(),
        Err(other) => io::Error::other(other.to_string()),
    };
    match why.raw_os_error() {
        Some(number) if harmless.contains(&number) => Ok(None),
        _ => Err(RouteError::Netlink { what: what(), why }),
    }
}

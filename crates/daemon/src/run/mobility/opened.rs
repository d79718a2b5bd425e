//! The links and sockets of a part in Mobile IPv4.

use anyhow::Context;
use nix::errno::Errno;
use tracing::warn;

use super::keepalive::Echoes;
use crate::config::Mobility;
use crate::ether::Link;

/// What is opened with the rights of the start.
pub(in crate::run) struct Opened {
    pub(super) links: Vec<Link>,
    /// For keepalives of a mobile node or a foreign agent.
    pub(super) echoes: Option<Echoes>,
}

impl Opened {
    /// Needs CAP_NET_RAW if there is a part.
    pub(in crate::run) fn open(mobility: Option<&Mobility>, tun: &str) -> anyhow::Result<Self> {
        let names = mobility.map(Mobility::interfaces).unwrap_or_default();
        let hears_broadcasts = mobility.is_some_and(Mobility::hears_broadcasts);
        let waits = matches!(mobility, Some(Mobility::MobileNode(_)));
        let open = |name: &String| {
            let link = Link::open(name, hears_broadcasts);
            let link = link.and_then(|link| match link.index() {
                None if !waits => Err(Errno::ENODEV.into()),
                None => {
                    warn!("there is no interface {name} yet: it is used when it comes");
                    Ok(link)
                }
                Some(_) => Ok(link),
            });
            link.with_context(|| {
                format!("cannot listen on the interface {name}, as Mobile IPv4 must")
            })
        };
        let echoes = match mobility {
            Some(Mobility::MobileNode(_) | Mobility::ForeignAgent(_)) => Echoes::open(tun)
                .map_err(|error| warn!("no keepalives through a NAT: {error}"))
                .ok(),
            _ => None,
        };
        Ok(Self {
            links: names.iter().map(open).collect::<anyhow::Result<_>>()?,
            echoes,
        })
    }
}

//! Tunnels in UDP of co-located nodes behind a foreign agent (RFC 3519 §4.6, §4.11). Their
//! requests come from the agent, so the port of their own NAT entry is not known: the tunnel is
//! half bound. The node's first keepalive after each request completes it.
//!
//! Nothing proves who sent a keepalive. It must come from the address that the request came from,
//! or from the care-of address in it, so a forged one chooses no more than a port.

use std::net::{IpAddr, Ipv4Addr};

use wire::ip::{Flow, gre, icmp, protocol};
use wire::mip4::TunnelHeader;

use super::check::Refusal;
use super::register::Denied;
use super::{Change, Datagram, HomeAgent, Output};
use crate::sa::Encapsulation;

impl HomeAgent {
    /// A packet in UDP from an end that no tunnel has. `at` is where it starts in the datagram.
    pub(super) fn hear_keepalive(
        &mut self,
        header: TunnelHeader,
        at: usize,
        it: Datagram<'_>,
    ) -> Result<(), Denied> {
        let ours = self.config.address;
        let form = Encapsulation::of(header.next_header);
        let asks = form.and_then(|form| Some((form, asker(form, it.payload.get(at..)?, ours)?)));
        let denied = |home_address| Denied {
            home_address,
            why: Refusal::UnexpectedKeepalive,
        };
        let (form, home_address) = asks.ok_or_else(|| denied(None))?;
        let node = self.nodes.get_mut(&home_address);
        let node = node.ok_or_else(|| denied(None))?;
        let from = *it.from.ip();
        let is_completed = *it.to.ip() == ours
            && node.bindings.complete(it.from, |tunnel| {
                let source = tunnel.udp.map(|udp| *udp.ip());
                tunnel.encapsulation == form && (source == Some(from) || tunnel.care_of == from)
            });
        if !is_completed {
            return Err(denied(Some(home_address)));
        }
        let tunnels = node.bindings.tunnels();
        self.put(Output::Tunnels {
            home_address,
            tunnels,
            why: Change::Completed,
        });
        Ok(())
    }
}

/// The source of an ICMP echo request to us in a tunnel.
fn asker(form: Encapsulation, packet: &[u8], ours: Ipv4Addr) -> Option<Ipv4Addr> {
    let start = match form {
        Encapsulation::IpInIp => 0,
        Encapsulation::Gre => gre::check(packet).ok()?,
        Encapsulation::Minimal => return None,
    };
    let packet = packet.get(start..)?;
    let flow = Flow::of(packet).ok()?;
    let message = packet.get(flow.transport..flow.total_len)?;
    let asks = flow.protocol == protocol::ICMP && message.first() == Some(&icmp::V4_ECHO_REQUEST);
    let is_ours = flow.destination == IpAddr::V4(ours) && !flow.is_fragment;
    match flow.source {
        IpAddr::V4(source) if asks && is_ours => Some(source),
        _ => None,
    }
}

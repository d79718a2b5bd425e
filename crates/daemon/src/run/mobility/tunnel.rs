//! The tunnel to a mobile node's VPN gateway, between the part in Mobile IPv4 and the node of IKE.

use std::net::IpAddr;

use engine::node::{Command, ConnectionState, Input as NodeInput, Ways};
use engine::sa::Path;

use super::{Input, Machine, MobilePart};
use crate::config::Mobility;
use crate::run::Process;

impl Process {
    /// What the node of IKE is told about the tunnel to a mobile node's VPN gateway. The user's
    /// word counts more.
    pub(super) fn tunnel_command(&self, is_wanted: bool) -> Option<Command> {
        let name = self.mobility.as_ref()?.connection()?.to_owned();
        let is_downed = self.downed.contains(&name);
        match is_wanted {
            true => (!is_downed).then_some(Command::Up(name)),
            false => Some(Command::Down(name)),
        }
    }

    /// From the address that a home agent outside keeps, a tunnel always leads to the VPN gateway.
    pub(in crate::run) fn lead_outside(&self, ways: &mut Ways) {
        let Some(Mobility::MobileNode(node)) = &self.loaded.mobility else {
            return;
        };
        if let (Some(gateway), Some(outside)) = (&node.gateway, node.outside()) {
            let own = IpAddr::V4(outside.home_address);
            let each = gateway.addresses.iter();
            ways.0.extend(each.map(|it| ((*it).into(), vec![own])));
        }
    }

    /// Sends a message to the VPN gateway through the tunnel of a home agent outside. Whether it is
    /// one for there.
    pub(in crate::run) fn send_outside(&mut self, path: &Path, payload: &[u8]) -> bool {
        let part = self.mobility.as_mut();
        let packet = part.and_then(|part| part.outside_packet(path, payload));
        let Some(packet) = packet else {
            return false;
        };
        // Without the thread of the plane the process ends, and says so.
        let _ = self.planes.send_packet(packet);
        true
    }

    /// Tells the node of IKE what the part wants of it.
    pub(in crate::run) async fn obey_part(&mut self) -> anyhow::Result<()> {
        for command in core::mem::take(&mut self.owed) {
            self.input(NodeInput::Command(command)).await?;
        }
        Ok(())
    }

    /// The tunnel to a mobile node's VPN gateway may have come or gone.
    pub(in crate::run) fn tell_tunnel(&mut self) -> anyhow::Result<()> {
        let Some(name) = self.mobility.as_ref().and_then(MobilePart::connection) else {
            return Ok(());
        };
        let status = self.node.status(self.clock.now());
        let found = status.connections.iter().find(|it| it.name == name);
        let is_up = found.is_some_and(|it| it.state == ConnectionState::Established);
        let sessions = found.into_iter().flat_map(|it| &it.sessions);
        let is_natted = sessions.map(|it| it.nat).any(|(own, peer)| own || peer);
        let inner = self.host.inner(name).filter(|_| is_up);
        self.mobile_input(&Input::Tunnel(inner, is_natted))
    }
}

impl MobilePart {
    /// As [`super::mobile_node::MobileNodePart::outside_packet`]; other parts send none.
    fn outside_packet(&mut self, path: &Path, payload: &[u8]) -> Option<Vec<u8>> {
        match &mut self.machine {
            Machine::MobileNode(it) => it.outside_packet(path, payload),
            Machine::HomeAgent(_) | Machine::ForeignAgent(_) | Machine::Firewall(_) => None,
        }
    }
}

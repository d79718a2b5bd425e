//! The tunnel to a mobile node's VPN gateway, between the part in Mobile IPv4 and the node of IKE.

use engine::node::{Command, ConnectionState, Input as NodeInput};

use super::{Input, MobilePart};
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
        let mut all = status.connections.iter();
        let is_up = all.any(|it| it.name == name && it.state == ConnectionState::Established);
        let inner = self.host.inner(name).filter(|_| is_up);
        self.mobile_input(&Input::Tunnel(inner))
    }
}

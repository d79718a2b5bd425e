//! How long stations took until their data could go: the access to the radio, the registration
//! where they are, the tunnel, and TLS, part by part.

use engine::time::Instant;
use serde::Serialize;

use super::{Transferred, World, seconds};
use crate::kernel::dialogue::Progress;
use crate::kernel::host::Mobile;
use crate::kernel::{Element, Host};

/// How long a station takes until its data can go, in seconds; a part that it lacks is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// From the beginning until the first question of the access point has come.
    pub eap_start_s: Option<f64>,
    /// From there to the last message of the access.
    pub eap_s: Option<f64>,
    /// From the open radio until the registration is asked for: the node has to find an agent.
    pub discovery_s: Option<f64>,
    /// From the first registration request to the granted one's answer.
    pub registration_s: Option<f64>,
    /// From the first message of the tunnel's exchange to its last.
    pub tunnel_s: Option<f64>,
    /// From the first flight of TLS to the station's last, in its first flow that has it.
    pub transport_s: Option<f64>,
    /// All of them.
    pub all_s: Option<f64>,
}

/// A station's way onto its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Admitted {
    /// Name of the station.
    pub station: String,
    /// Whether all parts came to their end.
    pub is_complete: bool,
    /// How long it took.
    #[serde(flatten)]
    pub parts: Parts,
    /// Frames of the access, of both ends.
    pub frames: u64,
    /// Their octets, without what the link adds.
    pub frame_bytes: u64,
    /// Packets of RADIUS.
    pub packets: u64,
    /// Their octets, as IP packets.
    pub packet_bytes: u64,
}

impl World {
    /// Every station whose way is measured, by index, as its last arrival was.
    pub(super) fn admitted(&self) -> Vec<(usize, Admitted)> {
        let stations = 0..self.blueprint.nodes.len();
        let measured = stations.filter(|station| self.blueprint.is_measured(*station));
        let all = measured.filter_map(|station| {
            let host = self.host(self.number(station))?;
            Some((station, self.admission(station, host)))
        });
        all.collect()
    }

    /// The same with TLS of the flows.
    pub(super) fn with_transport(
        &self,
        admitted: Vec<(usize, Admitted)>,
        flows: &[Option<Transferred>],
    ) -> Vec<Admitted> {
        let all = admitted.into_iter().map(|(station, mut found)| {
            self.add_transport(station, flows, &mut found);
            found
        });
        all.collect()
    }

    fn admission(&self, station: usize, host: &Host) -> Admitted {
        let mut found = Admitted {
            station: self.blueprint.nodes[station].name.clone(),
            is_complete: is_on(host),
            ..Admitted::default()
        };
        let entrance = &host.entrance;
        let parts = &mut found.parts;
        let mut ends: Vec<Instant> = entrance.opened.into_iter().collect();
        let mut began = entrance.opened;
        if let Some(own) = entrance.supplicant.as_ref().map(|it| &it.progress) {
            began = own.began;
            parts.eap_start_s = span(own.began, own.asked);
            parts.eap_s = span(own.asked, own.ended);
            let other = self.other_end(station);
            for end in [Some(own), other].into_iter().flatten() {
                found.frames += end.frames;
                found.frame_bytes += end.frame_bytes;
                found.packets += end.packets;
                found.packet_bytes += end.packet_bytes;
            }
        }
        let mobile = entrance.roaming.as_deref().or(host.part.mobile());
        if let Some(log) = mobile.map(|it| &it.log) {
            let granted = entrance.found;
            parts.discovery_s = span(entrance.opened, log.asked);
            parts.registration_s = span(log.asked, granted);
            ends.extend(granted);
        }
        if let Some(control) = host.part.control() {
            let messages = &control.log.messages;
            // The last message leaves when the work of its job is done.
            let is_last = |at: Instant| {
                let mut after = messages.iter().filter(|it| it.is_sent && it.at >= at);
                after.next().map_or(at, |it| it.at)
            };
            let last = control.log.established.map(is_last);
            parts.tunnel_s = span(messages.first().map(|it| it.at), last);
            ends.extend(last);
        }
        parts.all_s = span(began, ends.into_iter().max());
        found
    }

    /// TLS of a station's first flow that has it: connections begin when its ways are open.
    fn add_transport(&self, station: usize, flows: &[Option<Transferred>], found: &mut Admitted) {
        let mut own = self.blueprint.secured(station);
        let Some((flow, _)) = own.next() else { return };
        let transferred = flows.get(flow).copied().flatten();
        let times = transferred.and_then(|it| it.secured_s.zip(it.connected_s));
        let parts = &mut found.parts;
        parts.transport_s = times.map(|(secured_s, connected_s)| secured_s - connected_s);
        parts.all_s = parts
            .all_s
            .map(|all| all + parts.transport_s.unwrap_or_default());
        found.is_complete &= parts.transport_s.is_some();
    }

    /// What the access point did for a station.
    fn other_end(&self, station: usize) -> Option<&Progress> {
        let points = self.kernel.elements();
        let mut found = points.filter_map(|(_, _, element)| match element {
            Element::AccessPoint(point) => point.progress(station as u32),
            _ => None,
        });
        found.next()
    }
}

/// Whether a station's data can go.
pub(super) fn is_on(host: &Host) -> bool {
    let entrance = &host.entrance;
    if entrance.is_in() && host.is_inside() {
        return true;
    }
    let mobile = entrance.roaming.as_deref().or(host.part.mobile());
    let is_found = mobile.is_none_or(Mobile::is_reachable);
    let control = host.part.control();
    let has_tunnel = control.is_none_or(|it| it.log.established.is_some());
    entrance.is_in() && is_found && has_tunnel
}

fn span(from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
    let (from, to) = (from?, to?);
    (to >= from).then(|| seconds(from, to))
}

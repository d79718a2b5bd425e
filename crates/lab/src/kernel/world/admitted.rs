//! How long stations took until their data could go: the access to the radio, the registration
//! where they are, and the tunnel, part by part.

use engine::time::Instant;
use serde::Serialize;

use super::{World, seconds};
use crate::kernel::dialogue::Progress;
use crate::kernel::host::Mobile;
use crate::kernel::{Element, Host};

/// A station's way onto its link. Times are in seconds; none of a part that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Admitted {
    /// Name of the station.
    pub station: String,
    /// Whether all parts came to their end.
    pub is_complete: bool,
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
    /// From the beginning to the end of the last part.
    pub all_s: Option<f64>,
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
    /// Every station whose way is measured.
    pub(super) fn admitted(&self) -> Vec<Admitted> {
        let stations = 0..self.blueprint.nodes.len();
        let measured = stations.filter(|station| self.blueprint.is_measured(*station));
        let all = measured.filter_map(|station| {
            let host = self.host(self.number(station))?;
            Some(self.admission(station, host))
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
        let mut ends: Vec<Instant> = entrance.opened.into_iter().collect();
        let mut began = entrance.opened;
        if let Some(own) = entrance.supplicant.as_ref().map(|it| &it.progress) {
            began = own.began;
            found.eap_start_s = span(own.began, own.asked);
            found.eap_s = span(own.asked, own.ended);
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
            found.discovery_s = span(entrance.opened, log.asked);
            found.registration_s = span(log.asked, granted);
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
            found.tunnel_s = span(messages.first().map(|it| it.at), last);
            ends.extend(last);
        }
        found.all_s = span(began, ends.into_iter().max());
        found
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

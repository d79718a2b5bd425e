//! One flow between two hosts in closed form.

use lab::cost::{Cut, Device, Hosts, Policy, Profile, Wire};
use serde::Deserialize;

use crate::answers::write;
use crate::refused::Refused;
use crate::request::{TextRequest, read};

/// Two hosts, and what one of them sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsRequest {
    policy: Option<TextRequest>,
    device: Option<TextRequest>,
    wire: Wire,
    cuts: Cut,
    flow: Flow,
    /// The rate for the processor's share.
    offered_mbit_s: Option<f64>,
}

/// What is sent.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flow {
    /// An IP packet of so many octets.
    Packet(u32),
    /// A datagram with so many octets of data.
    Datagram(u32),
    /// A full segment of TCP, and its share of an acknowledgement.
    Segment,
}

/// What it becomes on the wire, and what it costs.
pub(crate) fn of(request: &str) -> Result<String, Refused> {
    let request: HostsRequest = read(request)?;
    let policy = request.policy.as_ref();
    let policy = policy
        .map(|it| Policy::parse(&it.file, &it.text))
        .transpose()?;
    let device = match &request.device {
        Some(device) => {
            let profile = Profile::parse(&device.file, &device.text)?;
            Some(Device::new(profile, None)?)
        }
        None => None,
    };
    let hosts = Hosts::new(policy.as_ref(), device.as_ref(), request.wire, request.cuts)?;
    let offered = request.offered_mbit_s;
    match request.flow {
        Flow::Packet(bytes) => write(&hosts.packet(bytes)?),
        Flow::Datagram(data) => write(&hosts.datagram(data, offered)?),
        Flow::Segment => write(&hosts.segment(offered)?),
    }
}

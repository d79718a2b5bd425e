//! What an exchange of messages takes over a link.

use lab::cost::{Accounting, Clock, Device, Policy, Profile};
use lab::exchange::{Exchange, Taken, Way};
use lab::scenario::LinkFile;
use lab::staircase::Staircase;
use serde::Deserialize;

use crate::answers::write;
use crate::refused::Refused;
use crate::request::read;

/// An exchange, and the link, policy and device that its messages meet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExchangeRequest {
    file: String,
    text: String,
    link: TextRequest,
    policy: Option<TextRequest>,
    device: Option<TextRequest>,
    clock_mhz: Option<f64>,
    detection_s: f64,
    data_bytes: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextRequest {
    name: String,
    file: String,
    text: String,
}

/// Rounds, messages, and as far as all messages have a size, bytes and seconds.
pub(crate) fn of(request: &str) -> Result<String, Refused> {
    let request: ExchangeRequest = read(request)?;
    let exchange = Exchange::parse(&request.file, &request.text)?;
    let TextRequest { name, file, text } = &request.link;
    let link = LinkFile::parse(name, file, text)?.link;
    let size = match &request.policy {
        Some(policy) => {
            let policy = Policy::parse(&policy.file, &policy.text)?;
            Accounting::Rfc
                .size(&policy)
                .unwrap_or_else(|_no_formula| Staircase::linear(1.0))
        }
        None => Staircase::linear(1.0),
    };
    let device = match &request.device {
        Some(device) => {
            let profile = Profile::parse(&device.file, &device.text)?;
            let clock = request.clock_mhz.map(Clock::MegaHertz);
            Some(Device::new(profile, clock)?)
        }
        None => None,
    };
    let taken: Taken = exchange
        .over(&Way {
            link: &link,
            size,
            device: device.as_ref(),
            detection_s: request.detection_s,
            data_bytes: request.data_bytes,
        })
        .map_err(lab::cost::Refusal::from)?;
    write(&taken)
}

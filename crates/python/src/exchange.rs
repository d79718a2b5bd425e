//! What an exchange of messages takes over a link.

use lab::cost::{Accounting, Clock, Device, Policy, Profile};
use lab::exchange::{Exchange, Taken, Way};
use lab::scenario::LinkFile;
use lab::staircase::Staircase;
use serde::Deserialize;

use crate::answers::write;
use crate::refused::Refused;
use crate::request::{TextRequest, read};

/// An exchange, and the link, policy and device that its messages meet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExchangeRequest {
    file: String,
    text: String,
    /// Further exchanges, one after the other.
    #[serde(default)]
    more: Vec<TextRequest>,
    link: TextRequest,
    /// The links behind an access point to its server.
    #[serde(default)]
    behind: Vec<TextRequest>,
    policy: Option<TextRequest>,
    device: Option<TextRequest>,
    clock_mhz: Option<f64>,
    detection_s: f64,
    data_bytes: u32,
}

/// Rounds, messages, and as far as all messages have a size, bytes and seconds.
pub(crate) fn of(request: &str) -> Result<String, Refused> {
    let request: ExchangeRequest = read(request)?;
    let mut exchange = Exchange::parse(&request.file, &request.text)?;
    for other in &request.more {
        exchange = exchange.then(Exchange::parse(&other.file, &other.text)?);
    }
    let read = |TextRequest { name, file, text }: &TextRequest| {
        LinkFile::parse(name, file, text).map(|file| file.link)
    };
    let link = read(&request.link)?;
    let behind: Result<Vec<_>, _> = request.behind.iter().map(read).collect();
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
            behind: &behind?,
            peer: None,
            size,
            device: device.as_ref(),
            detection_s: request.detection_s,
            data_bytes: request.data_bytes,
        })
        .map_err(lab::cost::Refusal::from)?;
    write(&taken)
}

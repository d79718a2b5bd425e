//! CPU time of one responder per handshake: an inner address and SAs in the planes included.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use crypto::cert::{Certificate, TrustStore};
use crypto::sign::PrivateKey;
use engine::sa::Secret;
use engine::time::{Calendar, Instant};
use serde_json::{Value, json};

use crate::pair::{Credentials, Gateway, Station, Terms};

/// Handshakes before the first that counts.
const WARM_UP: usize = 3;

pub(crate) fn measure(
    count: usize,
    terms: &Terms<'_>,
    keys: Option<&Path>,
) -> anyhow::Result<Value> {
    let mut now = Instant(1);
    let calendar = calendar()?;
    let mut gateway = Gateway::new(terms, &credentials(keys, "sg.example")?)?;
    gateway.set_calendar(calendar, now)?;
    let own = credentials(keys, "ms.example")?;
    let mut spent_ms = Vec::new();
    for number in 0..WARM_UP + count {
        let number = u32::try_from(number)?;
        let mut station = Station::new(number, "ms.example", terms, &own)?;
        let mut before = gateway.cpu;
        station.connect(&mut gateway, calendar, now)?;
        if terms.has_tickets {
            now = station.lose()?;
            before = gateway.cpu;
            station.connect(&mut gateway, calendar, now)?;
        }
        spent_ms.push(milliseconds(gateway.cpu - before));
        station.leave(&mut gateway, now)?;
    }
    let mut counted = spent_ms.split_off(WARM_UP);
    counted.sort_by(f64::total_cmp);
    Ok(json!({
        "count": counted.len(),
        "proposal": terms.proposal,
        "esp_proposal": terms.esp_proposal,
        "resumed": terms.has_tickets,
        "authentication": if keys.is_some() { "rsa" } else { "psk" },
        "responder_ms_median": counted[counted.len() / 2],
        "responder_ms_min": counted[0],
        "responder_ms_max": counted[counted.len() - 1],
        "responder_ms_mean": counted.iter().sum::<f64>() / counted.len() as f64,
    }))
}

fn credentials(keys: Option<&Path>, name: &str) -> anyhow::Result<Credentials> {
    let Some(folder) = keys else {
        return Ok(Credentials::Shared(Arc::new(Secret(b"load".to_vec()))));
    };
    Ok(Credentials::Certified {
        key: Arc::new(PrivateKey::from_pem(&read(
            folder,
            &format!("{name}.key"),
        )?)?),
        chain: Certificate::all_from_pem(&read(folder, &format!("{name}.pem"))?)?,
        trusted: trusted(folder)?,
    })
}

/// The authority whose certificates both ends accept.
pub(crate) fn trusted(folder: &Path) -> anyhow::Result<Arc<TrustStore>> {
    Ok(Arc::new(TrustStore {
        authorities: Certificate::all_from_pem(&read(folder, "ca.pem")?)?,
        ..TrustStore::default()
    }))
}

pub(crate) fn read(folder: &Path, file: &str) -> anyhow::Result<String> {
    let path = folder.join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

pub(crate) fn calendar() -> anyhow::Result<Calendar> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Calendar(i64::try_from(since.as_secs())?))
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

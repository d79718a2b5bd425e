//! Resident memory of a gateway with many idle tunnels: one ISAKMP SA and one ESP pair each, which
//! has carried a packet each way and rests since.
//!
//! Clients are created and dropped one after another, so that only the gateway's memory stays. They
//! use a fast group and a pre-shared key, which take less time and leave nothing in memory.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use engine::config::Version;
use engine::sa::Secret;
use engine::time::{Calendar, Instant};
use serde_json::{Value, json};

use crate::pair::{Credentials, Gateway, Station, Terms};

/// Tunnels before the first that counts. They allocate the program's own pages and tables.
const WARM_UP: u32 = 100;
/// How long the tunnels idle before memory is read: a handshake keeps some memory for a while, and
/// the answer to the last request is forgotten after three minutes.
const REST: Duration = Duration::from_secs(200);
/// Tunnels that come up in a minute, after which a gateway lets keys rest that it does not use.
const EACH_MINUTE: u32 = 1_000;
const IKEV1: Terms<'static> = Terms {
    version: Version::V1,
    proposal: "aes128-sha1-modp768",
    esp_proposal: "aes128gcm16",
    has_tickets: false,
};
const IKEV2: Terms<'static> = Terms {
    version: Version::V2,
    proposal: "aes256gcm16-prfsha384-curve25519",
    esp_proposal: "aes128gcm16-esn",
    has_tickets: false,
};

pub(crate) fn measure(count: u32, version: Version) -> anyhow::Result<Value> {
    let terms = if version.has_v2() { &IKEV2 } else { &IKEV1 };
    let credentials = Credentials::Shared(Arc::new(Secret(b"load".to_vec())));
    let mut gateway = Gateway::new(terms, &credentials)?;
    add(&mut gateway, terms, &credentials, 0..WARM_UP)?;
    let before = resident_bytes()?;
    add(&mut gateway, terms, &credentials, WARM_UP..WARM_UP + count)?;
    let busy = resident_bytes()?;
    gateway.wake(Instant(1) + REST)?;
    (0..2).for_each(|_| gateway.rest());
    let after = resident_bytes()?;
    let held = gateway.established();
    let made = usize::try_from(WARM_UP + count)?;
    ensure!(held == made, "{held} tunnels are left of {made}");
    Ok(json!({
        "tunnels": count,
        "resident_bytes_before": before,
        "resident_bytes_when_made": busy,
        "resident_bytes_after": after,
        "bytes_per_tunnel": after.saturating_sub(before) as f64 / f64::from(count),
    }))
}

fn add(
    gateway: &mut Gateway,
    terms: &Terms<'_>,
    credentials: &Credentials,
    numbers: std::ops::Range<u32>,
) -> anyhow::Result<()> {
    let now = Instant(1);
    for number in numbers {
        let identity = format!("ms{number}.example");
        let mut station = Station::new(number, &identity, terms, credentials)?;
        station
            .connect(gateway, Calendar::default(), now)
            .and_then(|()| station.exchange(gateway, now))
            .with_context(|| format!("tunnel {number}"))?;
        if number % EACH_MINUTE == 0 {
            gateway.rest();
        }
    }
    Ok(())
}

/// `VmRSS` of this process.
fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kibibytes
        .context("no VmRSS in /proc/self/status")?
        .trim()
        .parse::<u64>()?
        * 1024)
}

//! How long a certificate is valid: not longer than its authority, whose end ends it anyhow
//! (RFC 5280 §6.1.3).

use std::num::IntErrorKind;

use anyhow::{Context, bail};
use crypto::cert::{Authority, Certificate};

const DAY_S: i64 = 86_400;

/// A number of days on the command line.
pub(super) fn days(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(days) => Ok(days),
        Err(fault) if *fault.kind() == IntErrorKind::PosOverflow => {
            Err(format!("must be at most {}", u32::MAX))
        }
        Err(_) => Err("not a number of days, such as 730".to_owned()),
    }
}

/// A line for each certificate of a PEM file that is not valid at this time.
pub(super) fn warnings(pem: &str, now: i64) -> String {
    let all = Certificate::all_from_pem(pem).unwrap_or_default();
    let faults = all.iter().filter_map(|it| it.check_in_force(now).err());
    faults.map(|fault| format!("warning: {fault}\n")).collect()
}

/// The days of a certificate.
pub(super) struct Validity {
    pub(super) days: u32,
    /// A line that says so, if these are fewer than were asked for.
    pub(super) told: String,
}

impl Validity {
    /// As many days as were asked for, and no more than the authority has left.
    pub(super) fn within(authority: &Authority, asked: u32, now: i64) -> anyhow::Result<Self> {
        let own = Certificate::from_der(&authority.certificate_der()?).context("ca.pem")?;
        if let Err(fault) = own.check_in_force(now) {
            bail!("nobody accepts what this authority issues: {fault}");
        }
        let left = (own.not_after() - now) / DAY_S;
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        if left >= asked {
            let told = String::new();
            return Ok(Self { days: asked, told });
        }
        if left == 0 {
            bail!("the authority ends in less than a day: `caravan pki ca` makes another one");
        }
        let told = format!(
            "the certificate is valid for {left} days instead of {asked}: its authority ends then\n"
        );
        Ok(Self { days: left, told })
    }

    /// When it ends, in seconds since 1970.
    pub(super) fn end(&self, now: i64) -> i64 {
        now + i64::from(self.days) * DAY_S
    }
}

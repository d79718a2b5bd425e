//! Values of options and changes, with their units.

use std::time::Duration;

use engine::link::{Limit, RATE_BPS_MAX};

use crate::config::values::{Size, Span};

/// Bits per second, such as 2mbit.
pub(super) fn parse_rate(text: &str) -> Result<u64, String> {
    let wanted = || format!("{text} is not a rate such as 64kbit, 2mbit or 1.5gbit");
    let too_high = || format!("{text} is too high, limit {RATE_BPS_MAX}bit");
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let unit = |(name, factor): (&str, f64)| text.strip_suffix(name).map(|number| (number, factor));
    let (number, factor) = units.into_iter().find_map(unit).ok_or_else(wanted)?;
    let rate = number.parse::<f64>().map_err(|_| wanted())? * factor;
    match rate {
        1.0.. if rate <= RATE_BPS_MAX as f64 => Ok(rate as u64),
        1.0.. => Err(too_high()),
        _ => Err(wanted()),
    }
}

/// A time, such as 50ms or 250us.
pub(super) fn parse_delay(text: &str) -> Result<Duration, String> {
    for (unit, ns) in [("us", 1_000), ("ns", 1)] {
        if let Some(number) = text.strip_suffix(unit) {
            let number = number.parse::<u64>().ok();
            return number
                .and_then(|number| number.checked_mul(ns))
                .map(Duration::from_nanos)
                .ok_or_else(|| format!("{text} is not a delay such as 250{unit}"));
        }
    }
    Span::parse(text).map(|span| span.0)
}

/// A probability.
pub(super) fn parse_loss(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text} is not a probability from 0 to 1"))
}

/// Datagrams, or bytes such as 64kb.
pub(super) fn parse_queue(text: &str) -> Result<Limit, String> {
    if let Ok(datagrams) = text.parse() {
        return Ok(Limit::Packets(datagrams));
    }
    Size::parse(text).map(|size| Limit::Bytes(size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_delays_losses_and_queues_carry_their_unit() {
        assert_eq!(parse_rate("2mbit"), Ok(2_000_000));
        assert_eq!(parse_rate("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(parse_rate("9600bit"), Ok(9600));
        assert_eq!(parse_delay("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse_delay("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_delay("400ns"), Ok(Duration::from_nanos(400)));
        for bad in ["-1ns", "0.5us", "us"] {
            assert!(parse_delay(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_queue("100"), Ok(Limit::Packets(100)));
        assert_eq!(parse_queue("64kb"), Ok(Limit::Bytes(64_000)));
        assert_eq!(parse_loss("0.01"), Ok(0.01));
        assert_eq!(parse_rate("1000000gbit"), Ok(RATE_BPS_MAX));
        let too_high = "1000001gbit is too high, limit 1000000000000000bit";
        assert_eq!(parse_rate("1000001gbit"), Err(too_high.to_owned()));
        for bad in ["", "2", "mbit", "0mbit", "-1mbit", "nanmbit"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        assert!(parse_loss("1.1").is_err());
        assert!(parse_queue("kb").is_err());
    }
}

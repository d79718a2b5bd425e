//! Numbers with units: "512 kbit/s", "81.5 B", "20 ms", "80 MHz".
//!
//! k, M, G are decimal; Ki, Mi, Gi binary, for bytes only. A number without a unit is an error.

const RATES: [(&str, f64); 4] = [
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
];
const SIZES: [(&str, f64); 7] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const TIMES: [(&str, f64); 6] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];
const CLOCKS: [(&str, f64); 4] = [("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)];

/// No real link, processor or file is larger: a larger number is taken for a typing error.
const ABSURD: f64 = 1e15;
/// The smallest rate: a byte in a quarter of an hour.
const RATE_LEAST: f64 = 0.01;
/// The longest time of a run or a pause.
const TIME_S_MAX: f64 = 3653.0 * 86_400.0;
/// The longest delay, an hour; light passes Jupiter in that time.
const DELAY_S_MAX: f64 = 3600.0;

/// Bits per second, above zero.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = read(text, &RATES, "such as \"512 kbit/s\"").and_then(above_zero)?;
    match rate >= RATE_LEAST {
        true => Ok(rate),
        false => Err(format!("'{text}' is too small, limit {RATE_LEAST} bit/s")),
    }
}

/// Bytes, zero included.
pub(super) fn size(text: &str) -> Result<f64, String> {
    read(text, &SIZES, "such as \"480 B\" or \"64 KB\"")
}

/// Seconds, zero included.
pub(super) fn time(text: &str) -> Result<f64, String> {
    let time_s = read(text, &TIMES, "such as \"20 ms\" or \"5 h\"")?;
    match time_s <= TIME_S_MAX {
        true => Ok(time_s),
        false => Err(format!("'{text}' is too long, limit ten years")),
    }
}

/// Propagation delay of a link in seconds.
pub(super) fn delay(text: &str) -> Result<f64, String> {
    let delay_s = time(text)?;
    match delay_s <= DELAY_S_MAX {
        true => Ok(delay_s),
        false => Err(format!("'{text}' is too long for a link, limit an hour")),
    }
}

/// Cycles per second, above zero.
pub(super) fn clock(text: &str) -> Result<f64, String> {
    read(text, &CLOCKS, "such as \"80 MHz\"").and_then(above_zero)
}

fn above_zero(value: f64) -> Result<f64, String> {
    match value > 0.0 {
        true => Ok(value),
        false => Err("must be above zero".to_owned()),
    }
}

fn read(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| {
            let is_exponent = matches!(c, 'e' | 'E')
                && text[at + 1..]
                    .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
            !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+') || is_exponent)
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = (&text[..end], text[end..].trim());
    let number: f64 = number
        .parse()
        .map_err(|_| format!("must be a number with its unit, {example}"))?;
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        let known = names.join(", ");
        return Err(format!(
            "unknown unit '{unit}', valid are {known}: {example}"
        ));
    };
    let value = number * factor;
    if value < 0.0 {
        Err(format!("'{text}' is negative"))
    } else if value > ABSURD {
        let base = units.iter().find(|(_, factor)| *factor == 1.0);
        let base = base.map_or("", |(name, _)| name);
        Err(format!("'{text}' is too large, limit {ABSURD:e} {base}"))
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_read() {
        assert_eq!(rate("512 kbit/s"), Ok(512_000.0));
        assert_eq!(rate("1e3Mbit/s"), Ok(1e9));
        assert_eq!(rate("1e+3 bit/s"), Ok(1e3));
        assert_eq!(size("81.5 B"), Ok(81.5));
        assert_eq!(size("2 KiB"), Ok(2048.0));
        assert_eq!(time("1.5 h"), Ok(5400.0));
        assert_eq!(time("0 s"), Ok(0.0));
        assert_eq!(clock("80 MHz"), Ok(80e6));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for bad in [
            "",
            "fast",
            "512",
            "512 kb",
            "-1 bit/s",
            "0 bit/s",
            "1e300 bit/s",
            "inf",
        ] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(rate("5 kB/s").unwrap_err().contains("kbit/s"));
        let large = "'1e+30 kbit/s' is too large, limit 1e15 bit/s";
        assert_eq!(rate("1e+30 kbit/s").unwrap_err(), large);
        let small = "'1e-9 kbit/s' is too small, limit 0.01 bit/s";
        assert_eq!(rate("1e-9 kbit/s").unwrap_err(), small);
        assert!(time("1e14 s").unwrap_err().contains("too long"));
        assert!(time("-2 s").unwrap_err().contains("negative"));
    }
}

//! `caravan bench` measures the cost of every suite, key exchange and step of the packet path on
//! this machine. It prints the result, and writes it as the device profile that the lab reads.
//!
//! Suites go through the engine's planes, as packets do. Figures are medians of repeats on one
//! core, wall time; cycles are ns x TSC clock, not counted instructions.

mod exchanges;
mod frames;
mod host_path;
mod stopwatch;
mod suites;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::OffsetDateTime;

use stopwatch::Stopwatch;

/// Options of `caravan bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Repeat less: takes seconds instead of a minute, but is less accurate.
    #[arg(long)]
    pub quick: bool,
    /// Write the device profile to this TOML file.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// Named costs in ns.
pub type Costs = BTreeMap<String, f64>;

/// A device profile: the machine, and its costs in ns.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Which machine and when.
    pub device: Device,
    /// By suite: `seal_ns_64`, `open_ns_1400` and so on. The number is the size of the clear IP
    /// packet.
    pub suite: BTreeMap<String, Costs>,
    /// By cipher of wireless links: `protect_ns_64`, `unprotect_ns_1400` and so on. The number is
    /// the size of the IP packet in the frame.
    pub frame: BTreeMap<String, Costs>,
    /// By group, key or hash: `generate_ns`, `agree_ns`, `sign_ns`, `verify_ns`, `prf_ns`.
    pub exchange: BTreeMap<String, Costs>,
    /// By device: for a single packet, and for a packet of a burst of 64.
    #[serde(rename = "road")]
    pub host_path: BTreeMap<String, Costs>,
    /// Why a part is missing, one sentence each.
    pub missing: Vec<String>,
}

/// Which machine and when.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Host name.
    pub name: String,
    /// From /proc/cpuinfo.
    pub cpu: String,
    /// UTC.
    pub date: String,
    /// Clock of the time-stamp counter, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc_mhz: Option<f64>,
    /// Fewer repeats were made.
    pub is_quick: bool,
}

/// Measures everything and prints it.
pub fn run(args: &Args) -> io::Result<()> {
    // Check that the file can be written before spending a minute. Its old content stays until
    // then.
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let profile = measure(args.quick)?;
    let written = output.map_or(Ok(()), |output| output.write(&profile));
    let text = if args.json {
        let mut text = serde_json::to_string_pretty(&profile).map_err(io::Error::other)?;
        text.push('\n');
        text
    } else {
        profile.table()
    };
    // Print first, so that a failing file does not lose the measurement.
    crate::console::say(&text)?;
    written
}

/// The file of a profile.
struct Output<'a>(&'a Path, File);

impl<'a> Output<'a> {
    fn open(path: &'a Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(Self(path, file.map_err(|error| unwritten(path, &error))?))
    }

    fn write(mut self, profile: &Profile) -> io::Result<()> {
        let text = toml::to_string(profile).map_err(io::Error::other)?;
        let told = |error| unwritten(self.0, &error);
        if self.1.metadata().map_err(told)?.is_file() {
            self.1.set_len(0).map_err(told)?;
        }
        self.1.write_all(text.as_bytes()).map_err(told)
    }
}

fn unwritten(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot write {}: {error}", path.display()),
    )
}

/// Measures everything.
pub fn measure(is_quick: bool) -> io::Result<Profile> {
    let stopwatch = Stopwatch::new(is_quick);
    let mut missing = Vec::new();
    let device = Device {
        name: host(),
        cpu: cpu(),
        date: date(OffsetDateTime::now_utc()),
        tsc_mhz: stopwatch::tsc_mhz(),
        is_quick,
    };
    let suite = suites::measure(&stopwatch);
    let frame = frames::measure(&stopwatch);
    let exchange = exchanges::measure(&stopwatch)?;
    let host_path = host_path::measure(&stopwatch, &mut missing)?;
    Ok(Profile {
        device,
        suite,
        frame,
        exchange,
        host_path,
        missing,
    })
}

impl Profile {
    /// Text for people: one line per cost, in ns and cycles.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let device = &self.device;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}, {}, {}", device.name, device.cpu, device.date);
        if let Some(mhz) = device.tsc_mhz {
            let _ = writeln!(text, "cycles are ns x the TSC clock of {mhz:.1} MHz");
        }
        for (title, part) in [
            ("suite, per packet of this many bytes", &self.suite),
            (
                "frame of a wireless link, per packet of this many bytes",
                &self.frame,
            ),
            ("key exchange, per operation", &self.exchange),
            (
                "packet path, per packet, single or in a burst of 64",
                &self.host_path,
            ),
        ] {
            let _ = writeln!(text, "\n{title}\n{:<42}{:>14}{:>16}", "", "ns", "cycles");
            for (name, costs) in part {
                for (what, ns) in costs {
                    let name = format!("{name} {}", what.replace("_ns", "").replace('_', " "));
                    let cycles = device
                        .tsc_mhz
                        .map(|mhz| format!("{:.0}", ns * mhz / 1000.0));
                    let cycles = cycles.unwrap_or_default();
                    let _ = writeln!(text, "{name:<42}{ns:>14.1}{cycles:>16}");
                }
            }
        }
        for reason in &self.missing {
            let _ = writeln!(text, "\nnot measured: {reason}");
        }
        text
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    let value = model.and_then(|line| line.split_once(':'));
    let named = value.map(|(_, value)| value.trim().to_owned());
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn date(at: OffsetDateTime) -> String {
    let (date, hour, minute) = (at.date(), at.hour(), at.minute());
    format!("{date} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let costs = |name: &str, ns: f64| Costs::from([(name.to_owned(), ns)]);
        let part = |name: &str, costs| BTreeMap::from([(name.to_owned(), costs)]);
        Profile {
            device: Device {
                name: "box".to_owned(),
                cpu: "one".to_owned(),
                date: "2026-01-01 00:00 UTC".to_owned(),
                tsc_mhz: Some(2000.0),
                is_quick: true,
            },
            suite: part("aes128gcm16", costs("seal_ns_64", 100.0)),
            frame: part("ccmp-128", costs("protect_ns_64", 200.0)),
            exchange: part("modp2048", costs("agree_ns", 3e5)),
            host_path: part("tun", costs("read_ns_packet", 500.0)),
            missing: vec!["nothing".to_owned()],
        }
    }

    #[test]
    fn a_file_keeps_what_it_held_until_there_is_a_profile_and_a_fault_names_it() {
        let path = std::env::temp_dir().join(format!("caravan-bench-{}", std::process::id()));
        let former = "former ".repeat(10_000);
        std::fs::write(&path, &former).expect("written");
        let output = Output::open(&path).expect("a file");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), former);
        output.write(&profile()).expect("written");
        let text = std::fs::read_to_string(&path).expect("there");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, toml::to_string(&profile()).expect("TOML"));
        let args = Args {
            json: false,
            quick: true,
            output: Some(path.join("x.toml")),
        };
        let said = run(&args).expect_err("no such folder").to_string();
        assert!(said.contains(&format!("cannot write {}", path.display())));
        let full = Output::open(Path::new("/dev/full")).expect("a device");
        let said = full.write(&profile()).expect_err("full").to_string();
        assert!(said.starts_with("cannot write /dev/full: "), "{said}");
    }

    #[test]
    fn a_profile_is_toml_with_a_table_for_each_thing() {
        let text = toml::to_string(&profile()).expect("TOML");
        let back: toml::Table = text.parse().expect("TOML");
        assert_eq!(
            back["suite"]["aes128gcm16"]["seal_ns_64"].as_float(),
            Some(100.0)
        );
        assert_eq!(
            back["road"]["tun"]["read_ns_packet"].as_float(),
            Some(500.0)
        );
        assert_eq!(back["device"]["tsc_mhz"].as_float(), Some(2000.0));
    }

    #[test]
    fn a_table_names_cycles_and_what_is_missing() {
        let text = profile().table();
        let line = text
            .lines()
            .find(|line| line.starts_with("aes128gcm16 seal 64"));
        let words: Vec<_> = line.expect("a line").split_whitespace().skip(3).collect();
        assert_eq!(words, ["100.0", "200"]);
        assert!(text.contains("not measured: nothing"));
    }
}

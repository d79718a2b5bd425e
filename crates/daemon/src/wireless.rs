//! `caravan wireless`: one end of a wireless link, a station or an access point, between a TAP
//! device that it makes and an interface that is the air.
//!
//! The air carries whole frames of IEEE 802.11 in Ethernet frames of a type for experiments, so
//! that link ciphers and their key agreement run on machines without a radio. Programs of IEEE
//! 802.1X run on the TAP device and bring EAP's key by `--control`. Once everything is open, the
//! process keeps no capability. Left out: the radio, and what `engine::link::wireless` leaves out.

mod air;
mod capture;
mod key_log;
mod lines;
mod machine;
mod orders;
mod report;
mod shim;
mod stopwatch;
mod tap;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use crypto::rand::Seed;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing::warn;
use zeroize::Zeroizing;

use crate::config::wireless::load;
use crate::planes::Clock;
use crate::privileges::{self, Speaker};
use crate::sys;
use air::Air;
use capture::Capture;
use key_log::KeyLog;
use machine::Machine;
use shim::{Records, Shim};
use tap::Tap;

/// Options of `caravan wireless`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The end's file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Record the frames of the air, as they are there, for Wireshark (mode 0600)
    #[arg(long, value_name = "FILE.pcap")]
    capture: Option<PathBuf>,
    /// Record the master keys of handshakes for Wireshark, which then reads the capture (mode 0600)
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
    /// User to run as after the setup; default: caravan, if there is one
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Read orders from standard input, one per line, such as "status" or "session HEX", and answer
    /// each on standard output
    #[arg(long)]
    control: bool,
}

/// Runs until SIGTERM or SIGINT, then prints a report as JSON. Prints "ready" on standard error
/// once frames pass.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = load(&args.config)?;
    let mut ending = SigSet::empty();
    ending.add(Signal::SIGTERM);
    ending.add(Signal::SIGINT);
    ending.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&ending, flags)?;
    privileges::require()?;
    let speaker = Speaker::choose(args.user.as_deref())?;
    let capture = args.capture.as_ref().map(|path| {
        let created = Capture::create(path);
        created.with_context(|| format!("cannot capture to {}", path.display()))
    });
    let capture = capture.transpose()?;
    let key_log = args.key_log.as_ref().map(|path| {
        let created = KeyLog::create(path);
        created.with_context(|| format!("cannot record keys in {}", path.display()))
    });
    let records = Records {
        capture,
        key_log: key_log.transpose()?,
    };
    let air = Air::open(&config.air, config.mtu)?;
    let tap = Tap::open(&config.device, air.own, config.mtu)?;
    let clock = Clock::start();
    let machine = Machine::new(&config, air.own, seed()?, clock.now());
    if let Some(text) = &speaker.warning {
        warn!("{text}");
    }
    for text in config.warnings() {
        warn!("{text}");
    }
    privileges::confine_speaker(&speaker, None)?;
    let mut shim = Shim::new(config, machine, (tap, air), records, clock);
    writeln!(io::stderr(), "ready")?;
    let ended = shim.run(&signals, args.control);
    shim.close();
    shim.say_report()?;
    ended.context("the link has ended")
}

fn seed() -> anyhow::Result<Seed> {
    let mut octets = Zeroizing::new([0; 32]);
    sys::random(&mut octets[..]).context("the kernel gives no random octets")?;
    Ok(Seed::new(*octets))
}

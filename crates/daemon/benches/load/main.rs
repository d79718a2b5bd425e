//! The cost of the control plane: CPU time of a responder per handshake, memory of an idle tunnel.
//!
//! Clients and gateway are nodes of one process that exchange datagrams directly, so the figures
//! contain no kernel, network or second program. `clients` is the other half of a measurement of a
//! running gateway: it has clients alone, and a network. `make bench` runs it and reads the JSON
//! line that it prints. Other benches measure the packet path.

mod clients;
mod handshakes;
mod pair;
mod tunnels;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use engine::config::Version;
use nix::unistd::Pid;

use crate::pair::Terms;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Load {
    /// CPU time of the responder, per handshake.
    Handshakes {
        /// How many.
        #[arg(long, default_value_t = 200)]
        count: usize,
        #[command(flatten)]
        terms: Words,
        /// Folder of `ca.pem` and of `NAME.pem` and `NAME.key` for sg.example and ms.example;
        /// without it, they use a pre-shared key.
        #[arg(long)]
        keys: Option<PathBuf>,
    },
    /// Tunnels of as many clients with a gateway of another process; each has an address in
    /// 100.64.0.0/10 and an identity of its own.
    Clients {
        /// How many.
        #[arg(long, default_value_t = 500)]
        count: u32,
        /// How many of them connect at the same time.
        #[arg(long, default_value_t = 16)]
        at_once: usize,
        /// The gateway's address.
        #[arg(long)]
        gateway: Ipv4Addr,
        /// The number of its process, whose CPU time counts.
        #[arg(long)]
        gateway_pid: i32,
        #[command(flatten)]
        terms: Words,
        /// Folder of `ca.pem`, its key `ca.key`, and the key of all clients `ms.example.key`.
        #[arg(long, conflicts_with = "secret")]
        keys: Option<PathBuf>,
        /// A pre-shared key instead of certificates.
        #[arg(long, required_unless_present = "keys")]
        secret: Option<String>,
    },
    /// Resident memory of idle tunnels in one gateway, planes included.
    Tunnels {
        /// How many.
        #[arg(long, default_value_t = 100_000)]
        count: u32,
        /// IKEv1 (1) or IKEv2 (2).
        #[arg(long = "ike", default_value = "2", value_parser = version)]
        version: Version,
    },
}

#[derive(Args)]
struct Words {
    /// IKEv1 in aggressive mode (1), or IKEv2 (2).
    #[arg(long = "ike", default_value = "2", value_parser = version)]
    version: Version,
    /// Of the IKE SA, in proposal words.
    #[arg(long, default_value = "aes128gcm16-prfsha256-curve25519")]
    proposal: String,
    /// Of the child, in proposal words.
    #[arg(long, default_value = "aes128gcm16")]
    esp_proposal: String,
    /// Clients go on from lost tunnels by tickets (RFC 5723): that is what counts.
    #[arg(long)]
    resumed: bool,
}

impl Words {
    fn terms(&self) -> Terms<'_> {
        Terms {
            version: self.version,
            proposal: &self.proposal,
            esp_proposal: &self.esp_proposal,
            has_tickets: self.resumed,
        }
    }
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "1" => Ok(Version::V1),
        "2" => Ok(Version::V2),
        other => Err(format!("{other} is neither 1 nor 2")),
    }
}

fn main() -> anyhow::Result<()> {
    let report = match Arguments::parse().load {
        Load::Handshakes { count, terms, keys } => {
            handshakes::measure(count, &terms.terms(), keys.as_deref())?
        }
        Load::Clients {
            count,
            at_once,
            gateway,
            gateway_pid,
            terms,
            keys,
            secret,
        } => {
            let maker = clients::Maker::new(keys.as_deref(), secret.as_deref())?;
            let all = maker.make(count, gateway, &terms.terms())?;
            let gateway = Pid::from_raw(gateway_pid);
            clients::Load { at_once, gateway }.run(all, terms.resumed)?
        }
        Load::Tunnels { count, version } => tunnels::measure(count, version)?,
    };
    println!("{report}");
    Ok(())
}

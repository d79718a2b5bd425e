//! What the control plane costs: CPU time of a responder per handshake, memory of an idle tunnel.
//!
//! Stations and the gateway are nodes of one process that hand datagrams to each other, so that no
//! kernel, network or second program is in the figures. `make bench` runs it and reads the JSON
//! line that it prints; the packet road and the running program are measured elsewhere.

mod handshakes;
mod pair;
mod tunnels;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
    /// Given by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Load {
    /// CPU time of the responder, per handshake, IKEv1 aggressive with PFS.
    Handshakes {
        /// How many.
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// Phase 1, in proposal words.
        #[arg(long, default_value = "aes128-sha256-modp2048")]
        proposal: String,
        /// Phase 2, in proposal words.
        #[arg(long, default_value = "aes128gcm16-modp2048")]
        esp_proposal: String,
        /// Folder of `ca.pem` and of `NAME.pem` and `NAME.key` for sg.example and ms.example;
        /// without it, a pre-shared key.
        #[arg(long)]
        keys: Option<PathBuf>,
    },
    /// Resident memory of idle tunnels in one gateway, planes included.
    Tunnels {
        /// How many.
        #[arg(long, default_value_t = 100_000)]
        count: u32,
    },
}

fn main() -> anyhow::Result<()> {
    let report = match Arguments::parse().load {
        Load::Handshakes {
            count,
            proposal,
            esp_proposal,
            keys,
        } => handshakes::measure(count, &proposal, &esp_proposal, keys.as_deref())?,
        Load::Tunnels { count } => tunnels::measure(count)?,
    };
    println!("{report}");
    Ok(())
}

//! The cost of the control plane: CPU time of a responder per handshake, memory of an idle tunnel.
//!
//! Clients and gateway are nodes of one process that exchange datagrams directly, so the figures
//! contain no kernel, network or second program. `make bench` runs it and reads the JSON line that
//! it prints. Other benches measure the packet path and the running program.

mod handshakes;
mod pair;
mod tunnels;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

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
        /// without it, they use a pre-shared key.
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

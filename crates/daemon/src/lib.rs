//! All of the caravan program: the only crate that does IO, reads the clock, starts threads or runs
//! async code.
//!
//! Packets: [`sys`] (system calls), [`tun`], [`udp`], [`raw`], [`ether`] (devices and sockets),
//! [`planes`] (packet threads around the engine's planes). `main.rs` only calls into here.
//!
//! Tunnel agents: [`agent`].
//!
//! User interface: [`cli`], [`control`] (the socket of a running process), [`status`], [`pki`],
//! [`token`], [`console`].
//!
//! Tunnel agents: [`agent`], and tunnels without root ([`agent::socks`]).
//!
//! Host: [`blocks`], [`routes`], [`nft`], [`dns`], each recorded in the [`footprint`] and done by
//! the [`steward`]; [`privileges`], [`sandbox`], [`files`], [`resolver`], [`service`],
//! [`users`].

pub mod agent;
pub mod bench;
pub mod blocks;
pub mod capture;
pub mod cli;
pub mod config;
pub mod console;
pub mod control;
pub mod count_file;
pub mod dns;
pub mod ether;
pub mod files;
pub mod footprint;
pub mod interfaces;
pub mod kept_file;
pub mod leases;
pub mod link;
pub mod nft;
pub mod options;
pub mod packet;
pub mod peer_file;
pub mod pki;
pub mod planes;
pub mod privileges;
mod qr;
pub mod raw;
pub mod resolver;
pub mod routes;
pub mod run;
pub mod sandbox;
pub mod service;
pub mod status;
pub mod steward;
pub mod sys;
pub mod token;
pub mod tun;
mod typed;
pub mod udp;
pub mod user;
pub mod user_file;
pub mod users;
pub mod version_file;
pub mod wireless;

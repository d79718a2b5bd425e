//! Everything that the caravan program is made of: the only crate of this house that does IO, reads
//! the clock, starts threads or runs async code.
//!
//! Packets: [`sys`] (system calls), [`tun`], [`udp`], [`raw`] (devices and sockets), [`planes`] (one
//! thread per direction around the engine's planes). `main.rs` only calls into here.
//!
//! The user's side: [`control`] (the socket of a running process), [`status`].

pub mod capture;
pub mod config;
pub mod control;
pub mod link;
pub mod packet;
pub mod planes;
pub mod raw;
pub mod status;
pub mod sys;
pub mod tun;
pub mod udp;

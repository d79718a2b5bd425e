//! Protocol machines: bytes and time in, bytes and deadlines out.
//!
//! Two planes. **Control** ([`node::Node`]) is one thread with one door in ([`node::Input`]) and
//! one door out ([`node::Output`]). **Packets** ([`plane`]) are answered at once and in place by
//! whoever owns the plane. Security associations pass from control to packets by value
//! ([`sa::Sa`]). No IO, clock, randomness of the system, thread, async or hash order lives here.

#![forbid(unsafe_code)]

pub mod ah;
pub mod config;
pub mod counters;
pub mod esp;
pub mod identity;
pub mod ike;
pub mod ikev1;
pub mod link;
pub mod node;
pub mod plane;
pub mod quotas;
pub mod replay;
pub mod sa;
pub mod selector;
pub mod site;
pub mod suite;
pub mod time;
pub mod work;

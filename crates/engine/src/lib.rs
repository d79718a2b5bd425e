//! Protocol machines: bytes and time in, bytes and deadlines out.
//!
//! Two planes. **Control** ([`node::Node`]) is one thread with one input ([`node::Input`]) and one
//! output ([`node::Output`]). **Packets** ([`plane`]) are handled at once and in place by the owner
//! of the plane. Security associations pass from control to packets by value ([`sa::Sa`]). This
//! crate has no IO, clock, system randomness, thread, async or hash order.

#![forbid(unsafe_code)]

pub mod agent;
pub mod ah;
pub mod config;
pub mod counters;
pub mod dns;
pub mod eap;
pub mod endpoint;
pub mod esp;
pub mod firewall;
pub mod identity;
pub mod ike;
pub mod ikev1;
pub mod ikev2;
pub mod link;
pub mod mip4;
pub mod node;
pub mod plane;
pub mod quotas;
pub mod radius;
mod rate;
pub mod replay;
pub mod sa;
pub mod selector;
pub mod site;
pub mod skip;
pub mod suite;
pub mod time;
pub mod work;

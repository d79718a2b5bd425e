//! Pairs of planes through memory: what one seals the other opens.

mod round_trip;
mod super_packets;
mod support;

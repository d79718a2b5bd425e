//! Pairs of planes through memory: what one seals the other opens.

mod bad_input;
mod hold;
mod in_line;
mod limit;
mod nested;
mod reports;
mod round_trip;
mod sizes;
mod stalls;
mod super_packets;
mod support;
mod transport;
mod tunnels;
mod vectors;

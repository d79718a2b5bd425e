//! TOML texts as people write them: where each key stands, what is wrong with one, and the valid
//! word that a wrong one is nearest to.
//!
//! Every file of the house is told about in the same words: device, link, policy, scenario and
//! study through [`Item`] and [`Table`], the configuration of `daemon` through [`position()`] and
//! [`unknown`]. Left out: what a key means, and opening files.

#![forbid(unsafe_code)]

mod fault;
mod item;
mod position;
mod words;

pub use fault::{EDIT, Fault, Place};
pub use item::{Item, TEXT_BYTES_MAX, Table, Value, parse};
pub use position::{Lines, position};
pub use words::{choices, likeness, nearest, unknown};

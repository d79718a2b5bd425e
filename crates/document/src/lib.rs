//! TOML texts as people write them: the place of each key, errors, and the valid word nearest to a
//! wrong one.
//!
//! All files are read through [`Item`] and [`Table`]: device, link, policy, scenario and study of
//! the lab, and the configuration of `daemon`. Left out: the meaning of keys, and opening files.

#![forbid(unsafe_code)]

mod fault;
mod item;
mod position;
mod words;

pub use fault::{EDIT, Fault, Place};
pub use item::{DEPTH_MAX, Item, KEY_BYTES_MAX, TEXT_BYTES_MAX, Table, Value, parse};
pub use words::{choices, likeness, nearest, shown, unknown};

//! TOML texts as people write them: the place of each key, errors, and the valid word nearest to a
//! wrong one.
//!
//! All files give errors in the same form: device, link, policy, scenario and study through
//! [`Item`] and [`Table`], the configuration of `daemon` through [`position()`] and [`unknown`].
//! Left out: the meaning of keys, and opening files.

#![forbid(unsafe_code)]

mod fault;
mod item;
mod position;
mod words;

pub use fault::{EDIT, Fault, Place};
pub use item::{Item, TEXT_BYTES_MAX, Table, Value, parse};
pub use position::{Lines, position};
pub use words::{choices, likeness, nearest, unknown};

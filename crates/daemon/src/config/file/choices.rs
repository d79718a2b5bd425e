//! Keys that are one of a few words.

use document::{Fault, Item, Value};
use serde::Serialize;

use crate::config::read::Read;
use crate::routes::full::{Lan, OtherFamily};

/// Tunnel or transport.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Mode {
    /// Whole packets.
    #[default]
    Tunnel,
    /// The payload of the IP packet.
    Transport,
}

impl Read for Mode {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice(
            "value",
            &[("tunnel", Self::Tunnel), ("transport", Self::Transport)],
        )
    }
}

/// `encap`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Encap {
    /// In UDP with every peer that supports RFC 3947.
    #[default]
    Auto,
    /// In UDP, or no tunnel.
    Always,
    /// In UDP only through a NAT.
    ThroughNat,
}

impl Read for Encap {
    fn read(item: &Item) -> Result<Self, Fault> {
        match &item.value {
            Value::Boolean(true) => Ok(Self::Always),
            Value::Boolean(false) => Ok(Self::ThroughNat),
            Value::Text(text) if **text == "auto" => Ok(Self::Auto),
            _ => Err(item.fault("write \"auto\", true or false")),
        }
    }
}

/// `start`
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Start {
    /// When `caravan up` runs.
    #[default]
    AtOnce,
    /// At the first packet that matches.
    OnTraffic,
}

impl Read for Start {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice(
            "value",
            &[("at-once", Self::AtOnce), ("on-traffic", Self::OnTraffic)],
        )
    }
}

/// `unique`
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Unique {
    /// The new tunnel replaces the old one.
    #[default]
    Replace,
    /// Both stay.
    Keep,
}

impl Read for Unique {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &[("replace", Self::Replace), ("keep", Self::Keep)])
    }
}

/// `childless`
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Childless {
    /// A client may begin so.
    #[default]
    Allow,
    /// We begin so if the gateway takes it.
    Prefer,
    /// Both ends must.
    Force,
    /// Not at all.
    Never,
}

impl Read for Childless {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [
            ("allow", Self::Allow),
            ("prefer", Self::Prefer),
            ("force", Self::Force),
            ("never", Self::Never),
        ];
        item.choice("value", &words)
    }
}

/// `on_failure`
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum OnFailure {
    /// Unreachable routes stay until `caravan down`.
    #[default]
    Block,
    /// Traffic takes the ordinary route.
    Pass,
}

impl Read for OnFailure {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &[("block", Self::Block), ("pass", Self::Pass)])
    }
}

impl Read for Lan {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &[("allow", Self::Allow), ("block", Self::Block)])
    }
}

impl Read for OtherFamily {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &[("block", Self::Block), ("pass", Self::Pass)])
    }
}

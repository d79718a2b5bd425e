//! How a file writes `encap`: `"auto"`, `true` or `false`.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::file::Encap;

impl<'de> Deserialize<'de> for Encap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EncapText)
    }
}

struct EncapText;

impl Visitor<'_> for EncapText {
    type Value = Encap;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"auto\", true or false")
    }

    fn visit_bool<E: de::Error>(self, always: bool) -> Result<Encap, E> {
        Ok(if always {
            Encap::Always
        } else {
            Encap::ThroughNat
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Encap, E> {
        match text {
            "auto" => Ok(Encap::Auto),
            other => Err(E::custom(format!(
                "'{other}' is not \"auto\", true or false"
            ))),
        }
    }
}

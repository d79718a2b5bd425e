//! Why a scenario that is correct on its own cannot be computed: by the tandem, by the closed forms
//! or by the event kernel.

use document::{Fault, Place};

use super::Scenario;
use crate::cost;

/// Why a scenario cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Uncomputable {
    /// A value in a file or an edit is wrong.
    #[error(transparent)]
    Text(#[from] Fault),
    /// A device has no cost for the policy.
    #[error("{place}: {missing}")]
    Unpriced {
        /// The key that chose the policy or the device.
        place: Place,
        /// The missing cost.
        missing: Box<cost::Missing>,
    },
    /// The accounting has no formula for the sizes of the policy.
    #[error("{place}: {}", self.what())]
    NoFormula {
        /// The key that chose the accounting or the policy.
        place: Place,
        /// The accounting.
        accounting: cost::Accounting,
        /// The policy's name.
        policy: String,
    },
}

impl Uncomputable {
    /// The position in a file, or the edit, that should be changed.
    pub fn place(&self) -> &Place {
        match self {
            Self::Text(fault) => &fault.place,
            Self::Unpriced { place, .. } | Self::NoFormula { place, .. } => place,
        }
    }

    /// What is wrong, and what would be right.
    pub fn what(&self) -> String {
        match self {
            Self::Text(fault) => fault.what.clone(),
            Self::Unpriced { missing, .. } => missing.to_string(),
            Self::NoFormula {
                accounting, policy, ..
            } => format!(
                "{} has no formula for the size of {policy}: use the true sizes, --set \
                 accounting=rfc or accounting = \"rfc\" in the file",
                accounting.name()
            ),
        }
    }
}

impl Scenario {
    /// The error that a node's device has no price for the policy of a station's tunnel.
    pub(crate) fn unpriced(
        &self,
        (node, station): (&str, usize),
        missing: cost::Missing,
    ) -> Uncomputable {
        let device = format!("node.{node}.device");
        Uncomputable::Unpriced {
            place: self.blamed(&[&self.policy_key(station), &device]),
            missing: Box::new(missing),
        }
    }

    /// An error that can only be found when the scenario is used, at the one of the keys that
    /// causes it.
    pub fn fault(&self, keys: &[&str], what: impl Into<String>) -> Fault {
        Fault {
            place: self.blamed(keys),
            what: what.into(),
        }
    }

    /// The key that an edit set, otherwise the first that is written in a file.
    pub(super) fn blamed(&self, keys: &[&str]) -> Place {
        let places = || keys.iter().filter_map(|key| self.places.get(*key));
        let place = places().find(|place| place.is_edit());
        let place = place.or_else(|| places().next()).cloned();
        let nowhere = || Place {
            file: self.name.as_str().into(),
            line: None,
            column: None,
            key: keys.first().copied().unwrap_or_default().to_owned(),
        };
        place.unwrap_or_else(nowhere)
    }
}

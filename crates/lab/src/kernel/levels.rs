//! A scenario at the levels that do not measure real time.

use std::io::Write;

use super::KernelFault;
use super::trace::Open;
use super::world::{Blueprint, World};
use crate::scenario::{Catalogue, Resolved, Scenario, Uncomputable};

/// Why a scenario cannot be computed and simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unrunnable {
    /// Its own error, or missing costs of its devices.
    #[error(transparent)]
    Scenario(#[from] Uncomputable),
    /// Its capture could not be written.
    #[error("the capture: {0}")]
    Capture(String),
}

/// The levels `model` and `simulate` of a scenario, as one JSON object with the keys `model`
/// ([`super::closed::Closed`]) and `simulate` ([`super::world::Outcome`]). Of a graph, the model is
/// [`super::closed::radio::Radio`], if it has access points, and the simulation
/// [`super::world::Flowed`].
///
/// `open`: opens recordings. `capture`: receives the packets of all links, as pcapng.
pub fn both_levels(
    scenario: &Scenario,
    resolved: &Resolved,
    catalogue: &Catalogue,
    open: &Open,
    capture: Option<Box<dyn Write>>,
) -> Result<serde_json::Value, Unrunnable> {
    let blueprint = Blueprint::of(scenario, resolved, catalogue, open)?;
    let say = |fault: KernelFault| {
        if let KernelFault::Capture(why) = fault {
            return Unrunnable::Capture(why);
        }
        let keys = fault.keys(scenario);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        Uncomputable::Text(scenario.fault(&keys, fault.to_string())).into()
    };
    let model = match blueprint.is_short {
        true => Some(super::closed::model(&blueprint).map_err(say)?),
        false => None,
    };
    let radio = match blueprint.is_short {
        true => None,
        false => super::closed::radio::model(&blueprint).map_err(say)?,
    };
    let mut world = World::new(blueprint).map_err(say)?;
    if let Some(to) = capture {
        world.capture(to);
    }
    Ok(match model {
        Some(_) => {
            let outcome = world.run().map_err(say)?;
            serde_json::json!({ "model": model, "simulate": outcome })
        }
        None => {
            let outcome = world.run_flows().map_err(say)?;
            serde_json::json!({ "model": radio, "simulate": outcome })
        }
    })
}

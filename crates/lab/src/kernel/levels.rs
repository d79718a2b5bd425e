//! A scenario at the levels that need no wall clock.

use std::io::Write;

use super::Fault;
use super::trace::Open;
use super::world::{Plan, World};
use crate::scenario::{Catalogue, Scenario};

/// What the levels `model` and `simulate` say of a scenario, as one JSON object with the keys
/// `model` ([`super::closed::Closed`]) and `simulate` ([`super::world::Outcome`]). A graph has no
/// model, and its simulation is [`super::world::Flowed`].
///
/// `open`: what recordings are read from. `capture`: where the packets of all links go, as pcapng.
pub fn both_levels(
    scenario: &Scenario,
    catalogue: &Catalogue,
    open: &Open,
    capture: Option<Box<dyn Write>>,
) -> Result<serde_json::Value, String> {
    let plan = Plan::of(scenario, catalogue, open).map_err(|fault| fault.to_string())?;
    let say = |fault: Fault| {
        let keys = fault.keys();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        scenario.fault(&keys, fault.to_string()).to_string()
    };
    let model = match plan.is_short {
        true => Some(super::closed::road(&plan).map_err(say)?),
        false => None,
    };
    let mut world = World::new(plan).map_err(say)?;
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
            serde_json::json!({ "model": null, "simulate": outcome })
        }
    })
}

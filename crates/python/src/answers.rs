//! Computes the lab's answers to requests. Files are opened and threads started by the caller.

use std::fs::File;
use std::io::BufReader;

use lab::cost::{self, Clock, Device, Direction, Policy, Profile};
use lab::scenario::{Flow, Resolved, Scenario, Uncomputable};
use lab::tandem::capture::{Capture, Wanted};
use lab::tandem::closed::{self, Model};
use lab::tandem::{self, Outcome, Tally};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::refused::Refused;
use crate::request::{Held, PolicyRequest, PriceRequest, Way, read};

/// The tally of some replications of one scenario, and the sum of its links' delays.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    #[serde(deserialize_with = "delay")]
    propagation_s: f64,
    tally: Tally,
}

/// Seconds that are not negative; JSON has no infinite ones.
fn delay<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    match seconds >= 0.0 {
        true => Ok(seconds),
        false => Err(D::Error::custom(format!("a delay of {seconds} s"))),
    }
}

/// What the testbed builds namespaces from.
#[derive(Serialize)]
struct Network<'a> {
    flows: &'a [Flow],
    #[serde(flatten)]
    resolved: &'a Resolved,
}

/// The theoretical results of a tandem, and the bytes of each clear packet that are not user data.
#[derive(Serialize)]
struct Modelled {
    #[serde(flatten)]
    model: Model,
    header_bytes: f64,
    /// Seconds of an echo of the mean packet on an empty path.
    round_trip_s: f64,
}

/// A scenario for Python; `run` is as in a request.
pub(crate) fn resolved(held: &Held, run: Option<&str>) -> Result<Value, Refused> {
    let (scenario, resolved) = (&held.scenario, &held.resolved);
    let catalogue = &held.catalogue;
    let run = held.run(run)?;
    let beyond = scenario.check_tandem(resolved, catalogue).err();
    // Traffic that the tandem cannot simulate is no work for it.
    let is_followed = scenario.tandem_traffic().is_ok();
    let work = is_followed.then(|| scenario.check_work(&run));
    let flows = &scenario.flows;
    Ok(json!({
        "scenario": scenario,
        "hash": scenario.hash(),
        // Whether it has the long form, with flows; otherwise it is a chain.
        "is_graph": !scenario.is_short,
        // Every link and its ends, every address and every route, also of chains.
        "graph": Network { flows, resolved },
        // The value of the run that is too large, with its key; null if none is.
        "too_much": work.and_then(Result::err).map(|fault| Refused::from(fault).told()),
        // Nodes whose work is a lower bound.
        "bytes_alone": scenario.priced_by_bytes_alone(resolved, catalogue),
        // Why only the event kernel can simulate it; null if the tandem can.
        "beyond_tandem": beyond.map(|fault| Refused::from(fault).told()),
    }))
}

pub(crate) fn price(request: &str) -> Result<String, Refused> {
    let request: PriceRequest = read(request)?;
    let profile = Profile::parse(&request.file, &request.text)?;
    let clock = match (request.mips, request.clock_mhz) {
        (Some(_), Some(_)) => return Err(Refused::TwoSpeeds),
        (Some(mips), None) => Some(Clock::Mips(mips)),
        (None, Some(mhz)) => Some(Clock::MegaHertz(mhz)),
        (None, None) => None,
    };
    let direction = match request.direction {
        None | Some(Way::Seal) => Direction::Seal,
        Some(Way::Open) => Direction::Open,
    };
    let protection = match &request.suite {
        PolicyRequest::Suite(word) => cost::Protection::named(&profile, word)?,
        PolicyRequest::File { file, text } => Policy::parse(file, text)?.into(),
    };
    let device = Device::new(profile, clock)?;
    write(&device.price_of(&protection, request.bytes, direction)?)
}

pub(crate) fn model(held: &Held) -> Result<String, Refused> {
    let scenario = &held.scenario;
    let tandem = scenario.tandem(&held.resolved, &held.catalogue)?;
    let traffic = traffic(scenario)?;
    let model = closed::model(&tandem, &traffic);
    let mut model = model.map_err(|fault| scenario.unfit(&fault))?;
    add_propagation(&mut model, scenario.propagation_s(&held.resolved)?);
    let round_trip_s = scenario.round_trip_s(&held.catalogue, model.mean_bytes)?;
    write(&Modelled {
        model,
        header_bytes: scenario.accounting.header_bytes(),
        round_trip_s,
    })
}

fn add_propagation(model: &mut Model, propagation_s: f64) {
    if let Some(delay) = &mut model.delay {
        delay.seconds += propagation_s;
    }
}

pub(crate) fn simulate(held: &Held, run: Option<&str>) -> Result<Vec<u8>, Refused> {
    let scenario = &held.scenario;
    let tandem = scenario.tandem(&held.resolved, &held.catalogue)?;
    let traffic = traffic(scenario)?;
    let tallies = tandem::simulate(&[tandem], &traffic, &held.run(run)?);
    let mut tallies = tallies.map_err(|fault| scenario.unfit(&fault))?;
    let job = Job {
        propagation_s: scenario.propagation_s(&held.resolved)?,
        tally: tallies.remove(0),
    };
    serde_json::to_vec(&job).map_err(Refused::Answer)
}

fn traffic(scenario: &Scenario) -> Result<tandem::Traffic, Refused> {
    scenario.tandem_traffic()?.ok_or_else(|| {
        let what = "a capture is replayed, and has no closed form";
        scenario.fault(&["traffic.model"], what).into()
    })
}

pub(crate) fn outcome(jobs: &[Vec<u8>]) -> Result<String, Refused> {
    let mut whole: Option<Job> = None;
    for text in jobs {
        let job: Job = serde_json::from_slice(text).map_err(Refused::Tally)?;
        match &mut whole {
            Some(whole) => whole.tally.merge(&job.tally)?,
            None => whole = Some(job),
        }
    }
    let nothing = || Refused::NoPackets("there is no result".to_owned());
    let whole = whole.ok_or_else(nothing)?;
    let outcome = counted(&whole.tally, whole.propagation_s)?;
    let all = whole.tally.replications.len();
    let silent = all - outcome.replications;
    if silent > 0 {
        return Err(Refused::NoPackets(format!(
            "in {silent} of {all} replications no packet arrived in the measured time: {REMEDY}"
        )));
    }
    write(&outcome)
}

const REMEDY: &str = "simulate longer (run.time, --hours), or raise the rate";

/// The averages, or why there are none.
fn counted(tally: &Tally, propagation_s: f64) -> Result<Outcome, Refused> {
    let nothing = || format!("no packet arrived in the measured time: {REMEDY}");
    let outcome = tally.outcome();
    let mut outcome = outcome.ok_or_else(|| Refused::NoPackets(nothing()))?;
    outcome.mean_delay_s += propagation_s;
    for percentile in &mut outcome.percentiles {
        percentile.delay_s += propagation_s;
        let ends = percentile.ci95_s.as_mut().into_iter().flatten();
        ends.chain(&mut percentile.between_s)
            .for_each(|end| *end += propagation_s);
    }
    Ok(outcome)
}

/// One answer a policy, in the order of the request: its outcome, or why it is not carried.
pub(crate) fn replay(held: &Held, policies: &[String], path: &str) -> Result<String, Refused> {
    let catalogue = &held.catalogue;
    let mut tandems = Vec::new();
    let mut answers = Vec::new();
    let mut propagation_s = 0.0;
    let mut wanted = Wanted::All;
    for policy in policies {
        let scenario = held.under(policy)?;
        wanted = scenario.chain()?.traffic.wanted();
        let resolved = scenario.resolved(catalogue)?;
        propagation_s = scenario.propagation_s(&resolved)?;
        scenario.check_tandem(&resolved, catalogue)?;
        match scenario.tandem(&resolved, catalogue) {
            Ok(tandem) => {
                tandems.push(tandem);
                answers.push(json!({ "policy": policy }));
            }
            Err(fault @ (Uncomputable::Unpriced { .. } | Uncomputable::NoFormula { .. })) => {
                let missing = Refused::from(fault).told();
                answers.push(json!({ "policy": policy, "missing": missing }));
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    if tandems.is_empty() {
        return write(&answers);
    }
    let file = File::open(path).map_err(|fault| Refused::file(path, &fault))?;
    let unusable = |why: String| Refused::Capture {
        path: path.to_owned(),
        why,
    };
    let capture = Capture::open(BufReader::new(file), wanted);
    let mut capture = capture.map_err(|fault| unusable(fault.to_string()))?;
    let mut broken = None;
    let mut is_bare = true;
    let packets = capture.by_ref().map(|packet| {
        is_bare = false;
        packet.map_err(|fault| {
            broken = Some(fault.to_string());
            tandem::TandemFault::NoPackets("the capture is damaged")
        })
    });
    let tallies = tandem::replay(&tandems, packets, None, 0.0);
    let contents = capture.contents();
    let tallies = tallies.map_err(|fault| {
        let why = match is_bare {
            true => nothing_wanted(wanted, contents.unwanted),
            false => broken.take().unwrap_or_else(|| fault.to_string()),
        };
        unusable(why)
    })?;
    let mut tallies = tallies.iter();
    for answer in &mut answers {
        if answer.get("missing").is_none()
            && let Some(tally) = tallies.next()
        {
            let outcome = counted(tally, propagation_s)?;
            answer["outcome"] = json!(outcome);
            answer["capture"] = json!(contents);
        }
    }
    write(&answers)
}

/// Why no packet of a capture counts.
fn nothing_wanted(wanted: Wanted, unwanted: u64) -> String {
    match wanted {
        Wanted::From(address) if unwanted > 0 => {
            format!("none of its {unwanted} packets is from {address}")
        }
        Wanted::To(address) if unwanted > 0 => {
            format!("none of its {unwanted} packets is to {address}")
        }
        _ => "the capture holds no packets of IP".to_owned(),
    }
}

pub(crate) fn write<T: Serialize>(answer: &T) -> Result<String, Refused> {
    serde_json::to_string(answer).map_err(Refused::Answer)
}

/// A number that JSON can represent, or null.
pub(crate) fn finite(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

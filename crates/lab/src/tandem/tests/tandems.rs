//! Paper U's equations as literal staircases, and its queues in series.

use super::super::*;
use crate::staircase::Step;

fn steps(fixed: f64, steps: &[(f64, f64, f64)]) -> Staircase {
    let step = |&(height, offset, width): &(f64, f64, f64)| Step {
        height,
        offset,
        width,
    };
    Staircase {
        fixed,
        per_byte: 0.0,
        steps: steps.iter().map(step).collect(),
    }
}

/// Operations: equations (1), (2) and (7).
fn operations(policy: &str) -> Staircase {
    let des = (2697.0, 0.0, 8.0);
    let triple = (8091.0, 0.0, 8.0);
    let md5 = (744.0, 8.0, 64.0);
    match policy {
        "none" => Staircase::default(),
        "null-md5" => steps(2264.0, &[md5]),
        "des" => steps(0.0, &[des]),
        "3des" => steps(0.0, &[triple]),
        "des-md5" => steps(2264.0, &[des, md5]),
        "3des-md5" => steps(2264.0, &[triple, md5]),
        other => panic!("no policy {other}"),
    }
}

/// Bytes: equations (9), (10) and (11).
fn protected(policy: &str) -> Staircase {
    match policy {
        "none" => Staircase::linear(1.0),
        "null-md5" => steps(48.0, &[(4.0, -18.0, 4.0)]),
        "des" | "3des" => steps(36.0, &[(8.0, -18.0, 8.0)]),
        _ => steps(48.0, &[(8.0, -18.0, 8.0)]),
    }
}

/// The eight queues of paper U.
pub(crate) fn umts(policy: &str, mips: f64) -> Tandem {
    let cpu = |mips: f64| operations(policy).times(1e-6 / mips);
    let link = |mbps: f64| protected(policy).times(8e-6 / mbps);
    let services = [
        ("ms", cpu(mips)),
        ("radio", link(2.0)),
        ("rnc", link(100.0)),
        ("sgsn", link(100.0)),
        ("ggsn", link(100.0)),
        ("internet", link(155.0)),
        ("sg", cpu(11_000.0)),
        ("lan", Staircase::linear(8e-6 / 100.0)),
    ];
    let queue = |(name, service): (&str, Staircase)| Queue {
        name: name.into(),
        service,
    };
    Tandem {
        policy: policy.into(),
        queues: services.into_iter().map(queue).collect(),
        protected: protected(policy),
    }
}

/// Poisson packets of paper U's sizes.
pub(crate) fn poisson(kbps: f64) -> Traffic {
    Traffic {
        arrivals: Arrivals::Poisson,
        sizes: Sizes::PAPER_U,
        rate: 1e3 * kbps,
    }
}

/// One queue.
pub(crate) fn single(service: Staircase) -> Tandem {
    Tandem {
        policy: "one".into(),
        queues: vec![Queue {
            name: "only".into(),
            service,
        }],
        protected: Staircase::linear(1.0),
    }
}

pub(crate) fn run(seconds: f64, replications: u32) -> Run {
    Run {
        seconds,
        warm_up: 0.1 * seconds,
        replications,
        seed: 1,
        first_replication: 0,
    }
}

//! The results of queueing theory, without simulation: capacities, utilisation, waits.
//!
//! Moments of staircases over truncated Pareto sizes are exact: between two block boundaries a
//! staircase is a straight line, whose moments are known. The wait at the first loaded queue is
//! given by the Pollaczek-Khinchine formula, which is exact for Poisson arrivals. At later queues
//! arrivals are not Poisson, so the same formula is an approximation and is marked so. Left out:
//! waits for arrivals that are not Poisson, and waits behind a saturated queue: there is no such
//! formula.

use super::state::{State, reaching};
use super::{Arrivals, Sizes, Tandem, TandemFault, Traffic, check_tandems};
use crate::staircase::{Staircase, Step};
use serde::Serialize;

/// The theoretical results of one tandem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The tandem's policy.
    pub policy: String,
    /// Mean clear bytes of a packet.
    pub mean_bytes: f64,
    /// Squared coefficient of variation of the sizes.
    pub bytes_cv2: f64,
    /// Packets per second; `None` if they depend on the queues.
    pub packets_per_s: Option<f64>,
    /// The queues in order.
    #[serde(rename = "stations")]
    pub queues: Vec<QueueModel>,
    /// The clear bits per second at which the busiest queue is saturated.
    pub capacity_bps: f64,
    /// Protected bytes per clear byte.
    pub expansion: f64,
    /// Protected bits per second that arrive.
    pub protected_bps: Option<f64>,
    /// Mean seconds from end to end, exact only if every part is.
    pub delay: Option<Wait>,
    /// The worst of the queues' states; `None` if the rate depends on the queues.
    pub state: Option<State>,
}

/// The theoretical results of one queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueModel {
    /// Its name.
    pub name: String,
    /// The clear bits per second at which it is full; infinite (null in JSON) if it has no cost.
    pub capacity_bps: f64,
    /// Mean service time in seconds.
    pub service_s: f64,
    /// Squared coefficient of variation of the service time, 0 if it has no cost.
    pub service_cv2: f64,
    /// Seconds of work per second that all packets would cause if no other queue were saturated.
    pub load: Option<f64>,
    /// Utilisation: the load that saturated queues before it let through, at most 1.
    pub utilisation: Option<f64>,
    /// Mean seconds of waiting; `None` if there is no mean or no formula: at a saturated queue and
    /// at all queues behind it.
    pub wait: Option<Wait>,
    /// Mean clear bytes waiting, as exact as the wait.
    pub queue_bytes: Option<f64>,
    /// Whether its averages are meaningful, by the load that reaches it.
    pub state: Option<State>,
}

/// Mean seconds, and whether they are exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// Seconds.
    pub seconds: f64,
    /// Whether it is exact or an approximation.
    pub standing: Standing,
}

/// Whether a formula is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Exact for this traffic and this queue.
    Exact,
    /// Assumes Poisson arrivals, but they are not.
    Approximation,
}

/// The theoretical results of `tandem` under `traffic`.
pub fn model(tandem: &Tandem, traffic: &Traffic) -> Result<Model, TandemFault> {
    traffic.check()?;
    check_tandems(std::slice::from_ref(tandem), traffic.sizes.smallest())?;
    let size = traffic.sizes.moments_of(&Staircase::linear(1.0));
    let rate = traffic.packets_per_s();
    let poisson = traffic.arrivals == Arrivals::Poisson;
    let mut first = true;
    let mut diverges = false;
    let services = tandem.queues.iter();
    let services = services.map(|queue| traffic.sizes.moments_of(&queue.service));
    let services: Vec<Moments> = services.collect();
    let loads = rate.map(|rate| services.iter().map(|s| rate * s.first).collect::<Vec<_>>());
    let reaching = loads.as_deref().map(reaching);
    let queues: Vec<QueueModel> = tandem
        .queues
        .iter()
        .zip(&services)
        .enumerate()
        .map(|(index, (queue, service))| {
            let loaded = service.first > 0.0;
            let standing = if first {
                Standing::Exact
            } else {
                Standing::Approximation
            };
            first &= !loaded;
            let load = loads.as_ref().map(|loads| loads[index]);
            let reaches = reaching.as_ref().map(|reaching| reaching[index]);
            // A saturated queue lets through less than the offered rate.
            diverges |= load.is_some_and(|load| load >= 1.0);
            let wait = rate.filter(|_| poisson && !diverges).and_then(|rate| {
                let seconds = service.wait(rate)?;
                Some(Wait { seconds, standing })
            });
            QueueModel {
                name: queue.name.clone(),
                capacity_bps: 8.0 * size.first / service.first,
                service_s: service.first,
                service_cv2: service.cv2(),
                load,
                utilisation: reaches.map(|load| load.min(1.0)),
                state: reaches.map(State::under),
                wait,
                // a packet's wait does not depend on its own size
                queue_bytes: wait
                    .zip(rate)
                    .map(|(w, rate)| rate * size.first * w.seconds),
            }
        })
        .collect();
    let expansion = traffic.sizes.mean_of(&tandem.protected) / size.first;
    Ok(Model {
        policy: tandem.policy.clone(),
        mean_bytes: size.first,
        bytes_cv2: size.cv2(),
        packets_per_s: rate,
        capacity_bps: queues
            .iter()
            .map(|s| s.capacity_bps)
            .fold(f64::INFINITY, f64::min),
        expansion,
        protected_bps: rate.map(|rate| 8.0 * rate * size.first * expansion),
        delay: delay(&queues),
        state: queues.iter().filter_map(|queue| queue.state).max(),
        queues,
    })
}

fn delay(queues: &[QueueModel]) -> Option<Wait> {
    let mut whole = Wait {
        seconds: 0.0,
        standing: Standing::Exact,
    };
    for queue in queues {
        let wait = queue.wait?;
        whole.seconds += wait.seconds + queue.service_s;
        if queue.service_s > 0.0 && wait.standing == Standing::Approximation {
            whole.standing = Standing::Approximation;
        }
    }
    Some(whole)
}

/// The first two moments of a random value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// The mean.
    pub first: f64,
    /// The mean of the square.
    pub second: f64,
}

impl Moments {
    /// Variance over squared mean; 0 for a value that is always 0.
    pub fn cv2(&self) -> f64 {
        if self.first > 0.0 {
            (self.second / (self.first * self.first) - 1.0).max(0.0)
        } else {
            0.0
        }
    }

    /// The Pollaczek-Khinchine mean wait for such service times under Poisson arrivals; `None` if
    /// the load is 1 or more.
    pub fn wait(&self, packets_per_s: f64) -> Option<f64> {
        let utilisation = packets_per_s * self.first;
        let wait = packets_per_s * self.second / (2.0 * (1.0 - utilisation));
        (utilisation < 1.0).then_some(wait)
    }

    fn add(&mut self, value: f64, weight: f64) {
        self.first += weight * value;
        self.second += weight * value * value;
    }
}

impl Sizes {
    /// Mean clear bytes.
    pub fn mean(&self) -> f64 {
        self.moments_of(&Staircase::linear(1.0)).first
    }

    /// Mean of a staircase over these sizes.
    pub fn mean_of(&self, staircase: &Staircase) -> f64 {
        Means::new(self).of(staircase)
    }

    /// Moments of a staircase over these sizes, exact except for rounding.
    pub fn moments_of(&self, staircase: &Staircase) -> Moments {
        let mut moments = Moments::default();
        match self {
            Self::Fixed(bytes) => moments.add(staircase.at(*bytes), 1.0),
            Self::Empirical(shares) => {
                let total: f64 = shares.iter().map(|share| share.weight).sum();
                for share in shares {
                    moments.add(staircase.at(share.bytes), share.weight / total);
                }
            }
            Self::Pareto {
                shape,
                smallest,
                largest,
            } => {
                let pareto = Pareto {
                    shape: *shape,
                    smallest: *smallest,
                };
                pareto.add_blocks(staircase, *largest, &mut moments);
                // sizes that were cut equal the largest size
                let cut = libm::pow(smallest / largest, *shape);
                moments.add(staircase.at(*largest), cut);
            }
        }
        moments
    }
}

/// Means of many staircases over the same sizes; each ceiling is computed once.
pub(super) struct Means<'a> {
    sizes: &'a Sizes,
    bytes: f64,
    /// Offset, width, mean.
    ceilings: Vec<(f64, f64, f64)>,
}

impl<'a> Means<'a> {
    pub(super) fn new(sizes: &'a Sizes) -> Self {
        Self {
            sizes,
            bytes: sizes.mean(),
            ceilings: Vec::new(),
        }
    }

    pub(super) fn of(&mut self, staircase: &Staircase) -> f64 {
        let steps = staircase
            .steps
            .iter()
            .map(|step| step.height * self.ceiling(step));
        let steps: f64 = steps.sum();
        staircase.fixed + staircase.per_byte * self.bytes + steps
    }

    fn ceiling(&mut self, step: &Step) -> f64 {
        let mut known = self.ceilings.iter();
        if let Some(known) = known.find(|own| (own.0, own.1) == (step.offset, step.width)) {
            return known.2;
        }
        let one = Step {
            height: 1.0,
            ..*step
        };
        let mean = match self.sizes {
            Sizes::Pareto {
                shape,
                smallest,
                largest,
            } => {
                // E[n] = least n + sum of P(more than n) over n, a power a block
                let least = one.at(*smallest);
                let blocks = (one.at(*largest) - least) as u32;
                let above = |more: u32| {
                    let bytes = step.width * (least + f64::from(more)) - step.offset;
                    libm::pow(smallest / bytes, *shape)
                };
                least + (0..blocks).map(above).sum::<f64>()
            }
            sizes => {
                let staircase = Staircase {
                    steps: vec![one],
                    ..Staircase::default()
                };
                sizes.moments_of(&staircase).first
            }
        };
        self.ceilings.push((step.offset, step.width, mean));
        mean
    }
}

struct Pareto {
    shape: f64,
    smallest: f64,
}

impl Pareto {
    /// Adds the moments of sizes below `largest`, block by block.
    fn add_blocks(&self, staircase: &Staircase, largest: f64, moments: &mut Moments) {
        let mut from = self.smallest;
        let mut blocks: Vec<f64> = staircase
            .steps
            .iter()
            .map(|step| libm::ceil((from + step.offset) / step.width))
            .collect();
        while from < largest {
            let ends = staircase.steps.iter().zip(&blocks);
            let ends = ends.map(|(step, block)| step.width * block - step.offset);
            let to = ends.fold(largest, f64::min);
            let steps = staircase.steps.iter().zip(&blocks);
            let level = staircase.fixed + steps.map(|(s, b)| s.height * b).sum::<f64>();
            if to > from {
                let slope = staircase.per_byte;
                let inside = self.inside(from, to);
                let zero = inside.moment(0);
                moments.first += level * zero;
                moments.second += level * level * zero;
                if slope != 0.0 {
                    let (one, two) = (inside.moment(1), inside.moment(2));
                    moments.first += slope * one;
                    moments.second += 2.0 * level * slope * one + slope * slope * two;
                }
            }
            for (step, block) in staircase.steps.iter().zip(&mut blocks) {
                if step.width * *block - step.offset <= to {
                    *block += 1.0;
                }
            }
            from = to;
        }
    }

    fn inside(&self, from: f64, to: f64) -> Inside {
        Inside {
            shape: self.shape,
            from,
            above: libm::pow(self.smallest / from, self.shape),
            ratio: libm::log1p((to - from) / from),
        }
    }
}

/// The range between two sizes.
struct Inside {
    shape: f64,
    from: f64,
    /// The share of packets above the smaller size.
    above: f64,
    /// Logarithm of the larger size over the smaller.
    ratio: f64,
}

impl Inside {
    /// The integral of `S^power` times the density, computed from the logarithm of the ratio: this
    /// avoids differences of nearly equal numbers.
    fn moment(&self, power: i32) -> f64 {
        let exponent = f64::from(power) - self.shape;
        let grown = if exponent == 0.0 {
            self.ratio
        } else {
            libm::expm1(exponent * self.ratio) / exponent
        };
        let scale = (0..power).fold(1.0, |scale, _| scale * self.from);
        self.shape * self.above * scale * grown
    }
}

//! The staircases of all tandems, with common parts taken out: the lanes compute each ceiling once
//! and each shape of staircase once, then multiply by scale factors.
//!
//! A link carries the same bytes as the link before it, only faster, and a gateway does the same
//! operations as the queue: their services are one staircase times different numbers. Left out:
//! the arithmetic, which is in [`super::rows`].

use super::Tandem;
use crate::staircase::{Staircase, Step};

/// Coefficients with a smaller relative difference are considered equal: they were computed
/// differently.
const ALIKE: f64 = 1e-12;

/// All tandems of a simulation, with the parts that they share.
pub(super) struct Factored {
    /// The ceilings that any of the tandems needs.
    pub(super) ceilings: Vec<Ceiling>,
    /// The tandems in the order given.
    pub(super) tandems: Vec<FactoredTandem>,
}

/// `ceil((S + offset) x inverse)`.
pub(super) struct Ceiling {
    pub(super) offset: f32,
    pub(super) inverse: f32,
}

/// One tandem: for each queue a shape and a factor.
pub(super) struct FactoredTandem {
    /// Staircases that differ by more than a factor.
    pub(super) shapes: Vec<Shape>,
    /// The queues with a cost, in order.
    pub(super) loaded: Vec<Loaded>,
    /// For each queue, the index among the loaded ones.
    pub(super) queues: Vec<Option<usize>>,
    /// Shape and factor of the protected size.
    pub(super) protected: Option<(usize, f64)>,
}

/// A queue's service: a shape times a scale.
pub(super) struct Loaded {
    pub(super) shape: usize,
    pub(super) scale: f64,
}

/// A staircase whose leading coefficient is 1.
pub(super) struct Shape {
    pub(super) fixed: f32,
    pub(super) per_byte: f32,
    /// Pairs of ceiling and height.
    pub(super) steps: Vec<(usize, f32)>,
    exact: Vec<(Term, f64)>,
}

/// The term that a coefficient belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Term {
    Ceiling(usize),
    Byte,
    Packet,
}

impl Factored {
    pub(super) fn new(tandems: &[Tandem]) -> Self {
        let mut found = Ceilings::default();
        let tandems = tandems
            .iter()
            .map(|tandem| FactoredTandem::new(tandem, &mut found))
            .collect();
        let ceilings = found
            .0
            .iter()
            .map(|&(offset, width)| Ceiling::new(offset, width));
        Self {
            ceilings: ceilings.collect(),
            tandems,
        }
    }
}

/// Pairs of offset and width, in the order found.
#[derive(Default)]
struct Ceilings(Vec<(f64, f64)>);

impl Ceilings {
    fn index(&mut self, step: &Step) -> usize {
        let wanted = (step.offset, step.width);
        let found = self.0.iter().position(|own| *own == wanted);
        found.unwrap_or_else(|| {
            self.0.push(wanted);
            self.0.len() - 1
        })
    }
}

impl Ceiling {
    fn new(offset: f64, width: f64) -> Self {
        let mut inverse = (1.0 / width) as f32;
        // A whole number of blocks must not be rounded up by a tiny error: if the inverse is
        // rounded, it must be too small by more than the product's own rounding.
        if f64::from(inverse) * width != 1.0 {
            inverse = (1.0 / width * (1.0 - 3e-7)) as f32;
        }
        Self {
            offset: offset as f32,
            inverse,
        }
    }
}

impl FactoredTandem {
    fn new(tandem: &Tandem, ceilings: &mut Ceilings) -> Self {
        let mut factored = Self {
            shapes: Vec::new(),
            loaded: Vec::new(),
            queues: Vec::new(),
            protected: None,
        };
        for queue in &tandem.queues {
            let place = factored
                .place(&queue.service, ceilings)
                .map(|(shape, scale)| {
                    factored.loaded.push(Loaded { shape, scale });
                    factored.loaded.len() - 1
                });
            factored.queues.push(place);
        }
        factored.protected = factored.place(&tandem.protected, ceilings);
        factored
    }

    /// The shape of a staircase, shared if there already is an equal one, and its factor.
    fn place(&mut self, staircase: &Staircase, ceilings: &mut Ceilings) -> Option<(usize, f64)> {
        let mut terms: Vec<(Term, f64)> = Vec::new();
        let mut add = |term: Term, value: f64| match terms.iter_mut().find(|own| own.0 == term) {
            Some(own) => own.1 += value,
            None => terms.push((term, value)),
        };
        for step in &staircase.steps {
            add(Term::Ceiling(ceilings.index(step)), step.height);
        }
        add(Term::Byte, staircase.per_byte);
        add(Term::Packet, staircase.fixed);
        terms.retain(|term| term.1 != 0.0);
        let scale = terms.first()?.1;
        for term in &mut terms {
            term.1 /= scale;
        }
        let found = self.shapes.iter().position(|shape| shape.is_like(&terms));
        let index = found.unwrap_or_else(|| {
            self.shapes.push(Shape::new(terms));
            self.shapes.len() - 1
        });
        Some((index, scale))
    }
}

impl Shape {
    fn new(exact: Vec<(Term, f64)>) -> Self {
        let mut shape = Self {
            fixed: 0.0,
            per_byte: 0.0,
            steps: Vec::new(),
            exact: Vec::new(),
        };
        for &(term, value) in &exact {
            match term {
                Term::Ceiling(index) => shape.steps.push((index, value as f32)),
                Term::Byte => shape.per_byte = value as f32,
                Term::Packet => shape.fixed = value as f32,
            }
        }
        shape.exact = exact;
        shape
    }

    fn is_like(&self, terms: &[(Term, f64)]) -> bool {
        let close = |one: f64, two: f64| (one - two).abs() <= ALIKE * one.abs();
        let mut pairs = self.exact.iter().zip(terms);
        self.exact.len() == terms.len()
            && pairs.all(|(one, two)| one.0 == two.0 && close(one.1, two.1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tandems::umts;
    use super::*;

    #[test]
    fn eight_queues_are_three_shapes() {
        let factored = Factored::new(&[umts("3des-md5", 100.0), umts("none", 100.0)]);
        // processors, the protected size, the clear size
        assert_eq!(factored.tandems[0].shapes.len(), 3);
        assert_eq!(factored.tandems[0].loaded.len(), 8);
        assert_eq!(factored.ceilings.len(), 3);
        // only links, without security
        assert_eq!(factored.tandems[1].loaded.len(), 6);
        assert_eq!(factored.tandems[1].queues[0], None);
        assert_eq!(factored.tandems[1].shapes.len(), 1);
    }
}

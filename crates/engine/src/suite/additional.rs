//! Additional key exchanges of a suite (RFC 9370 §2.2.1): the words `ke1_` to `ke7_` before the
//! word of a method.

use crypto::key_exchange::Method;

use super::SuiteFault;
use super::words::{self, Word};

/// Additional key exchanges that one suite can have.
pub const MAX_ADDITIONAL: usize = 7;

/// Key exchanges after the first one, in the order of their transform types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Additional([Option<Method>; MAX_ADDITIONAL]);

impl Additional {
    /// None at all.
    pub const NONE: Self = Self([None; MAX_ADDITIONAL]);

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Each with its place: 0 is ADDKE1.
    pub fn places(&self) -> impl Iterator<Item = (usize, Method)> {
        let all = self.0.into_iter().enumerate();
        all.filter_map(|(place, method)| Some((place, method?)))
    }

    /// The methods in order of execution.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.places().map(|(_, method)| method)
    }

    /// Puts a method into a place. Returns whether the place was free.
    fn put(&mut self, place: usize, method: Method) -> bool {
        self.0[place].replace(method).is_none()
    }
}

/// The additional key exchanges of a proposal, and the words without them.
pub(super) fn read(proposal: &str) -> Result<(Additional, String), SuiteFault> {
    let mut additional = Additional::default();
    let mut rest = Vec::new();
    for text in proposal.split('-') {
        let Some((place, name)) = split(text) else {
            rest.push(text);
            continue;
        };
        let found = words::find(&[words::METHODS], name);
        let Ok(Word::Method(method)) = found else {
            return Err(SuiteFault::Unknown {
                proposal: proposal.into(),
                word: name.into(),
                nearest: found.err().flatten(),
            });
        };
        if !additional.put(place, method) {
            return Err(SuiteFault::Twice {
                proposal: proposal.into(),
                word: text.into(),
                sort: "key exchange in this place",
            });
        }
    }
    Ok((additional, rest.join("-")))
}

/// Each method once (RFC 9370 §2.2.1).
pub(super) fn check(
    proposal: &str,
    first: Method,
    additional: &Additional,
) -> Result<(), SuiteFault> {
    let mut seen = vec![first];
    for method in additional.methods() {
        if seen.contains(&method) {
            return Err(SuiteFault::Contradiction {
                proposal: proposal.into(),
                why: "a key exchange method that comes twice adds nothing",
            });
        }
        seen.push(method);
    }
    Ok(())
}

/// The place and the method's word of a text such as `ke1_mlkem768`.
fn split(text: &str) -> Option<(usize, &str)> {
    let rest = text.strip_prefix("ke")?;
    let (number, method) = rest.split_once('_')?;
    let number: usize = number.parse().ok()?;
    let is_place = (1..=MAX_ADDITIONAL).contains(&number);
    is_place.then_some((number - 1, method))
}

impl core::fmt::Display for Additional {
    /// Each with a hyphen before it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.places().try_for_each(|(place, method)| {
            write!(f, "-ke{}_{}", place + 1, words::of_method(method))
        })
    }
}

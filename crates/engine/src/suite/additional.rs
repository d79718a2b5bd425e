//! Additional key exchanges of a suite (RFC 9370 §2.2.1): the words `ke1_` to `ke7_` before the
//! word of a method.

use crypto::key_exchange::Method;

use super::words;

/// Additional key exchanges that one suite can have.
pub const MAX_ADDITIONAL: usize = 7;

/// Key exchanges after the first one, in the order of their transform types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Additional([Option<Method>; MAX_ADDITIONAL]);

impl Additional {
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
    pub(super) fn put(&mut self, place: usize, method: Method) -> bool {
        self.0[place].replace(method).is_none()
    }
}

/// The place and the method's word of a text such as `ke1_mlkem768`.
pub(super) fn split(text: &str) -> Option<(usize, &str)> {
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

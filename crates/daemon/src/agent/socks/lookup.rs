//! A name's addresses, asked for through the tunnel in each family that we have there.

use std::net::IpAddr;

use super::stack::{Question, Stack};

pub(super) struct Lookup {
    asked: Vec<Question>,
    found: Vec<IpAddr>,
}

impl Lookup {
    /// `None`: there are too many questions, or this is no name.
    pub(super) fn begin(stack: &mut Stack, name: &str) -> Option<Self> {
        let families = [true, false].into_iter();
        let families: Vec<bool> = families.filter(|it| stack.has_family(*it)).collect();
        let asked = families.into_iter().filter_map(|it| stack.ask(name, it));
        let asked: Vec<Question> = asked.collect();
        let found = Vec::new();
        (!asked.is_empty()).then_some(Self { asked, found })
    }

    /// The addresses, once all answers are there; none: the name has none, or nobody answered.
    pub(super) fn turn(&mut self, stack: &mut Stack) -> Option<Vec<IpAddr>> {
        for question in std::mem::take(&mut self.asked) {
            match stack.answer(question) {
                Ok(found) => self.found.extend(found),
                Err(question) => self.asked.push(question),
            }
        }
        // RFC 6724 §2.1 prefers IPv6.
        self.found.sort_by_key(IpAddr::is_ipv4);
        let is_done = self.asked.is_empty();
        is_done.then(|| std::mem::take(&mut self.found))
    }

    pub(super) fn cancel(&mut self, stack: &mut Stack) {
        for question in self.asked.drain(..) {
            stack.forget(question);
        }
    }
}

//! What Host's database does: the states of a one-time key, and the one rule by which they change.
//! Several Hosts may share it; [`Record::apply`] must then run in one transaction.

use crypto::ed25519::VerifyKey;
use crypto::hash::is_equal;
use zeroize::ZeroizeOnDrop;

use crate::agent::ppk::KeyPpk;
use crate::agent::{Digest, Handle};
use crate::time::Calendar;

/// What Host asks its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Reads a key.
    Find(Handle),
    /// Takes a key for a request. It is never valid again.
    Take {
        /// The key.
        handle: Handle,
        /// The request.
        request: Digest,
        /// When.
        at: Calendar,
    },
    /// Remembers that a request was refused while its key stayed valid: whoever has recorded it
    /// cannot spend the key with it later, here or at another Host.
    Refuse {
        /// The key.
        handle: Handle,
        /// The request.
        request: Digest,
        /// Whether it named another user than the key's.
        is_wrong_user: bool,
    },
    /// Ends what [`Self::Take`] has begun.
    Finish {
        /// The key.
        handle: Handle,
        /// The request that has taken it.
        request: Digest,
        /// What Client is sent, each time that it asks by the same octets. None: no tunnel.
        answer: Option<Vec<u8>>,
    },
    /// Marks all keys as failed that were taken before this time and are not used yet: their Host
    /// is gone.
    Sweep {
        /// The time.
        before: Calendar,
    },
}

/// What the database says.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Ask::Find`].
    Found(Option<Record>),
    /// To [`Ask::Take`]: this request has it.
    Taken,
    /// To [`Ask::Take`]: this request was refused before.
    RefusedBefore,
    /// To [`Ask::Refuse`]: it is written.
    Noted,
    /// To all three: nothing was changed, because of this state.
    Unchanged(State),
    /// To [`Ask::Finish`]: it is written.
    Finished,
    /// To [`Ask::Sweep`]: these have failed.
    Swept(Vec<Handle>),
    /// It is locked, full or gone. What was asked may have been done.
    Unavailable,
}

/// A one-time key.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Host's half.
    pub half: Half,
    /// Its user.
    pub user: String,
    /// The last moment at which it may be used.
    pub not_after: Calendar,
    /// How far it is.
    pub state: State,
    /// What was refused while it was valid.
    pub refusals: Refusals,
    /// What it gives for the tunnel's PPK, while it is valid: it is forgotten with the key.
    pub ppk: Option<KeyPpk>,
}

/// Requests of a key's holder that were refused and have spent nothing. A key with too many of
/// them is revoked: somebody tries out what its user would know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Each, once.
    pub requests: Vec<Digest>,
    /// How many of them named a wrong user.
    pub wrong_users: u32,
}

/// Refused requests of one key.
pub const REFUSALS_MAX: usize = 64;
/// Those of them that named a wrong user.
pub const WRONG_USERS_MAX: u32 = 5;

/// What Host has of a key.
#[derive(Clone, ZeroizeOnDrop)]
pub enum Half {
    /// The public half.
    Public(#[zeroize(skip)] VerifyKey),
    /// All of it ([`crate::agent::legacy`]).
    Shared([u8; 32]),
}

/// States go forwards only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It may be used.
    Valid,
    /// A request has it.
    Taken {
        /// Which.
        request: Digest,
        /// Since when.
        at: Calendar,
    },
    /// It has made a tunnel.
    Used {
        /// By this request.
        request: Digest,
        /// What Client was sent; the owner may forget it after [`super::ANSWER_LIVES`].
        answer: Option<Vec<u8>>,
    },
    /// It has made no tunnel, and never will.
    Failed {
        /// By this request.
        request: Digest,
    },
    /// The administrator has revoked it, or too many of its requests were refused.
    Revoked,
}

impl PartialEq for Half {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public(one), Self::Public(other)) => one == other,
            (Self::Shared(one), Self::Shared(other)) => is_equal(one, other),
            _ => false,
        }
    }
}

impl Eq for Half {}

impl Refusals {
    /// Whether this request was refused.
    pub fn has(&self, request: &Digest) -> bool {
        self.requests.contains(request)
    }

    /// Whether the key has had too many with this one.
    fn add(&mut self, request: Digest, is_wrong_user: bool) -> bool {
        if !self.has(&request) {
            self.requests.push(request);
            self.wrong_users += u32::from(is_wrong_user);
        }
        self.requests.len() >= REFUSALS_MAX || self.wrong_users >= WRONG_USERS_MAX
    }
}

impl Record {
    /// A key that nobody has used.
    pub fn new(half: Half, user: String, not_after: Calendar) -> Self {
        Self {
            half,
            user,
            not_after,
            state: State::Valid,
            refusals: Refusals::default(),
            ppk: None,
        }
    }

    /// Does what is asked of this key, and answers. [`Ask::Sweep`] is applied to each key; one that
    /// fails by it answers [`Answer::Finished`].
    pub fn apply(&mut self, ask: &Ask) -> Answer {
        let answer = self.changed(ask);
        self.forget();
        answer
    }

    /// Whatever a key that is not valid was good for.
    fn forget(&mut self) {
        if self.state != State::Valid {
            self.ppk = None;
        }
    }

    fn changed(&mut self, ask: &Ask) -> Answer {
        match (ask, &self.state) {
            (Ask::Find(_), _) => Answer::Found(Some(self.clone())),
            (Ask::Take { request, .. }, State::Valid) if self.refusals.has(request) => {
                Answer::RefusedBefore
            }
            (
                Ask::Refuse {
                    request,
                    is_wrong_user,
                    ..
                },
                State::Valid,
            ) => {
                if self.refusals.add(*request, *is_wrong_user) {
                    self.state = State::Revoked;
                }
                Answer::Noted
            }
            (Ask::Take { request, at, .. }, State::Valid) if *at <= self.not_after => {
                self.state = State::Taken {
                    request: *request,
                    at: *at,
                };
                Answer::Taken
            }
            (
                Ask::Finish {
                    request, answer, ..
                },
                State::Taken { request: by, .. },
            ) if request == by => {
                let (request, answer) = (*request, answer.clone());
                self.state = match answer.is_some() {
                    true => State::Used { request, answer },
                    false => State::Failed { request },
                };
                Answer::Finished
            }
            (Ask::Sweep { before }, State::Taken { request, at }) if at < before => {
                self.state = State::Failed { request: *request };
                Answer::Finished
            }
            (_, state) => Answer::Unchanged(state.clone()),
        }
    }

    /// The administrator revokes it. False if it was taken before.
    pub fn revoke(&mut self) -> bool {
        let is_valid = self.state == State::Valid;
        if is_valid {
            self.state = State::Revoked;
            self.forget();
        }
        is_valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle([1; 16]);
    const AT: Calendar = Calendar(100);

    fn asks() -> Vec<Ask> {
        let mut list = vec![
            Ask::Sweep { before: AT },
            Ask::Sweep {
                before: Calendar(101),
            },
        ];
        for request in [Digest([1; 32]), Digest([2; 32])] {
            let handle = HANDLE;
            list.push(Ask::Take {
                handle,
                request,
                at: AT,
            });
            list.push(Ask::Take {
                handle,
                request,
                at: Calendar(1_001),
            });
            list.push(Ask::Refuse {
                handle,
                request,
                is_wrong_user: true,
            });
            for answer in [None, Some(vec![1])] {
                list.push(Ask::Finish {
                    handle,
                    request,
                    answer,
                });
            }
        }
        list
    }

    fn rank(state: &State) -> u8 {
        match state {
            State::Valid => 0,
            State::Taken { .. } => 1,
            State::Used { .. } | State::Failed { .. } | State::Revoked => 2,
        }
    }

    /// Every order of asks, four deep: states go forwards only, and one request takes a key.
    #[test]
    fn no_order_of_asks_makes_a_key_valid_again() {
        let half = Half::Public(VerifyKey([0; 32]));
        let record = Record::new(half, "alice".into(), Calendar(1_000));
        let mut worlds = vec![(record, 0)];
        for _ in 0..4 {
            let mut next = Vec::new();
            for (record, taken) in worlds {
                for ask in asks() {
                    let mut after = record.clone();
                    let answer = after.apply(&ask);
                    let is_changed = after.state != record.state;
                    let is_still = matches!(
                        answer,
                        Answer::Unchanged(_) | Answer::RefusedBefore | Answer::Noted
                    );
                    assert_eq!(is_changed, !is_still);
                    if let (Answer::Taken, Ask::Take { request, .. }) = (&answer, &ask) {
                        assert!(!record.refusals.has(request));
                    }
                    assert!(rank(&after.state) >= rank(&record.state));
                    assert!(!is_changed || rank(&after.state) > rank(&record.state));
                    let taken = taken + u32::from(answer == Answer::Taken);
                    assert!(taken <= 1);
                    next.push((after, taken));
                }
            }
            worlds = next;
        }
    }

    #[test]
    fn a_revoked_or_expired_key_is_not_taken() {
        let half = Half::Shared([0; 32]);
        let mut record = Record::new(half, "alice".into(), Calendar(99));
        let take = Ask::Take {
            handle: HANDLE,
            request: Digest([1; 32]),
            at: AT,
        };
        assert!(record.apply(&take) == Answer::Unchanged(State::Valid));
        assert!(record.revoke() && !record.revoke());
        record.not_after = AT;
        assert!(record.apply(&take) == Answer::Unchanged(State::Revoked));
    }

    /// The same request counts once, however often it is repeated.
    #[test]
    fn a_key_with_too_many_refusals_is_revoked() {
        let refuse = |number: u8, is_wrong_user| Ask::Refuse {
            handle: HANDLE,
            request: Digest([number; 32]),
            is_wrong_user,
        };
        for (is_wrong_user, most) in [(true, WRONG_USERS_MAX as u8), (false, REFUSALS_MAX as u8)] {
            let half = Half::Shared([0; 32]);
            let mut record = Record::new(half, "alice".into(), Calendar(1_000));
            for number in 1..most {
                for _ in 0..3 {
                    assert!(record.apply(&refuse(number, is_wrong_user)) == Answer::Noted);
                }
                assert_eq!(record.state, State::Valid);
            }
            assert!(record.apply(&refuse(most, is_wrong_user)) == Answer::Noted);
            assert_eq!(record.state, State::Revoked);
            let late = record.apply(&refuse(200, is_wrong_user));
            assert!(late == Answer::Unchanged(State::Revoked));
            assert_eq!(record.refusals.requests.len(), usize::from(most));
        }
    }
}

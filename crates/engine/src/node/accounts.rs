//! Session accounting: who was connected, how long, and how much traffic they had. There is one
//! account for each stay of a peer.
//!
//! An account opens with the first child of a session and moves with the children from session to
//! session, so a renewal does not end it. It ends with the last session that has it. The planes
//! count packets and report an SA's counts when they remove it ([`Notice::Removed`]). So the end is
//! reported when both planes have answered.
//!
//! [`Notice::Removed`]: crate::plane::Notice::Removed

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::session::Session;
use super::session_id::SessionId;
use super::stay::{AccountId, Stay, StayId, Summary, Traffic};
use super::{EndCause, Event, Node, Timer};
use crate::identity::Peer;
use crate::plane::SaReport;
use crate::sa::{ChildId, Direction, Path};
use crate::time::{Deadline, Duration, Instant};

/// After this time an end is reported without the counts of a plane that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

struct Account {
    id: StayId,
    peer: Peer,
    remote: SocketAddr,
    inner: Box<[IpAddr]>,
    /// When its beginning was reported.
    since: Option<Instant>,
    received: Traffic,
    sent: Traffic,
    /// SAs whose counts are still in a plane.
    open: usize,
    ended: Option<Box<(EndCause, Instant)>>,
}

impl Account {
    fn stay(&self) -> Stay {
        Stay {
            id: self.id,
            connection: self.peer.connection().to_owned(),
            identity: self.peer.to_string(),
            remote: self.remote,
            inner: self.inner.to_vec(),
        }
    }
}

/// An SA in a plane.
type SaKey = (ChildId, Direction, u32);

/// Every account that is open or waits for the planes.
#[derive(Default)]
pub(super) struct Accounts {
    next: u64,
    /// Boxed: a tree of ever newer keys is half empty.
    by_id: BTreeMap<AccountId, Box<Account>>,
    by_sa: BTreeMap<SaKey, AccountId>,
    /// Accounts that have ended and wait, the earliest first. Some may have been reported.
    ended: VecDeque<(Instant, AccountId)>,
    armed: Option<Instant>,
}

impl Accounts {
    /// Whether no end waits for the planes.
    pub(super) fn are_told(&self) -> bool {
        self.ended.is_empty()
    }

    /// Whether nobody is connected, and nothing waits.
    #[cfg(test)]
    pub(super) fn are_empty(&self) -> bool {
        self.by_id.is_empty() && self.by_sa.is_empty() && self.ended.is_empty()
    }

    fn open(&mut self, account: Account) -> AccountId {
        let id = AccountId(self.next);
        self.next += 1;
        self.by_id.insert(id, Box::new(account));
        id
    }

    /// An SA enters a plane; this account counts it.
    fn charge(&mut self, key: SaKey, to: AccountId) {
        if self.by_sa.insert(key, to).is_none()
            && let Some(account) = self.by_id.get_mut(&to)
        {
            account.open += 1;
        }
    }

    /// A plane has reported what an SA carried. Returns its account if that has ended and is
    /// complete.
    fn settle(&mut self, direction: Direction, counted: &SaReport) -> Option<AccountId> {
        let id = self
            .by_sa
            .remove(&(counted.child, direction, counted.spi))?;
        let account = self.by_id.get_mut(&id)?;
        let traffic = match direction {
            Direction::Inbound => &mut account.received,
            Direction::Outbound => &mut account.sent,
        };
        traffic.packets += counted.packets;
        traffic.bytes += counted.bytes;
        account.open -= 1;
        (account.open == 0 && account.ended.is_some()).then_some(id)
    }

    /// Removes an ended account. Returns what to report, if its beginning was reported.
    fn close(&mut self, id: AccountId) -> Option<Event> {
        let account = self.by_id.remove(&id)?;
        let is_over = |it: &&(Instant, AccountId)| !self.by_id.contains_key(&it.1);
        let over = self.ended.iter().take_while(is_over).count();
        self.ended.drain(..over);
        let is_complete = account.open == 0;
        if !is_complete {
            self.by_sa.retain(|_, of| *of != id);
        }
        let stay = Box::new(account.stay());
        let ((cause, at), since) = (*account.ended?, account.since?);
        let summary = Summary {
            cause,
            duration: at.since(since),
            received: account.received,
            sent: account.sent,
            is_complete,
        };
        Some(Event::SessionEnded {
            stay,
            summary: Box::new(summary),
        })
    }

    fn deadline(&self) -> Option<Deadline> {
        let (at, _) = self.ended.front()?;
        Some(Deadline {
            at: *at + PATIENCE,
            why: "tell the end of a session without a plane's counts",
        })
    }
}

impl Node {
    /// An SA of this session is about to enter a plane.
    pub(super) fn charge(&mut self, id: SessionId, key: SaKey) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let account = match session.held.account {
            Some(account) => account,
            None => {
                let Some(account) = session.open_account() else {
                    return;
                };
                *session.held.account.insert(self.accounts.open(account))
            }
        };
        self.accounts.charge(key, account);
    }

    /// A child of this session is up. The first one begins its peer's stay.
    pub(super) fn tell_stay(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let account = session
            .held
            .account
            .and_then(|it| self.accounts.by_id.get_mut(&it));
        let Some(account) = account else { return };
        account.inner = session.inner_addresses();
        if account.since.is_none() {
            account.since = Some(now);
            account.remote = session.path().remote;
            let stay = Box::new(account.stay());
            self.outputs.tell(Event::SessionBegan { stay });
        }
    }

    /// The session that held an account is gone, and none has taken it over.
    pub(super) fn end_stay(
        &mut self,
        (account, path): (Option<AccountId>, Path),
        cause: EndCause,
        now: Instant,
    ) {
        let Some(id) = account else {
            return;
        };
        let Some(account) = self.accounts.by_id.get_mut(&id) else {
            return;
        };
        account.remote = path.remote;
        account.ended = Some(Box::new((cause, now)));
        if account.open == 0 {
            return self.close_account(id);
        }
        self.accounts.ended.push_back((now, id));
        self.arm_accounts();
    }

    /// A plane has removed an SA.
    pub(super) fn on_removed(&mut self, direction: Direction, counted: &SaReport) {
        if let Some(id) = self.accounts.settle(direction, counted) {
            self.close_account(id);
            self.arm_accounts();
        }
    }

    pub(super) fn on_accounts_timer(&mut self, now: Instant) {
        while let Some((at, id)) = self.accounts.ended.front().copied()
            && at + PATIENCE <= now
        {
            self.close_account(id);
        }
        self.arm_accounts();
    }

    fn close_account(&mut self, id: AccountId) {
        if let Some(event) = self.accounts.close(id) {
            self.outputs.tell(event);
        }
        self.tell_if_stopped();
    }

    fn arm_accounts(&mut self) {
        let deadline = self.accounts.deadline();
        let armed = &mut self.accounts.armed;
        self.timers.arm(Timer::Accounts, armed, deadline);
    }
}

impl Session {
    fn open_account(&self) -> Option<Account> {
        Some(Account {
            id: StayId(self.ike.spis().responder),
            peer: self.ike.identity()?.clone(),
            remote: self.path().remote,
            inner: self.inner_addresses(),
            since: None,
            received: Traffic::default(),
            sent: Traffic::default(),
            open: 0,
            ended: None,
        })
    }

    /// Inner addresses that the peer or we were assigned.
    fn inner_addresses(&self) -> Box<[IpAddr]> {
        let lent = self.held.lease.iter().flat_map(|lease| &lease.addresses);
        lent.chain(&self.held.stand_ins).copied().collect()
    }
}

//! The task that applies the desired state of the host. Only this task talks to the steward, so
//! control never waits for netlink. The newest desired state wins: one that is replaced before its
//! turn is never applied. `docs/design/control-and-packets.md` says what may lag behind what.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::Context;
use engine::node::Ways;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::config::Texts;
use crate::dns::Resolvers;
use crate::routes::Desired;
use crate::steward::client::Steward;
use crate::steward::{Counts, Untaken};

/// Requests that wait for the steward. The user and a reload each have one at a time.
const ASKS_MAX: usize = 16;
/// Events that control has not read yet.
const EVENTS_MAX: usize = 16;
/// After a search for our addresses, the next one for the same peers waits this many times as long
/// as the search took. So a host whose routes change all the time keeps the steward busy for a
/// tenth of the time, and a single change is looked at at once.
const WAYS_PAUSE: u32 = 9;

/// How the host should be.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct HostState {
    pub(super) desired: Desired,
    pub(super) resolvers: Resolvers,
}

/// The newest values that control wants applied or answered. Each has a number that grows.
#[derive(Clone, Default)]
struct Newest {
    host: Option<WantedHost>,
    ways: Option<WantedWays>,
}

#[derive(Clone)]
struct WantedHost {
    number: u64,
    /// The configuration that it comes from.
    revision: u64,
    state: HostState,
}

#[derive(Clone)]
struct WantedWays {
    number: u64,
    ends: Ends,
}

/// Which of our addresses lead to these peers?
#[derive(Clone, Default, PartialEq, Eq)]
struct Ends {
    peers: BTreeSet<IpAddr>,
    /// Addresses that the configuration names.
    named: BTreeSet<IpAddr>,
}

/// Other requests to the steward, served in order. The newest values have their turn after each.
pub(super) enum Ask {
    /// What has the steward counted?
    KeptOut(oneshot::Sender<anyhow::Result<Counts>>),
    /// Read the configuration and its files.
    Read(oneshot::Sender<anyhow::Result<Texts>>),
    /// Put the configuration that was read last into force. Desired states of the former one are
    /// not applied after that.
    Adopt(oneshot::Sender<anyhow::Result<()>>),
    /// Set the largest inner packet.
    Resize(u16, oneshot::Sender<anyhow::Result<()>>),
    /// Undo everything and end.
    End { lifts: bool },
}

/// What the task reports to control.
pub(super) enum KeeperEvent {
    /// These resolvers cannot be taken; none: all are. Comes before the state is applied, if it is
    /// another answer than the last one.
    Resolvers(Option<Untaken>),
    /// The desired state of this number is applied.
    Applied(u64),
    /// The host refused the desired state of this number, or the steward does not answer.
    Refused(u64, anyhow::Error),
    /// The steward could not say which addresses are ours.
    NotFound(anyhow::Error),
    /// The steward has ended.
    StewardGone,
    /// Our addresses towards the peers, and all addresses that programs can use as a source.
    Ways(Ways, Vec<IpAddr>),
}

/// Control's handle of the task.
pub(super) struct Keeper {
    newest: watch::Sender<Newest>,
    asks: mpsc::Sender<Ask>,
    events: mpsc::Receiver<KeeperEvent>,
    task: JoinHandle<anyhow::Result<()>>,
    /// Numbers of the newest desired state, of the last applied one, and of the newest question.
    wanted: u64,
    applied: u64,
    asked: u64,
}

impl Keeper {
    /// Starts the task. Must run within a tokio runtime.
    pub(super) fn start(steward: Steward) -> Self {
        let (newest, newest_of_task) = watch::channel(Newest::default());
        let (asks, asks_of_task) = mpsc::channel(ASKS_MAX);
        let (events_of_task, events) = mpsc::channel(EVENTS_MAX);
        let task = Task {
            steward,
            newest: newest_of_task,
            asks: asks_of_task,
            events: events_of_task,
            revision: 0,
            tried_host: 0,
            tried_ways: 0,
            found: Ends::default(),
            find_again_at: Instant::now(),
            is_finding_late: false,
            untaken: None,
            is_steward_gone: false,
        };
        Self {
            newest,
            asks,
            events,
            task: tokio::spawn(task.run()),
            wanted: 0,
            applied: 0,
            asked: 0,
        }
    }

    /// Wants this state, which comes from the configuration of this revision.
    pub(super) fn want(&mut self, revision: u64, state: HostState) {
        self.wanted += 1;
        let host = WantedHost {
            number: self.wanted,
            revision,
            state,
        };
        self.newest.send_modify(|newest| newest.host = Some(host));
    }

    /// The number of the newest desired state.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether there is a desired state, and the newest one is applied.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.wanted > 0 && self.applied == self.wanted
    }

    /// Whether the desired state of this number, or a newer one, is applied.
    pub(super) fn has_applied(&self, number: u64) -> bool {
        self.applied >= number
    }

    /// Asks which of our addresses lead to these peers. [`KeeperEvent::Ways`] is the answer.
    pub(super) fn ask_ways(&mut self, peers: BTreeSet<IpAddr>, named: BTreeSet<IpAddr>) {
        self.asked += 1;
        let ways = WantedWays {
            number: self.asked,
            ends: Ends { peers, named },
        };
        self.newest.send_modify(|newest| newest.ways = Some(ways));
    }

    /// For other requests.
    pub(super) fn asks(&self) -> mpsc::Sender<Ask> {
        self.asks.clone()
    }

    /// The next event. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> KeeperEvent {
        let event = self.events.recv().await;
        if let Some(KeeperEvent::Applied(number)) = &event {
            self.applied = *number;
        }
        event.unwrap_or(KeeperEvent::StewardGone)
    }

    /// Applies the newest desired state, then undoes everything, the blocks only if `lifts`.
    /// Returns when the steward has ended.
    pub(super) async fn close(self, lifts: bool) -> anyhow::Result<()> {
        // Nobody reads events from here on, so the task must not wait for a reader.
        drop(self.events);
        let _ = self.asks.send(Ask::End { lifts }).await;
        self.task.await.context("the task that changes the host")?
    }
}

/// Sends a request to the steward's task and waits for the answer.
pub(super) async fn ask<T>(
    asks: &mpsc::Sender<Ask>,
    ask: impl FnOnce(oneshot::Sender<anyhow::Result<T>>) -> Ask,
) -> anyhow::Result<T> {
    const ENDS: &str = "the process ends";
    let (reply, answer) = oneshot::channel();
    asks.send(ask(reply)).await.ok().context(ENDS)?;
    answer.await.context(ENDS)?
}

/// The state of the task.
struct Task {
    steward: Steward,
    newest: watch::Receiver<Newest>,
    asks: mpsc::Receiver<Ask>,
    events: mpsc::Sender<KeeperEvent>,
    /// How many configurations the steward has adopted after the first.
    revision: u64,
    /// Numbers of the last state and the last question that were tried.
    tried_host: u64,
    tried_ways: u64,
    /// The last question that was answered, and when the same one may be answered again.
    found: Ends,
    find_again_at: Instant,
    /// The newest question waits for that.
    is_finding_late: bool,
    /// The resolvers that could not be taken.
    untaken: Option<Untaken>,
    is_steward_gone: bool,
}

impl Task {
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                biased;
                ask = self.asks.recv() => match ask {
                    Some(Ask::End { lifts }) => return self.end(lifts).await,
                    Some(ask) => {
                        self.obey(ask).await;
                        // Many requests must not keep the host from its newest state.
                        if self.newest.has_changed().unwrap_or(false) {
                            self.serve_newest().await;
                        }
                    }
                    // The process failed. Dropping the steward lets it undo everything.
                    None => return Ok(()),
                },
                Ok(()) = self.newest.changed() => self.serve_newest().await,
                () = sleep_until(self.find_again_at), if self.is_finding_late => {
                    self.find_ways().await;
                }
                () = self.steward.gone(), if !self.is_steward_gone => {
                    self.is_steward_gone = true;
                    self.report(KeeperEvent::StewardGone).await;
                }
            }
        }
    }

    /// Serves the newest values. The search is short, and applying may wait for other programs: a
    /// new address must not wait for that.
    async fn serve_newest(&mut self) {
        // Values are marked as seen before they are served: one that comes while the steward is
        // busy causes another round.
        self.newest.mark_unchanged();
        self.find_ways().await;
        // The steward would refuse what the configuration in force does not name. Control sends the
        // state of the new configuration soon.
        let is_ours = |it: &WantedHost| it.revision == self.revision;
        if let Some(wanted) = self.untried().filter(is_ours) {
            let number = wanted.number;
            let event = match self.apply(wanted).await {
                Ok(untaken) => {
                    if untaken != self.untaken {
                        self.untaken.clone_from(&untaken);
                        self.report(KeeperEvent::Resolvers(untaken)).await;
                    }
                    KeeperEvent::Applied(number)
                }
                Err(error) => KeeperEvent::Refused(number, error),
            };
            self.report(event).await;
        }
    }

    /// The newest desired state, unless it was tried already.
    fn untried(&self) -> Option<WantedHost> {
        let wanted = self.newest.borrow().host.clone();
        wanted.filter(|it| it.number != self.tried_host)
    }

    async fn apply(&mut self, wanted: WantedHost) -> anyhow::Result<Option<Untaken>> {
        self.tried_host = wanted.number;
        let HostState { desired, resolvers } = wanted.state;
        Ok(self.steward.apply(desired, resolvers).await?)
    }

    /// Answers the newest question about our addresses.
    async fn find_ways(&mut self) {
        let wanted = self.newest.borrow().ways.clone();
        let Some(wanted) = wanted.filter(|it| it.number != self.tried_ways) else {
            return;
        };
        let begun = Instant::now();
        self.is_finding_late = wanted.ends == self.found && begun < self.find_again_at;
        if self.is_finding_late {
            return;
        }
        self.tried_ways = wanted.number;
        let peers = wanted.ends.peers.iter().copied().collect();
        let named = wanted.ends.named.iter().copied().collect();
        let found = self.steward.ways(peers, named).await;
        self.find_again_at = Instant::now() + begun.elapsed() * WAYS_PAUSE;
        self.found = wanted.ends;
        self.report(match found {
            Ok((ways, own)) => KeeperEvent::Ways(Ways(ways), own),
            Err(error) => KeeperEvent::NotFound(error.into()),
        })
        .await;
    }

    async fn obey(&mut self, ask: Ask) {
        // Whoever asked may be gone.
        match ask {
            // A report that was too late.
            Ask::KeptOut(reply) if reply.is_closed() => {}
            Ask::KeptOut(reply) => {
                let _ = reply.send(self.steward.kept_out().await.map_err(Into::into));
            }
            Ask::Read(reply) => {
                let _ = reply.send(self.steward.read().await.map_err(Into::into));
            }
            Ask::Adopt(reply) => {
                let adopted = self.steward.adopt().await;
                self.revision += u64::from(adopted.is_ok());
                let _ = reply.send(adopted.map_err(Into::into));
            }
            Ask::Resize(mtu, reply) => {
                let _ = reply.send(self.steward.resize(mtu).await.map_err(Into::into));
            }
            // `run` handles it.
            Ask::End { .. } => {}
        }
    }

    /// The newest desired state decides which blocks stay, so it is applied first. Control may not
    /// have heard of the configuration that was adopted last. Then the steward decides whether that
    /// one allows the state.
    async fn end(mut self, lifts: bool) -> anyhow::Result<()> {
        let mut applied = Ok(());
        if let Some(wanted) = self.untried() {
            let is_former = wanted.revision != self.revision;
            applied = self.apply(wanted).await.map(drop);
            if is_former && let Err(error) = core::mem::replace(&mut applied, Ok(())) {
                warn!("the host is not as the former configuration wants it: {error:#}");
            }
        }
        let ended = self.steward.end(lifts).await;
        applied.and(ended.map_err(Into::into))
    }

    async fn report(&self, event: KeeperEvent) {
        let _ = self.events.send(event).await;
    }
}

#[cfg(test)]
pub(super) mod tests;

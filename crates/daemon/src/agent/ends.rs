//! The worker that builds ends of tunnels, watches them and takes them down, through whatever
//! IPsec implementation is there.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::agent::TunnelId;
use engine::agent::description::Description;
use engine::agent::ike::IkeAbilities;
use engine::agent::objectives::Options;
use engine::agent::target::Seen;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::backend::{Backend, State};
use super::worker::{self, Orders};

/// Pause between two looks at all ends.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A tunnel that was up and is not for so many looks is lost. One may fall into a renewal.
const LOOKS_MAX: u32 = 6;

/// What the worker is told.
pub(super) enum Order {
    /// Says whether an end could be built.
    CanBuild(u64),
    /// Builds an end, and watches it.
    Build(u64, Box<Description>),
    /// Takes one down, whatever is there of it.
    Destroy(u64, TunnelId),
}

/// What it says.
pub(super) enum Report {
    /// The order of this number is done, or has failed.
    Done(u64, bool),
    /// IKE has made this tunnel; and what the back-end knows of it.
    Up(TunnelId, Seen),
    /// It is there, and nobody can see whether it is used.
    Open(TunnelId),
    /// A tunnel that was up is gone, for this reason if the back-end knows it.
    Lost(TunnelId, Option<String>),
    /// IKE has failed before it was up.
    Failed,
}

/// The worker.
pub(super) struct Ends {
    /// Its queue.
    pub(super) orders: Orders<Order>,
    /// What the back-end can do.
    pub(super) options: Options,
    /// What it can do in IKE.
    pub(super) ike: IkeAbilities,
    thread: JoinHandle<()>,
}

impl Ends {
    /// Waits until all that was ordered is done and the back-end is closed. The queue must have no
    /// other owner.
    pub(super) fn close(self) {
        drop(self.orders);
        let _ = self.thread.join();
    }
}

/// Starts it. Returns also which of the `former` tunnels are up; it watches those.
pub(super) async fn start<F>(
    open: impl FnOnce() -> F + Send + 'static,
    former: Vec<TunnelId>,
    reports: mpsc::Sender<Report>,
) -> anyhow::Result<(Ends, Vec<TunnelId>)>
where
    F: Future<Output = anyhow::Result<Backend>>,
{
    let (tell, told) = oneshot::channel();
    let (orders, thread) = worker::start("back-end", move |queue, ready| async move {
        let mut back_end = match open().await {
            Ok(back_end) => back_end,
            Err(fault) => return drop(ready.send(Err(fault))),
        };
        let mut watched = BTreeMap::new();
        for tunnel in former {
            if matches!(back_end.state(tunnel).await, Ok(State::Up | State::Open)) {
                watched.insert(tunnel, Watched::up());
            }
        }
        let up = watched.keys().copied().collect();
        let _ = tell.send((back_end.options(), back_end.ike(), up));
        let _ = ready.send(Ok(()));
        let mut worker = Worker {
            back_end,
            watched,
            unseen: Vec::new(),
            reports,
            trouble: None,
        };
        worker.work(queue).await;
        worker.back_end.close().await;
    })
    .await?;
    let (options, ike, up) = told.await?;
    let ends = Ends {
        orders,
        options,
        ike,
        thread,
    };
    Ok((ends, up))
}

/// An end that was built.
struct Watched {
    is_up: bool,
    /// Looks since it was up last.
    looks: u32,
    /// The last look has found how it is.
    is_told: bool,
}

impl Watched {
    fn up() -> Self {
        Self {
            is_up: true,
            looks: 0,
            is_told: true,
        }
    }
}

struct Worker {
    back_end: Backend,
    watched: BTreeMap<TunnelId, Watched>,
    /// Ends that this look has not come to.
    unseen: Vec<TunnelId>,
    reports: mpsc::Sender<Report>,
    /// Why nothing could be built when it was asked last.
    trouble: Option<String>,
}

impl Worker {
    async fn work(&mut self, mut queue: mpsc::Receiver<Order>) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_heard = tokio::select! {
                biased;
                order = queue.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                () = core::future::ready(()), if !self.unseen.is_empty() => self.look().await,
                _ = look.tick() => {
                    self.unseen = self.watched.keys().copied().collect();
                    true
                }
            };
            if !is_heard {
                return;
            }
        }
    }

    /// Whether somebody hears what came of it.
    async fn obey(&mut self, order: Order) -> bool {
        let (number, done) = match order {
            Order::CanBuild(number) => {
                let can_build = self.can_build().await;
                return self.say(Report::Done(number, can_build)).await;
            }
            Order::Build(number, description) => {
                let tunnel = description.tunnel;
                let done = self.back_end.build(&description).await;
                if done.is_ok() {
                    let watched = Watched {
                        is_up: false,
                        looks: 0,
                        is_told: true,
                    };
                    self.watched.insert(tunnel, watched);
                }
                (number, done)
            }
            Order::Destroy(number, tunnel) => {
                self.watched.remove(&tunnel);
                (number, self.back_end.destroy(tunnel).await)
            }
        };
        if let Err(fault) = &done {
            warn!("the back-end: {fault}");
        }
        self.say(Report::Done(number, done.is_ok())).await
    }

    /// Asks the back-end, and says it when that changes.
    async fn can_build(&mut self) -> bool {
        let fault = self.back_end.can_build().await.err();
        let trouble = fault.map(|it| it.to_string());
        match (&trouble, &self.trouble) {
            (Some(new), old) if old.as_ref() != Some(new) => {
                warn!("{new}: no new tunnel begins until that is mended");
            }
            (None, Some(_)) => info!("the back-end can build again"),
            _ => {}
        }
        self.trouble = trouble;
        self.trouble.is_none()
    }

    /// Looks at one end: an order waits no longer than for that. Whether somebody hears it.
    async fn look(&mut self) -> bool {
        let Some(tunnel) = self.unseen.pop() else {
            return true;
        };
        // It may be taken down since the look began.
        if !self.watched.contains_key(&tunnel) {
            return true;
        }
        let state = match self.back_end.state(tunnel).await {
            Ok(state) => {
                self.hears(tunnel, true);
                state
            }
            Err(fault) => {
                // Said once, not with each look.
                if self.hears(tunnel, false) {
                    warn!("the back-end does not say how tunnel {tunnel} is: {fault}");
                }
                return true;
            }
        };
        let seen = match state {
            State::Up if self.is_new(tunnel) => self.back_end.seen(tunnel).await,
            _ => Seen::default(),
        };
        match self.judge(tunnel, &state, seen) {
            Some(report) => self.say(report).await,
            None => true,
        }
    }

    /// The back-end says how an end is, or does not. Whether it did at the look before.
    fn hears(&mut self, tunnel: TunnelId, is_told: bool) -> bool {
        let watched = self.watched.get_mut(&tunnel);
        watched.is_some_and(|it| std::mem::replace(&mut it.is_told, is_told))
    }

    fn is_new(&self, tunnel: TunnelId) -> bool {
        self.watched.get(&tunnel).is_some_and(|it| !it.is_up)
    }

    /// What is new about an end.
    fn judge(&mut self, tunnel: TunnelId, state: &State, seen: Seen) -> Option<Report> {
        let watched = self.watched.get_mut(&tunnel)?;
        if matches!(state, State::Up | State::Open) {
            let is_new = !watched.is_up;
            *watched = Watched::up();
            let report = match state {
                State::Open => Report::Open(tunnel),
                _ => Report::Up(tunnel, seen),
            };
            return is_new.then_some(report);
        }
        watched.looks += 1;
        let is_gone = !matches!(state, State::Waiting);
        let why = match state {
            State::Down(why) => Some(why.clone()),
            _ => self.back_end.last_end(tunnel),
        };
        if let (State::Down(_), Some(why)) = (state, &why) {
            info!("tunnel {tunnel} is down: {why}");
        }
        let report = match watched.is_up {
            true if is_gone || watched.looks >= LOOKS_MAX => Report::Lost(tunnel, why),
            false if is_gone => Report::Failed,
            _ => return None,
        };
        // Said once: whoever hears it takes it down.
        self.watched.remove(&tunnel);
        Some(report)
    }

    async fn say(&self, report: Report) -> bool {
        self.reports.send(report).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use engine::agent::writers::Kind;

    use super::super::backend::foreign::Files;
    use super::*;

    const ENDS: u8 = 4;

    /// Four ends that were up and are gone, in a look that has just begun.
    fn worker(reports: mpsc::Sender<Report>) -> Worker {
        let nowhere = PathBuf::from("/nonexistent-folder-of-tunnels");
        let all = (0..ENDS).map(|octet| TunnelId([octet; 16]));
        Worker {
            back_end: Backend::Files(Files::new(Kind::Caravan, nowhere)),
            watched: all.clone().map(|it| (it, Watched::up())).collect(),
            unseen: all.collect(),
            reports,
            trouble: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_waits_for_one_end_and_not_for_a_whole_look() {
        // A look at an end takes until somebody hears what it says.
        let (reports, mut reported) = mpsc::channel(1);
        let (orders, queue) = mpsc::channel(1);
        let mut worker = worker(reports);
        let work = tokio::spawn(async move { worker.work(queue).await });
        let first = reported.recv().await;
        assert!(matches!(first, Some(Report::Lost(..))));
        orders
            .try_send(Order::Destroy(7, TunnelId([9; 16])))
            .unwrap();
        let mut said = Vec::new();
        for _ in 0..ENDS {
            said.push(reported.recv().await.unwrap());
        }
        let done = said
            .iter()
            .position(|it| matches!(it, Report::Done(7, true)));
        assert!(done.is_some_and(|at| at + 1 < said.len()), "{done:?}");
        drop(orders);
        work.await.unwrap();
    }

    #[tokio::test]
    async fn an_end_that_was_taken_down_during_a_look_is_not_lost() {
        let (reports, mut reported) = mpsc::channel(usize::from(2 * ENDS));
        let mut worker = worker(reports);
        for octet in 0..ENDS {
            let order = Order::Destroy(octet.into(), TunnelId([octet; 16]));
            assert!(worker.obey(order).await);
        }
        while !worker.unseen.is_empty() {
            assert!(worker.look().await);
        }
        drop(worker);
        while let Some(report) = reported.recv().await {
            assert!(matches!(report, Report::Done(_, true)));
        }
    }
}

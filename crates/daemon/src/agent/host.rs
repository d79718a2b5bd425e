//! `caravan tunnel-agent host`: Host's machine between its socket, its database and its log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use engine::agent::audit::Role;
use engine::agent::host::{self, Answer, Ask, Host, TargetEntry};
use engine::agent::identity::Keys;
use tokio::sync::mpsc;
use tracing::{info, warn};
use wire::agent::MESSAGE_MAX;

use super::clock::{Times, calendar};
use super::door::Door;
use super::log::Log;
use super::post::Post;
use super::store::{Database, Store, StoreRole};
use super::worker::{self, Orders};
use super::{hygiene, key_file};
use crate::config::agent::HostConfig;
use crate::service::{self, Signalled, Signals};

/// How often drops are shown.
const SHOW_EVERY: Duration = Duration::from_secs(60);
/// Answers of the database that wait for the loop.
const ANSWERS_MAX: usize = 64;

/// Reads what the start needs before it opens anything. `caravan check` does the same, so it finds
/// what the start would refuse.
pub(super) fn know(config: &HostConfig, folder: &Path) -> anyhow::Result<Keys> {
    let keys = key_file::load(&config.keys_file)?;
    let identity = keys.identity();
    let mut targets = config.targets.iter();
    if let Some((name, _)) = targets.find(|(_, (it, _))| *it == identity) {
        bail!("[targets.{name}] has the identity of this Host itself: it needs that of the Target");
    }
    Log::check(&config.log_file, Role::Host)?;
    Database::parse(&config.database, folder)?.check()?;
    Ok(keys)
}

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(config: HostConfig, folder: &Path) -> anyhow::Result<()> {
    let mut signals = Signals::new(service::hang_ups()?)?;
    hygiene::keep_private();
    let keys = know(&config, folder)?;
    let mut times = Times::start();
    let log = Log::open(&config.log_file, Role::Host, calendar())?;
    let log = log.signed_by(key_file::load(&config.keys_file)?, calendar());
    let socket = Door::open(config.listen).await;
    let socket = socket.with_context(|| format!("cannot listen on {}", config.listen))?;
    let database = Database::parse(&config.database, folder)?;
    let (answers, mut answered) = mpsc::channel(ANSWERS_MAX);
    let (store, thread) = worker::start("database", move |queue, ready| async move {
        match Store::open(&database, StoreRole::Host).await {
            Ok(store) => {
                let _ = ready.send(Ok(()));
                keep(store, queue, &answers).await;
            }
            Err(fault) => drop(ready.send(Err(fault.into()))),
        }
    })
    .await?;
    let fingerprint = keys.identity().fingerprint();
    let targets = config.targets.values().map(|(identity, address)| {
        let (identity, address) = (*identity, *address);
        (identity.fingerprint(), TargetEntry { identity, address })
    });
    let machine = host::Config {
        keys,
        targets: targets.collect::<BTreeMap<_, _>>(),
        accepts_legacy: config.is_legacy,
    };
    let random = key_file::seed()?.stream("host", 0);
    let mut serving = Serving {
        host: Host::new(machine, times.clock(), times.now(), random),
        post: Post::new(socket, log),
        store,
    };
    info!("Host {fingerprint} serves {}", config.listen);
    let ended = serving.serve(&mut times, &mut signals, &mut answered).await;
    serving.stand();
    // What was asked is written before the process ends.
    drop(serving);
    let closing = tokio::task::spawn_blocking(move || thread.join());
    let hear = async { while answered.recv().await.is_some() {} };
    let _ = tokio::join!(closing, hear);
    ended
}

/// Answers questions, one after the other.
async fn keep(
    mut store: Store,
    mut queue: mpsc::Receiver<(u64, Ask)>,
    answers: &mpsc::Sender<(u64, Answer)>,
) {
    while let Some((number, ask)) = queue.recv().await {
        let answer = store.answer(&ask).await;
        if answers.send((number, answer)).await.is_err() {
            return;
        }
    }
}

struct Serving {
    host: Host,
    post: Post,
    store: Orders<(u64, Ask)>,
}

impl Serving {
    async fn serve(
        &mut self,
        times: &mut Times,
        signals: &mut Signals,
        answered: &mut mpsc::Receiver<(u64, Answer)>,
    ) -> anyhow::Result<()> {
        let mut octets = vec![0; MESSAGE_MAX + 1];
        let mut show = tokio::time::interval(SHOW_EVERY);
        loop {
            self.drain(times).await;
            let deadline = Some(self.host.deadline());
            tokio::select! {
                signal = signals.next() => match signal {
                    Signalled::Stop => return Ok(()),
                    Signalled::Reload => self.stand(),
                },
                received = self.post.socket.recv_from(&mut octets) => match received {
                    Ok((len, from)) => {
                        self.host.set_ready(self.post.is_ready());
                        self.host.handle(from, &octets[..len], times.now());
                    }
                    // An earlier message has met a closed port.
                    Err(fault) => warn!("cannot receive: {fault}"),
                },
                answer = answered.recv() => {
                    let (number, answer) = answer.context("the database's thread has ended")?;
                    self.host.answered(number, answer, times.now());
                },
                () = times.sleep(deadline) => self.host.handle_timeout(times.now()),
                _ = show.tick() => {
                    // What waits for the disk is written, if it can be.
                    self.host.set_ready(self.post.is_ready());
                    self.post.show(self.host.drops());
                }
            }
            if let Some(clock) = times.was_set() {
                self.host.set_clock(clock);
            }
        }
    }

    fn stand(&self) {
        let what = format!(
            "{} requests in progress or remembered",
            self.host.exchanges()
        );
        self.post.stand(what, self.host.drops());
    }

    /// Does what the machine wants.
    async fn drain(&mut self, times: &Times) {
        while let Some(output) = self.host.poll() {
            let Some((number, ask)) = self.post.put(output).await else {
                continue;
            };
            // A key that is taken is told in the log.
            let is_told = !matches!(ask, Ask::Take { .. }) || self.post.is_ready();
            if !is_told || self.store.try_send((number, ask)).is_err() {
                self.host.answered(number, Answer::Unavailable, times.now());
            }
        }
    }
}

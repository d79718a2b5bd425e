//! `caravan tunnel-agent target`: Target's machine between its socket, its database, its
//! authority, its back-end and its log.

mod pool;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use crypto::cert::SigningKey;
use engine::agent::TunnelId;
use engine::agent::audit::Role;
use engine::agent::description::{Description, Key, OwnEnd};
use engine::agent::identity::{AgentName, Keys};
use engine::agent::target::{
    self, Answer, Ask, Build, Came, Former, HostEntry, TUNNELS_MAX, Target,
};
use tokio::sync::mpsc;
use tracing::{info, warn};
use wire::agent::MESSAGE_MAX;

use super::certify::{self, Guests};
use super::choice::{self, End};
use super::clock::{Times, calendar};
use super::door::Door;
use super::ends::{self, Ends, Order, Report};
use super::log::Log;
use super::post::Post;
use super::store::{Database, Store, StoreRole};
use super::told::Told;
use super::worker::{self, Orders};
use super::{Place, hygiene, key_file};
use crate::config::agent::{BackEndKind, HostPeer, TargetConfig};
use crate::files;
use crate::service::{self, Signalled, Signals};
use pool::Pool;

/// How often drops are shown.
const SHOW_EVERY: Duration = Duration::from_secs(60);
/// Reports of workers that wait for the loop.
const REPORTS_MAX: usize = 256;
/// How long tunnels may take to end with the agent.
const END_MAX: Duration = Duration::from_secs(30);

/// What the start reads before it opens anything.
pub(super) struct Known {
    pub(super) keys: Keys,
    guests: Guests,
    own: OwnEnd,
}

/// Reads it. `caravan check` does the same, so it finds what the start would refuse.
pub(super) fn know(config: &TargetConfig, folder: &Path) -> anyhow::Result<Known> {
    let keys = key_file::load(&config.keys_file)?;
    let identity = keys.identity();
    let mut hosts = config.hosts.iter();
    if let Some((name, _)) = hosts.find(|(_, it)| it.identity == identity) {
        bail!("[hosts.{name}] has the identity of this Target itself: it needs that of the Host");
    }
    Log::check(&config.log_file, Role::Target)?;
    Database::parse(&config.database, folder)?.check()?;
    let guests = Guests::load(&config.authority)?;
    let own = own_end(config, &guests)?;
    choice::check(&config.back_end, End::Target)?;
    Ok(Known { keys, guests, own })
}

/// Serves until SIGTERM or SIGINT, then ends all tunnels.
pub(super) async fn run(config: TargetConfig, folder: &Path, place: Place) -> anyhow::Result<()> {
    let mut signals = Signals::new(service::hang_ups()?)?;
    hygiene::keep_private();
    let Known { keys, guests, own } = know(&config, folder)?;
    let fingerprint = keys.identity().fingerprint();
    let mut times = Times::start();
    let log = Log::open(&config.log_file, Role::Target, calendar())?;
    let log = log.signed_by(key_file::load(&config.keys_file)?, calendar());
    let socket = Door::open(config.listen).await;
    let socket = socket.with_context(|| format!("cannot listen on {}", config.listen))?;
    let (answers, mut answered) = mpsc::channel(REPORTS_MAX);
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let database = Database::parse(&config.database, folder)?;
    let (mut former, store, thread) = keep(database, fingerprint.name(), answers.clone()).await?;
    let tunnels: Vec<TunnelId> = former.iter().map(|it| it.spending.tunnel).collect();
    let leases = config.keys_file.with_extension("leases");
    let pool = config.pool.clone();
    let pool = pool.map(|range| Pool::open(range, &leases, &tunnels));
    let pool = pool.transpose()?;
    let chosen = config.back_end.clone();
    let is_files = chosen.kind == BackEndKind::Files;
    let open = move || choice::open(chosen, End::Target, place);
    let (ends, up) = ends::start(open, tunnels, reports).await?;
    // What it lacks is said now, and not only when somebody asks. Nobody waits for the answer.
    let _ = ends.orders.try_send(Order::CanBuild(u64::MAX));
    // A tunnel that the back-end does not have is not up; one that it has is, also if that was not
    // noted any more. Texts alone know nothing.
    for one in &mut former {
        let is_up = up.contains(&one.spending.tunnel);
        one.has_arrived = is_up && (one.has_arrived || !is_files);
    }
    let machine = machine_of(&config, keys, &ends, (&own, pool.as_ref()));
    let random = key_file::seed()?.stream("target", 0);
    let (clock, now) = (times.clock(), times.now());
    let mut target = Target::new(machine, former, clock, now, random);
    recall(&mut target, pool.as_ref(), &config.log_file)?;
    let mut serving = Serving {
        target,
        post: Post::new(socket, log),
        workers: Workers {
            store,
            ends: ends.orders.clone(),
            guests: Arc::new(guests),
            answers,
        },
        own,
        pool,
        is_ending: false,
        is_warned: false,
    };
    info!("Target {fingerprint} serves {}", config.listen);
    let heard = (&mut answered, &mut reported);
    let ended = serving.serve(&mut times, &mut signals, heard).await;
    serving.stand();
    if ended.is_err() {
        // Nobody would end them in time.
        for id in serving.target.tunnels() {
            let _ = ends.orders.try_send(Order::Destroy(u64::MAX, id));
        }
    }
    drop(serving);
    close(ends, thread, answered, reported).await;
    ended
}

/// Tells the machine what the log and the pool know of a former agent's tunnels.
fn recall(target: &mut Target, pool: Option<&Pool>, log: &Path) -> anyhow::Result<()> {
    let all: Vec<TunnelId> = target.tunnels().collect();
    if all.is_empty() {
        return Ok(());
    }
    let told = Told::read(log, Role::Target)?;
    let told = told.tunnels();
    for id in all {
        let of_log = told.get(&id.to_string()[..]);
        let lent = pool.and_then(|it| it.lent_to(id));
        let inner = lent.or(of_log.and_then(|it| it.inner));
        target.recall(id, inner, of_log.and_then(|it| it.peer));
    }
    Ok(())
}

/// What the machine is and allows.
fn machine_of(
    config: &TargetConfig,
    keys: Keys,
    ends: &Ends,
    (own, pool): (&OwnEnd, Option<&Pool>),
) -> target::Config {
    let tunnels = pool.map_or(usize::MAX, Pool::count);
    let share = share_of(tunnels, config.hosts.len());
    let hosts = config.hosts.iter();
    target::Config {
        keys,
        hosts: hosts
            .map(|(name, host)| host_entry(name, host, share))
            .collect(),
        tunnels,
        options: ends.options,
        ike: ends.ike.common(config.ike),
        addresses: config.addresses.clone(),
        proposals: config.proposals.clone(),
        identity: config.identity.clone(),
        chain: own.chain.clone(),
    }
}

/// Waits until the workers have done what was ordered.
async fn close(
    ends: Ends,
    store: JoinHandle<()>,
    mut answered: mpsc::Receiver<(u64, Answer)>,
    mut reported: mpsc::Receiver<Report>,
) {
    let closing = tokio::task::spawn_blocking(move || {
        ends.close();
        store.join()
    });
    // Whoever still says something must not wait.
    let hear = async { while answered.recv().await.is_some() {} };
    let also = async { while reported.recv().await.is_some() {} };
    let _ = tokio::join!(closing, hear, also);
}

/// How many tunnels a Host may have of which the file does not say it: an equal part, so that none
/// takes the addresses of the others.
fn share_of(tunnels: usize, hosts: usize) -> usize {
    (tunnels.min(TUNNELS_MAX) / hosts.max(1)).max(1)
}

fn host_entry(name: &str, known: &HostPeer, share: usize) -> (AgentName, HostEntry) {
    let entry = HostEntry {
        name: name.to_owned(),
        tunnels: known.tunnels.map_or(share, usize::from),
        identity: known.identity,
        addresses: known.addresses.clone(),
        accepts_legacy: known.is_legacy,
    };
    (known.identity.name(), entry)
}

/// What is the same in all of our ends.
fn own_end(config: &TargetConfig, guests: &Guests) -> anyhow::Result<OwnEnd> {
    let file = &config.private_key_file;
    let text = files::read_secret(file, certify::KEY_MAX);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let key = SigningKey::from_pem(&text).with_context(|| file.display().to_string())?;
    let chain = guests.chain_of(&config.certificate_file)?;
    certify::check_own(&chain, &text, &config.identity).with_context(|| {
        let certificate = config.certificate_file.display();
        format!("{certificate} with {}", file.display())
    })?;
    // A machine's clock may be set later than its agents start: offers look again.
    if let Err(fault) = guests.check_in_force(&chain, calendar()) {
        warn!("{fault}: no tunnel begins before that");
    }
    Ok(OwnEnd {
        addresses: config.addresses.clone(),
        identity: config.identity.clone(),
        chain,
        key: Key(key.to_der().to_vec()),
        proposals: config.proposals.clone(),
        legacy: config.is_legacy,
    })
}

/// Starts the database's worker. Returns also the tunnels of a former agent.
async fn keep(
    database: Database,
    name: AgentName,
    answers: mpsc::Sender<(u64, Answer)>,
) -> anyhow::Result<(Vec<Former>, Orders<(u64, Ask)>, JoinHandle<()>)> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (orders, thread) = worker::start("database", move |queue, ready| async move {
        let opened = async {
            let mut store = Store::open(&database, StoreRole::Target(name)).await?;
            let former = store.former().await?;
            anyhow::Ok((store, former))
        };
        match opened.await {
            Ok((store, former)) => {
                let _ = tell.send(former);
                let _ = ready.send(Ok(()));
                answer(store, queue, &answers).await;
            }
            Err(fault) => drop(ready.send(Err(fault))),
        }
    })
    .await?;
    Ok((told.await?, orders, thread))
}

/// Does what the database is asked, one after the other.
async fn answer(
    mut store: Store,
    mut queue: mpsc::Receiver<(u64, Ask)>,
    answers: &mpsc::Sender<(u64, Answer)>,
) {
    while let Some((number, ask)) = queue.recv().await {
        let answer = match ask {
            Ask::Standing { user, host, key } => {
                let standing = store.standing(&user, &host, key.as_ref()).await;
                standing.map(Answer::Standing)
            }
            Ask::Spend(spending) => {
                let is_first = store.spend(&spending).await;
                is_first.map(|is_first| match is_first {
                    true => Answer::Spent,
                    false => Answer::SpentBefore,
                })
            }
            Ask::Note(tunnel, progress) => {
                let noted = store.note(tunnel, progress).await;
                noted.map(|()| Answer::Done)
            }
            // Others are asked these.
            Ask::CanBuild | Ask::Certify { .. } | Ask::Build(_) | Ask::Destroy(_) => {
                Ok(Answer::Failed)
            }
        };
        let answer = answer.unwrap_or_else(|fault| {
            warn!("the database: {fault}");
            Answer::Failed
        });
        if answers.send((number, answer)).await.is_err() {
            return;
        }
    }
}

/// Who answers questions.
struct Workers {
    store: Orders<(u64, Ask)>,
    ends: Orders<Order>,
    guests: Arc<Guests>,
    answers: mpsc::Sender<(u64, Answer)>,
}

impl Workers {
    /// Makes a certificate, beside the loop.
    fn certify(&self, number: u64, ask: Ask) {
        let Ask::Certify {
            tunnel,
            tunnel_key,
            client_identity,
            until,
        } = ask
        else {
            return;
        };
        let (guests, answers) = (self.guests.clone(), self.answers.clone());
        tokio::task::spawn_blocking(move || {
            let times = (calendar(), until);
            let made = guests.certify(tunnel, &tunnel_key, &client_identity, times);
            let answer = made.map_or_else(
                |fault| {
                    warn!("no certificate for {client_identity}: {fault:#}");
                    Answer::Failed
                },
                Answer::Certified,
            );
            let _ = answers.blocking_send((number, answer));
        });
    }
}

struct Serving {
    target: Target,
    post: Post,
    workers: Workers,
    own: OwnEnd,
    pool: Option<Pool>,
    is_ending: bool,
    /// It was said that a certificate is not in force.
    is_warned: bool,
}

/// What the workers say.
type Heard<'a> = (
    &'a mut mpsc::Receiver<(u64, Answer)>,
    &'a mut mpsc::Receiver<Report>,
);

impl Serving {
    async fn serve(
        &mut self,
        times: &mut Times,
        signals: &mut Signals,
        (answered, reported): Heard<'_>,
    ) -> anyhow::Result<()> {
        let mut octets = vec![0; MESSAGE_MAX + 1];
        let mut show = tokio::time::interval(SHOW_EVERY);
        let mut end = Box::pin(tokio::time::sleep(Duration::MAX));
        loop {
            self.drain(times).await;
            if self.is_ending && self.target.tunnels().next().is_none() {
                return Ok(());
            }
            let deadline = self.target.deadline();
            tokio::select! {
                signal = signals.next() => match signal {
                    Signalled::Stop if !self.is_ending => {
                        self.is_ending = true;
                        end.set(tokio::time::sleep(END_MAX));
                    }
                    Signalled::Stop => {}
                    Signalled::Reload => self.stand(),
                },
                () = &mut end => bail!(
                    "{} tunnels could not be taken down; the next start tries again",
                    self.target.tunnels().count()
                ),
                received = self.post.socket.recv_from(&mut octets), if !self.is_ending => {
                    match received {
                        Ok((len, from)) => {
                            self.target.set_ready(self.post.is_ready());
                            self.target.handle(from, &octets[..len], times.now());
                        }
                        Err(fault) => warn!("cannot receive: {fault}"),
                    }
                }
                answer = answered.recv() => {
                    let (number, answer) = answer.context("the database's thread has ended")?;
                    self.target.answered(number, answer, times.now());
                }
                report = reported.recv() => {
                    let report = report.context("the back-end's thread has ended")?;
                    self.hear(report, times);
                }
                () = times.sleep(deadline) => self.target.handle_timeout(times.now()),
                _ = show.tick() => {
                    // What waits for the disk is written, if it can be.
                    self.target.set_ready(self.post.is_ready());
                    self.post.show(self.target.drops());
                }
            }
            if self.is_ending {
                self.close_all(times);
            }
            if let Some(clock) = times.was_set() {
                self.target.set_clock(clock);
            }
        }
    }

    fn close_all(&mut self, times: &Times) {
        let all: Vec<TunnelId> = self.target.tunnels().collect();
        for id in all {
            self.target.close(id, times.now());
        }
    }

    fn hear(&mut self, report: Report, times: &Times) {
        let now = times.now();
        match report {
            Report::Done(number, true) => self.target.answered(number, Answer::Done, now),
            Report::Done(number, false) => self.target.answered(number, Answer::Failed, now),
            Report::Up(id, seen) => self.target.arrived(id, Came::Seen(seen), now),
            Report::Open(id) => self.target.arrived(id, Came::Unseen, now),
            Report::Lost(id, _) => self.target.closed(id, now),
            // A stranger may have tried. The true Client has its time.
            Report::Failed => {}
        }
    }

    fn stand(&self) {
        let what = format!("{} tunnels", self.target.tunnels().count());
        self.post.stand(what, self.target.drops());
    }

    /// Does what the machine wants.
    async fn drain(&mut self, times: &Times) {
        while let Some(output) = self.target.poll() {
            let Some((number, ask)) = self.post.put(output).await else {
                continue;
            };
            // Nothing is built that is not told in the log.
            let begins = matches!(ask, Ask::Spend(_) | Ask::Build(_));
            let is_told = !begins || self.post.is_ready();
            if !is_told || !self.ask(number, ask) {
                self.target.answered(number, Answer::Failed, times.now());
            }
        }
    }

    /// Hands a question on. Whether somebody will answer it.
    fn ask(&mut self, number: u64, ask: Ask) -> bool {
        match ask {
            Ask::CanBuild => {
                let order = Order::CanBuild(number);
                self.is_in_force() && self.workers.ends.try_send(order).is_ok()
            }
            Ask::Standing { .. } | Ask::Spend(_) => {
                self.workers.store.try_send((number, ask)).is_ok()
            }
            Ask::Note(tunnel, progress) => {
                if progress == target::Progress::Ended
                    && let Some(Err(fault)) = self.pool.as_mut().map(|it| it.take_back(tunnel))
                {
                    warn!("{fault:#}");
                }
                self.workers.store.try_send((number, ask)).is_ok()
            }
            Ask::Certify { .. } => {
                self.workers.certify(number, ask);
                true
            }
            Ask::Build(build) => {
                let described = self.describe(&build);
                described.is_ok_and(|it| {
                    let order = Order::Build(number, Box::new(it));
                    self.workers.ends.try_send(order).is_ok()
                })
            }
            Ask::Destroy(id) => {
                let order = Order::Destroy(number, id);
                self.workers.ends.try_send(order).is_ok()
            }
        }
    }

    /// Whether Client would take our certificate and its own.
    fn is_in_force(&mut self) -> bool {
        let checked = self
            .workers
            .guests
            .check_in_force(&self.own.chain, calendar());
        if let Err(fault) = &checked
            && !self.is_warned
        {
            warn!("{fault}: no new tunnel begins until that is mended");
        }
        self.is_warned = checked.is_err();
        checked.is_ok()
    }

    fn describe(&mut self, build: &Build) -> anyhow::Result<Description> {
        let inner = self.pool.as_mut().map(|it| it.lend(build.tunnel));
        let described = inner.transpose().and_then(|inner| {
            if let Some(inner) = inner {
                self.target.lent(build.tunnel, inner);
            }
            let described = Description::of_target(build, &self.own, inner);
            Ok(described?)
        });
        described.inspect_err(|fault| warn!("tunnel {} cannot be built: {fault:#}", build.tunnel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_share_of_the_pool() {
        assert_eq!([share_of(254, 1), share_of(254, 2)], [254, 127]);
        assert_eq!([share_of(2, 5), share_of(2, 0)], [1, 2]);
        assert_eq!(share_of(usize::MAX, 2), TUNNELS_MAX / 2);
    }
}

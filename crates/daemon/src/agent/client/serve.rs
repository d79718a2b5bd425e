//! The loop of Client's agent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use engine::agent::TunnelId;
use engine::agent::audit::{Event, Step, Why};
use engine::agent::client::{Client, Outcome, Output, Tunnel};
use engine::agent::description::{Description, Key};
use engine::agent::ike::{IkeAbilities, IkeVersion};
use engine::agent::objectives::SecurityOption;
use engine::time::Calendar;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{info, warn};
use wire::agent::MESSAGE_MAX;

use super::end::End;
use super::signer::{Signer, Told};
use crate::agent::clock::{Times, calendar};
use crate::agent::drops::Shown;
use crate::agent::ends::{Order, Report};
use crate::agent::log::Log;
use crate::agent::ppk;
use crate::agent::worker::Orders;
use crate::console;
use crate::service::Signals;

/// How long a name of a Host may take: resolvers of a café may be mute.
const LOOKUP_MAX: Duration = Duration::from_secs(10);
/// So much of a tunnel's time may have passed before Client hears of it.
const ON_THE_WAY: Duration = Duration::from_secs(30);
/// The number of the order to build, and of that to take down.
const BUILD: u64 = 0;
const DESTROY: u64 = 1;

/// One socket for each family, and where the Hosts are.
pub(super) struct Sockets {
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    hosts: Vec<Option<SocketAddr>>,
}

impl Sockets {
    /// Looks the Hosts up and opens the sockets. A signal ends that.
    pub(super) async fn open(addresses: &[String], signals: &mut Signals) -> anyhow::Result<Self> {
        tokio::select! {
            opened = Self::opened(addresses) => opened,
            _ = signals.next() => bail!("it was given up"),
        }
    }

    async fn opened(addresses: &[String]) -> anyhow::Result<Self> {
        let mut hosts = Vec::new();
        for address in addresses {
            let found = timeout(LOOKUP_MAX, tokio::net::lookup_host(address)).await;
            hosts.push(match found.unwrap_or_else(|late| Err(late.into())) {
                Ok(mut found) => found.next(),
                Err(fault) => {
                    warn!("{address} cannot be resolved: {fault}");
                    None
                }
            });
        }
        if hosts.iter().all(Option::is_none) {
            bail!(
                "no Host of the sheet has an address ({})",
                addresses.join(", ")
            );
        }
        let v4 = UdpSocket::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), 0));
        let v6 = UdpSocket::bind((IpAddr::from(Ipv6Addr::UNSPECIFIED), 0));
        Ok(Self {
            v4: v4.await.context("cannot open a socket")?,
            v6: v6.await.ok(),
            hosts,
        })
    }

    async fn send(&self, host: usize, payload: &[u8]) -> anyhow::Result<()> {
        let to = self.hosts.get(host).copied().flatten();
        let to = to.context("this Host has no address")?;
        let socket = match (to.is_ipv4(), &self.v6) {
            (true, _) => &self.v4,
            (false, Some(socket)) => socket,
            (false, None) => bail!("this machine has no IPv6"),
        };
        socket.send_to(payload, to).await?;
        Ok(())
    }

    /// The next message, from anybody: only what is sealed to us is believed.
    async fn receive(
        &self,
        octets: &mut [u8],
        others: &mut [u8],
    ) -> (bool, std::io::Result<usize>) {
        let v6 = async {
            match &self.v6 {
                Some(socket) => socket.recv(others).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            len = self.v4.recv(octets) => (true, len),
            len = v6 => (false, len),
        }
    }
}

pub(super) struct Serving {
    pub(super) client: Client,
    pub(super) sockets: Sockets,
    pub(super) ends: Orders<Order>,
    /// How long the tunnel shall live.
    pub(super) lifetime: Duration,
    /// What our back-end can do in IKE.
    pub(super) ike: IkeAbilities,
    /// The private half of the tunnel's key.
    pub(super) key: Key,
    pub(super) is_legacy: bool,
    pub(super) signer: Signer,
    pub(super) log: Option<Log>,
    pub(super) shown: Shown,
    /// What was ordered to be built.
    pub(super) tunnel: Option<TunnelId>,
    pub(super) last: Last,
}

/// What is known about the end of the tunnel.
#[derive(Default)]
pub(super) struct Last {
    at: Option<Calendar>,
    until: Option<Calendar>,
    words: Option<String>,
}

impl Last {
    /// Its end, for this reason.
    pub(super) fn end(self, why: Why) -> End {
        End {
            why,
            at: self.at.unwrap_or_else(calendar),
            until: self.until,
            words: self.words,
        }
    }
}

impl Serving {
    /// Goes on until it is over.
    pub(super) async fn serve(
        &mut self,
        times: &mut Times,
        signals: &mut Signals,
        reported: &mut mpsc::Receiver<Report>,
    ) -> anyhow::Result<Outcome> {
        let (mut octets, mut others) = (vec![0; MESSAGE_MAX + 1], vec![0; MESSAGE_MAX + 1]);
        self.client.start(times.now());
        loop {
            if let Some(outcome) = self.drain(times).await? {
                return Ok(outcome);
            }
            let deadline = self.client.deadline();
            tokio::select! {
                _ = signals.next() => self.client.log_out(times.now()),
                told = self.signer.hear() => self.told(told, times),
                (is_v4, received) = self.sockets.receive(&mut octets, &mut others) => {
                    let octets = if is_v4 { &octets } else { &others };
                    match received {
                        Ok(len) => self.client.handle(&octets[..len], times.now()),
                        Err(fault) => warn!("cannot receive: {fault}"),
                    }
                }
                report = reported.recv() => {
                    let report = report.context("the back-end's thread has ended")?;
                    self.hear(&report, times);
                }
                () = times.sleep(deadline) => self.client.handle_timeout(times.now()),
            }
        }
    }

    fn told(&mut self, told: Told, times: &Times) {
        match told {
            Told::Signed(signature) => self.client.signed(signature, times.now()),
            Told::Gone => {
                self.last.words = Some("the token was removed".to_owned());
                self.client.log_out(times.now());
                // Nothing more comes of it.
                self.signer = Signer::Gone;
            }
        }
    }

    fn hear(&mut self, report: &Report, times: &Times) {
        let now = times.now();
        match report {
            Report::Done(BUILD, true) => {}
            Report::Done(BUILD, false) | Report::Failed => self.client.built(false, now),
            Report::Done(_, is_down) => self.client.destroyed(*is_down, now),
            Report::Up(_, seen) => {
                self.client.ppk_taken(seen.ppk);
                self.client.built(true, now);
            }
            Report::Open(_) => self.client.built(true, now),
            Report::Lost(_, why) => {
                self.last.words.clone_from(why);
                self.client.closed(now);
            }
        }
    }

    /// Does what the machine wants. Its outcome, once it is over.
    async fn drain(&mut self, times: &Times) -> anyhow::Result<Option<Outcome>> {
        while let Some(output) = self.client.poll() {
            match output {
                Output::Sign(octets) => {
                    if let Some(told) = self.signer.sign(octets) {
                        self.told(told, times);
                    }
                }
                Output::Send { host, payload } => {
                    // It is repeated, to the next Host.
                    if let Err(fault) = self.sockets.send(host, &payload).await {
                        self.shown.unsent += 1;
                        warn!("cannot send to Host: {fault:#}");
                    }
                }
                Output::Build(tunnel) => self.build(&tunnel, times),
                Output::Destroy => self.destroy(times),
                Output::ClockDiffers { ours, told } => console::complain(format!(
                    "warning: this machine's clock shows {ours}, your Host's {told}: the request \
                     is signed for your Host's time"
                )),
                Output::Audit(event) => self.audit(&event)?,
                Output::Over(outcome) => return Ok(Some(outcome)),
            }
        }
        Ok(None)
    }

    fn build(&mut self, tunnel: &Tunnel, times: &Times) {
        if let Some(said) = downgraded(tunnel.ike, tunnel.option, self.ike) {
            console::complain(said);
        }
        if tunnel.lifetime + ON_THE_WAY < self.lifetime {
            let until = i64::try_from(tunnel.tunneling.until).unwrap_or(i64::MAX);
            console::complain(format!(
                "note: Target lets you in until {} only, which is less than --lifetime: its \
                 administrator has set that for you",
                Calendar(until)
            ));
        }
        let described = Description::of_client(tunnel, &self.key, self.is_legacy);
        let ordered = match described {
            Ok(description) => {
                self.tunnel = Some(tunnel.id);
                let order = Order::Build(BUILD, Box::new(description));
                self.ends.try_send(order).is_ok()
            }
            Err(fault) => {
                warn!("Target's part cannot be used: {fault}");
                false
            }
        };
        if !ordered {
            self.client.built(false, times.now());
        }
    }

    fn destroy(&mut self, times: &Times) {
        let Some(tunnel) = self.tunnel else {
            return self.client.destroyed(true, times.now());
        };
        let order = Order::Destroy(DESTROY, tunnel);
        if self.ends.try_send(order).is_err() {
            self.client.destroyed(false, times.now());
        }
    }

    /// Orders that nothing is left, when the agent itself has failed.
    pub(super) fn abandon(&self) {
        if let Some(tunnel) = self.tunnel {
            let _ = self.ends.try_send(Order::Destroy(DESTROY, tunnel));
        }
    }

    fn audit(&mut self, event: &Event) -> anyhow::Result<()> {
        match &mut self.log {
            Some(log) => log.write(event),
            None => info!("{event}"),
        }
        if event.step == Step::Ended {
            (self.last.at, self.last.until) = (Some(event.at), event.until);
        }
        if event.step == Step::Up
            && let (Some(option), Some(until)) = (event.option, event.until)
        {
            let text = format!("the tunnel is up ({option}), until {until}; ^C takes it down\n");
            console::say(&text)?;
        }
        ppk::tell(event);
        Ok(())
    }
}

/// What a user is told whose tunnel runs IKEv1. Unprotected traffic has no IKE.
fn downgraded(
    version: IkeVersion,
    option: SecurityOption,
    ours: IkeAbilities,
) -> Option<&'static str> {
    match (version, option) {
        (IkeVersion::V2, _) | (_, SecurityOption::Native) => None,
        (IkeVersion::V1, _) if ours.has(IkeVersion::V2) => Some(
            "warning: Target has chosen IKEv1 for this tunnel, though this machine has IKEv2: \
             IKEv1 is deprecated (RFC 9395) and protects nothing against quantum computers; \
             Target's administrator can allow IKEv2 (version = 2)",
        ),
        (IkeVersion::V1, _) => Some(
            "warning: this machine's back-end has IKEv1 alone, so the tunnel runs it: it is \
             deprecated (RFC 9395) and protects nothing against quantum computers",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_told_who_has_chosen_ikev1() {
        let both = IkeVersion::ALL.into_iter().collect();
        let old = core::iter::once(IkeVersion::V1).collect();
        let said = |version, option, ours| downgraded(version, option, ours).unwrap_or_default();
        let target = said(IkeVersion::V1, SecurityOption::Esp, both);
        assert!(target.contains("Target has chosen IKEv1"), "{target}");
        let ours = said(IkeVersion::V1, SecurityOption::Ah, old);
        assert!(
            ours.contains("this machine's back-end has IKEv1 alone"),
            "{ours}"
        );
        assert_eq!(said(IkeVersion::V2, SecurityOption::Esp, both), "");
        assert_eq!(said(IkeVersion::V1, SecurityOption::Native, both), "");
    }
}

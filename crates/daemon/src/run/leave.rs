//! How a part in Mobile IPv4 takes its leave.

use engine::node::{Command, Input as NodeInput};
use tracing::info;

use super::Process;
use super::mobility::{Input, MobilePart};

/// How long the end of the process waits for the other ends of registrations.
const LEAVE_SPAN: core::time::Duration = core::time::Duration::from_secs(3);
const PAUSE: core::time::Duration = core::time::Duration::from_millis(10);

impl Process {
    /// Takes registrations back, and waits a while until the other ends know. That of a home agent
    /// outside is the last: the tunnel and the answer to its end go by way of it.
    pub(super) async fn leave(&mut self) -> anyhow::Result<()> {
        self.mobile_input(&Input::Leave)?;
        self.wait_until_left().await?;
        let part = self.mobility.as_ref().filter(|it| it.has_outer());
        let Some(tunnel) = part.and_then(MobilePart::connection) else {
            return Ok(());
        };
        let down = Command::Down(tunnel.to_owned());
        self.input(NodeInput::Command(down)).await?;
        self.wait_while(|it| it.node.is_saying_farewell()).await?;
        self.mobile_input(&Input::LeaveOutside)?;
        self.wait_until_left().await
    }

    async fn wait_until_left(&mut self) -> anyhow::Result<()> {
        let is_leaving = |it: &Self| it.mobility.as_ref().is_some_and(MobilePart::is_leaving);
        if !self.wait_while(is_leaving).await? {
            info!("nobody answers: registrations end with their lifetimes");
        }
        Ok(())
    }

    /// Goes on while this holds and others may still answer. Whether it has ended.
    async fn wait_while(&mut self, holds: impl Fn(&Self) -> bool) -> anyhow::Result<bool> {
        let mut soon = tokio::time::Instant::now();
        let until = soon + LEAVE_SPAN;
        while holds(self) {
            let wake = self.wake_at().max(soon).min(until);
            tokio::select! {
                news = self.inbox.next(self.host.misses_routes()) => {
                    let Some(news) = news else { return Ok(true) };
                    self.on_news(news).await?;
                }
                heard = MobilePart::hear(self.mobility.as_ref()) => {
                    let (number, frame) = heard?;
                    self.mobile_input(&Input::Frame(number, &frame))?;
                }
                () = tokio::time::sleep_until(wake) => {
                    if tokio::time::Instant::now() >= until {
                        return Ok(false);
                    }
                    // What else is due waits: without a pause it would be due again at once.
                    soon = tokio::time::Instant::now() + PAUSE;
                    self.mobile_input(&Input::Wake)?;
                    self.input(NodeInput::Wake).await?;
                }
            }
        }
        Ok(true)
    }
}

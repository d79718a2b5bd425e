//! Threads for what may take long: databases and IPsec back-ends. Each does what it is told, one
//! after the other, so the questions of one tunnel stay in their order.

use std::future::Future;
use std::{io, thread};

use anyhow::bail;
use tokio::sync::{mpsc, oneshot};

use crate::service::{self, Signalled, Signals};

/// Orders that may wait: more than machines have questions open at a time.
const ORDERS_MAX: usize = 4_096;

/// What an agent's loop has of a worker: its queue. The worker ends with the last of these.
pub(super) type Orders<O> = mpsc::Sender<O>;

/// Starts a thread with a runtime of its own. `body` gets the orders, and tells by the second
/// argument whether it is ready. SIGTERM and SIGINT end the wait for that: whom it opens may be
/// mute.
pub(super) async fn start<O, F>(
    name: &str,
    body: impl FnOnce(mpsc::Receiver<O>, oneshot::Sender<anyhow::Result<()>>) -> F + Send + 'static,
) -> anyhow::Result<(Orders<O>, thread::JoinHandle<()>)>
where
    O: Send + 'static,
    F: Future<Output = ()>,
{
    let (orders, queue) = mpsc::channel(ORDERS_MAX);
    let (ready, is_ready) = oneshot::channel();
    let mut signals = Signals::new(service::hang_ups()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || runtime.block_on(body(queue, ready)))?;
    let stopped = async { while signals.next().await != Signalled::Stop {} };
    let is_ready = tokio::select! {
        is_ready = is_ready => is_ready,
        () = stopped => bail!("it was ended while it waited for its {name}"),
    };
    match is_ready {
        Ok(is_ready) => is_ready?,
        Err(_) => return Err(io::Error::other(format!("the thread {name} has ended")).into()),
    }
    Ok((orders, thread))
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test]
    async fn a_signal_ends_the_wait_for_a_mute_database() {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let started = start::<(), _>("database", move |_queue, ready| async move {
                raise(signal).expect("it is sent");
                std::future::pending::<()>().await;
                drop(ready);
            });
            let said = started.await.expect_err("it is ended").to_string();
            assert!(said.contains("waited for its database"), "{said}");
        }
    }
}

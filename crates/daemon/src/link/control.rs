//! Changes of a running link: each line of standard input holds changes in the words of the
//! options, such as `rate=1mbit delay=80ms`, and gets a line of standard output: `ok`, or
//! `refused:` and why. A line changes all that it names, or nothing. A rate
//! replaces a recording for good. Left out: the queue, which stays as it is.

use std::io::{self, BufRead, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::link::Change;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::values::{parse_delay, parse_loss, parse_rate};

/// Octets of a line.
const LINE_BYTES: u64 = 256;
/// Orders that wait for a relay; whoever gives more waits.
const ORDERS: usize = 64;

/// What a relay is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// To give its link this.
    Change(Change),
    /// To end.
    End,
}

/// A relay's end of its orders.
pub(super) struct Orders {
    bell: Arc<EventFd>,
    queue: Receiver<Order>,
}

/// Gives a relay orders.
#[derive(Clone)]
pub(super) struct Commander {
    bell: Arc<EventFd>,
    queue: SyncSender<Order>,
}

/// Orders for one relay.
pub(super) fn orders() -> io::Result<(Commander, Orders)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = Arc::new(EventFd::from_flags(flags)?);
    let (sender, queue) = sync_channel(ORDERS);
    let commander = Commander {
        bell: bell.clone(),
        queue: sender,
    };
    Ok((commander, Orders { bell, queue }))
}

impl Commander {
    /// A relay that has ended hears nothing.
    pub(super) fn give(&self, order: Order) {
        let _ = self.queue.send(order);
        let _ = self.bell.write(1);
    }
}

impl Orders {
    /// Readable when there are some.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The next one, if there is one.
    pub(super) fn next(&self) -> Option<Order> {
        // The bell is silenced first: what comes after the last look rings it again.
        let _ = self.bell.read();
        self.queue.try_recv().ok()
    }
}

/// Follows lines until their end: `relays` are left to right, and right to left.
pub(super) fn follow(
    mut from: impl BufRead,
    answer: impl Fn(&str) -> io::Result<()>,
    relays: &[Commander; 2],
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from
            .by_ref()
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        let changes = if line.len() as u64 == LINE_BYTES && !line.ends_with(b"\n") {
            from.skip_until(b'\n')?;
            Err(format!("a line has at most {LINE_BYTES} octets"))
        } else {
            read(&String::from_utf8_lossy(&line))
        };
        match changes {
            Ok(changes) => {
                for (relay, changes) in relays.iter().zip(changes) {
                    for change in changes {
                        relay.give(Order::Change(change));
                    }
                }
                answer("ok")?;
            }
            Err(why) => answer(&format!("refused: {why}"))?,
        }
    }
}

/// What a line changes from left to right, and back.
fn read(line: &str) -> Result<[Vec<Change>; 2], String> {
    let [mut forth, mut back] = [Vec::new(), Vec::new()];
    let mut rate_back = None;
    for word in line.split_whitespace() {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word} is not a change such as delay=50ms"))?;
        let change = match key {
            "rate" => Change::Rate(parse_rate(value)?),
            "rate-back" => {
                rate_back = Some(Change::Rate(parse_rate(value)?));
                continue;
            }
            "delay" => Change::Delay(parse_delay(value)?),
            "loss" => Change::Loss(parse_loss(value)?),
            "up" => Change::Up(
                value
                    .parse()
                    .map_err(|_| format!("{value} is not true or false"))?,
            ),
            _ => return Err(format!("{key} is not rate, rate-back, delay, loss or up")),
        };
        forth.push(change);
        back.push(change);
    }
    back.extend(rate_back);
    match forth.is_empty() && back.is_empty() {
        true => Err("there is no change".to_owned()),
        false => Ok([forth, back]),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    fn told(lines: &str) -> (String, [Vec<Order>; 2]) {
        let [(left, forth), (right, back)] = [orders(), orders()].map(|one| one.expect("a bell"));
        let answers = RefCell::new(String::new());
        let answer = |line: &str| {
            answers.borrow_mut().push_str(&format!("{line}\n"));
            Ok(())
        };
        follow(lines.as_bytes(), answer, &[left, right]).expect("answers");
        let heard = [forth, back].map(|orders| std::iter::from_fn(|| orders.next()).collect());
        (answers.into_inner(), heard)
    }

    #[test]
    fn a_line_changes_both_directions_and_only_the_rate_may_differ() {
        let (answers, [forth, back]) =
            told("rate=2mbit rate-back=1mbit\n\tdelay=80ms loss=0.5\nrate-back=5kbit\nup=false");
        assert_eq!(answers, "ok\nok\nok\nok\n");
        let both = [
            Order::Change(Change::Delay(Duration::from_millis(80))),
            Order::Change(Change::Loss(0.5)),
        ];
        let down = Order::Change(Change::Up(false));
        let rate = |bits| Order::Change(Change::Rate(bits));
        assert_eq!(forth, [&[rate(2_000_000)][..], &both, &[down]].concat());
        let rates = [rate(2_000_000), rate(1_000_000)];
        assert_eq!(back, [&rates[..], &both, &[rate(5_000), down]].concat());
    }

    #[test]
    fn a_line_that_is_wrong_changes_nothing_and_the_next_one_counts() {
        let long = "x".repeat(10_000);
        let lines = format!("delay=80ms loss=2\n\nspeed=1\nloss\n{long}\nup=perhaps\nloss=0.5\n");
        let (answers, [forth, back]) = told(&lines);
        let expected = [
            "refused: 2 is not a probability from 0 to 1",
            "refused: there is no change",
            "refused: speed is not rate, rate-back, delay, loss or up",
            "refused: loss is not a change such as delay=50ms",
            "refused: a line has at most 256 octets",
            "refused: perhaps is not true or false",
            "ok",
        ];
        assert_eq!(answers.lines().collect::<Vec<_>>(), expected);
        assert_eq!(forth, [Order::Change(Change::Loss(0.5))]);
        assert_eq!(forth, back);
    }
}

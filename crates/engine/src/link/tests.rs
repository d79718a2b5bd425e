use std::io::Cursor;

use crypto::rand::{Seed, Stream};

use super::recording::survey;
use super::*;

type Text = Cursor<&'static str>;
type Planned = Shape<Box<Replay<Text>>>;

fn link(change: impl FnOnce(&mut Planned)) -> Link<Text, Stream> {
    let mut shape = Shape::plain(8_000_000, Duration::from_millis(10));
    change(&mut shape);
    assert_eq!(shape.check(), Ok(()));
    Link::new(shape, stream("link"))
}

fn stream(name: &str) -> Stream {
    Seed::new([7; 32]).stream(name, 0)
}

fn arrives(fate: Result<Fate, BadRecording>) -> u64 {
    match fate {
        Ok(Fate::Arrives(at)) => at.0,
        other => panic!("{other:?}"),
    }
}

const MS: u64 = 1_000_000;

#[test]
fn packets_follow_each_other_at_the_rate() {
    let mut link = link(|shape| shape.overhead_bytes = 100);
    // 900 + 100 octets at 1 octet a microsecond
    assert_eq!(arrives(link.offer(900, Instant(0))), 11 * MS);
    assert_eq!(arrives(link.offer(900, Instant(0))), 12 * MS);
    assert_eq!(arrives(link.offer(900, Instant(50 * MS))), 61 * MS);
    assert_eq!(link.counters().delivered_bytes, 2700);
}

#[test]
fn the_medium_takes_its_access_time_for_every_packet() {
    let mut link = link(|shape| {
        shape.overhead_bytes = 100;
        shape.access_time = Duration::from_micros(500);
    });
    assert_eq!(arrives(link.offer(900, Instant(0))), 11 * MS + MS / 2);
    assert_eq!(arrives(link.offer(900, Instant(0))), 13 * MS);
    assert_eq!(link.free_at(), Instant(3 * MS));
    // Without a rate nothing says when the medium is free.
    let mut shape = Shape::<()>::at_once(Duration::ZERO);
    shape.access_time = Duration::from_micros(1);
    assert_eq!(shape.check(), Err(BadShape::AccessTime));
}

#[test]
fn a_full_queue_overflows_and_drains() {
    let mut link = link(|shape| shape.queue = Limit::Packets(2));
    arrives(link.offer(1000, Instant(0)));
    arrives(link.offer(1000, Instant(0)));
    assert_eq!(link.offer(1000, Instant(0)), Ok(Fate::Overflows));
    arrives(link.offer(1000, Instant(MS)));
    let mut late = self::link(|shape| shape.queue = Limit::Packets(1));
    arrives(late.offer(1000, Instant(0)));
    assert_eq!(late.offer(1000, Instant(MS - 1)), Ok(Fate::Overflows));
    arrives(late.offer(1000, Instant(MS)));
    let mut bytes = self::link(|shape| shape.queue = Limit::Bytes(1500));
    arrives(bytes.offer(1000, Instant(0)));
    assert_eq!(bytes.offer(501, Instant(0)), Ok(Fate::Overflows));
    arrives(bytes.offer(500, Instant(0)));
}

#[test]
fn losses_and_packets_held_back_come_at_their_rate() {
    let count = 100_000;
    let mut link = link(|shape| {
        shape.loss = 0.03;
        shape.reorder = 0.1;
    });
    let (mut held, mut last) = (0, 0);
    for number in 0..count {
        let at = number * 2 * MS;
        match link.offer(1000, Instant(at)) {
            Ok(Fate::Arrives(arrival)) => {
                held += u32::from(arrival.0 == at + 14 * MS);
                assert!([at + 11 * MS, at + 14 * MS].contains(&arrival.0));
                last = arrival.0;
            }
            fate => assert_eq!(fate, Ok(Fate::Lost)),
        }
    }
    assert!(last > 0);
    let lost = link.counters().lost as f64 / count as f64;
    // four standard deviations
    assert!((lost - 0.03).abs() < 0.0022, "{lost}");
    let share = f64::from(held) / (count as f64 * (1.0 - lost));
    assert!((share - 0.1).abs() < 0.004, "{share}");
}

#[test]
fn a_varying_delay_has_its_mean_and_keeps_the_order() {
    let spans = (Duration::from_millis(10), Duration::from_millis(30));
    for delay in [
        Delay::Uniform(spans.0, spans.1),
        Delay::Exponential(spans.0, Duration::from_millis(10)),
    ] {
        let mut link = link(|shape| shape.delay = delay);
        let mean_s = link.shape().mean_delay_s();
        let (mut sum, mut last) = (0, 0);
        for number in 0..20_000 {
            // far enough apart that the order does not matter
            let at = number * 1000 * MS;
            let arrival = arrives(link.offer(1000, Instant(at)));
            sum += arrival - at - MS;
            assert!(arrival >= last);
            last = arrival;
        }
        let mean = sum as f64 / 20_000e9;
        assert!((mean / mean_s - 1.0).abs() < 0.02, "{delay:?}: {mean}");
        for _ in 0..1000 {
            let arrival = arrives(link.offer(1, Instant(last)));
            assert!(arrival >= last);
            last = last.max(arrival);
        }
    }
}

#[test]
fn what_is_larger_than_the_mtu_is_not_carried() {
    let mut link = link(|shape| shape.mtu = Some(1500));
    arrives(link.offer(1500, Instant(0)));
    assert_eq!(link.offer(1501, Instant(0)), Ok(Fate::TooBig));
}

/// A limit bounds what waits for transmission, not what is in flight behind it.
#[test]
fn a_carrier_that_carries_at_once_has_no_queue_to_fill() {
    for queue in [Limit::Packets(1), Limit::Bytes(1)] {
        let mut link = link(|shape| {
            shape.carrier = Carrier::Unlimited;
            shape.queue = queue;
        });
        for _ in 0..3 {
            assert_eq!(arrives(link.offer(1000, Instant(MS))), 11 * MS);
        }
    }
}

#[test]
fn the_longest_packet_at_the_slowest_rate_is_carried_in_its_time() {
    let mut link = link(|shape| shape.carrier = Carrier::Rate(1_000_000));
    let seconds = u64::from(u32::MAX) * 8 / 1_000_000;
    let at = arrives(link.offer(u32::MAX, Instant(0)));
    assert_eq!(at / 1_000_000_000, seconds);
}

#[test]
fn the_lost_are_charged() {
    let mut link = link(|shape| shape.loss = 1.0);
    for _ in 0..10 {
        assert_eq!(link.offer(1000, Instant(0)), Ok(Fate::Lost));
    }
    link.shape.loss = 0.0;
    assert_eq!(arrives(link.offer(1000, Instant(0))), 21 * MS);
}

/// M/D/1 (Pollaczek-Khinchine): the mean wait is r / (2 (1 - r)) services. Within 3 %.
#[test]
fn the_mean_wait_of_random_arrivals_is_that_of_theory() {
    let service = 1.0e6;
    for utilisation in [0.3, 0.5, 0.7] {
        let mut chance = stream("arrivals");
        let mut link = link(|shape| shape.queue = Limit::Packets(100_000));
        let (mut now, mut waited) = (0.0, 0.0);
        let count = 400_000;
        for _ in 0..count {
            now += chance.exponential() * service / utilisation;
            let at = arrives(link.offer(1000, Instant(now as u64)));
            waited += at as f64 - 10.0e6 - service - now;
        }
        let mean = waited / f64::from(count) / service;
        let theory = utilisation / (2.0 * (1.0 - utilisation));
        assert!(
            (mean / theory - 1.0).abs() < 0.03,
            "{mean} against {theory}"
        );
    }
}

/// M/D/1/K with K = 1 loses arrivals during a service: r / (1 + r) (Erlang B). Within 2 %.
#[test]
fn the_share_refused_without_a_queue_is_erlangs() {
    let mut chance = stream("arrivals");
    let mut link = link(|shape| shape.queue = Limit::Packets(1));
    let mut now = 0.0;
    for _ in 0..200_000 {
        now += chance.exponential() * 1.0e6;
        assert!(link.offer(1000, Instant(now as u64)).is_ok());
    }
    let counters = link.counters();
    let share = counters.overflowed as f64 / counters.offered as f64;
    assert!((share / 0.5 - 1.0).abs() < 0.02, "{share}");
}

#[test]
fn a_recording_carries_one_opportunity_a_line_and_begins_anew() {
    let mut link = recorded("2\n4\n4\n10\n");
    let mut at = |bytes, now| arrives(link.offer(bytes, Instant(now))) / MS - 10;
    let whole = 1500;
    assert_eq!([0; 5].map(|now| at(whole, now)), [2, 4, 4, 10, 12]);
    // two small ones share an opportunity, the third spans two
    assert_eq!([13 * MS; 3].map(|now| at(700, now)), [14, 14, 14]);
    // a wasted opportunity does not return; a round begins where the last ended
    assert_eq!(at(whole, 15 * MS), 20);
    assert_eq!(at(whole, 20 * MS + 1), 22);
}

#[test]
fn a_recording_that_ends_early_ends_the_link_until_it_has_a_rate() {
    let survey = survey(Cursor::new("2\n4\n")).expect("a recording");
    let cut = Replay::new(Cursor::new("2\n"), survey).expect("a first line");
    let mut link = link(|shape| shape.carrier = Carrier::Recording(Box::new(cut)));
    arrives(link.offer(1500, Instant(0)));
    for _ in 0..2 {
        assert_eq!(link.offer(1500, Instant(0)), Err(BadRecording::Changed));
    }
    link.change(Change::Rate(8_000_000)).expect("a rate");
    arrives(link.offer(1500, Instant(0)));
}

#[test]
fn a_running_link_becomes_another_and_what_it_has_taken_keeps_its_fate() {
    // 1000 octets at 8 kbit/s take a second
    let mut link = link(|shape| {
        shape.carrier = Carrier::Rate(8_000);
        shape.delay = Delay::Fixed(Duration::from_secs(2));
        (shape.loss, shape.reorder, shape.queue) = (0.0, 0.0, Limit::None);
    });
    let second = 1_000_000_000;
    assert_eq!(arrives(link.offer(1000, Instant(0))), 3 * second);
    link.change(Change::Rate(80_000)).expect("a rate");
    link.change(Change::Delay(Duration::ZERO)).expect("a delay");
    // transmitted at 1.1 s, and arrives no earlier than the one before
    assert_eq!(arrives(link.offer(1000, Instant(0))), 3 * second);
    assert_eq!(
        arrives(link.offer(1000, Instant(5 * second))),
        5 * second + second / 10
    );
    link.change(Change::Up(false)).expect("down");
    assert_eq!(link.offer(1000, Instant(6 * second)), Ok(Fate::Down));
    link.change(Change::Up(true)).expect("up");
    link.change(Change::Loss(1.0)).expect("a loss");
    assert_eq!(link.offer(1000, Instant(7 * second)), Ok(Fate::Lost));
    let counters = link.counters();
    let found = (
        counters.offered,
        counters.delivered,
        counters.lost,
        counters.down,
    );
    assert_eq!(found, (5, 3, 1, 1));
    assert_eq!(link.change(Change::Rate(0)), Err(BadShape::Rate));
    assert_eq!(link.change(Change::Loss(1.5)), Err(BadShape::Loss(1.5)));
}

#[test]
fn links_that_cannot_be_are_named() {
    let fault = |change: fn(&mut Planned)| {
        let mut shape = Shape::plain(1, Duration::ZERO);
        change(&mut shape);
        shape.check().expect_err("a fault")
    };
    assert_eq!(fault(|shape| shape.loss = -0.1), BadShape::Loss(-0.1));
    assert!(matches!(
        fault(|shape| shape.loss = f64::NAN),
        BadShape::Loss(_)
    ));
    assert_eq!(
        fault(|shape| shape.carrier = Carrier::Rate(0)),
        BadShape::Rate
    );
    assert_eq!(fault(|shape| shape.mtu = Some(67)), BadShape::Mtu(67));
    assert_eq!(
        fault(|shape| shape.queue = Limit::Packets(0)),
        BadShape::Queue
    );
    assert_eq!(
        fault(|shape| shape.queue = Limit::Bytes(0)),
        BadShape::Queue
    );
    let reorder = fault(|shape| shape.reorder = 2.0);
    assert_eq!(reorder, BadShape::Reorder(2.0));
    let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut shape = Planned::plain(1, one);
    shape.delay = Delay::Uniform(two, one);
    assert_eq!(shape.check(), Err(BadShape::Delay(two, one)));
}

fn recorded(text: &'static str) -> Link<Text, Stream> {
    let survey = survey(Cursor::new(text)).expect("a recording");
    let replay = Replay::new(Cursor::new(text), survey).expect("a first line");
    link(|shape| shape.carrier = Carrier::Recording(Box::new(replay)))
}

#[test]
fn a_packet_is_held_back_until_two_full_ones_pass_at_the_present_rate() {
    let mut link = link(|shape| {
        shape.carrier = Carrier::Rate(12_000);
        (shape.delay, shape.reorder) = (Delay::Fixed(Duration::ZERO), 1.0);
    });
    let second = 1_000 * MS;
    assert_eq!(arrives(link.offer(1500, Instant(0))), 3 * second);
    link.change(Change::Rate(12_000_000)).expect("a rate");
    assert_eq!(
        arrives(link.offer(1500, Instant(9 * second))),
        9 * second + 3 * MS
    );
    let mut at_once = self::link(|shape| {
        (shape.carrier, shape.reorder) = (Carrier::Unlimited, 1.0);
    });
    assert_eq!(arrives(at_once.offer(1500, Instant(0))), 10 * MS);
    // a recording has a mean rate: here two packets in 10 ms
    let mut recorded = recorded("4\n10\n");
    recorded.shape.reorder = 1.0;
    assert_eq!(
        arrives(recorded.offer(1500, Instant(0))),
        (4 + 10 + 10) * MS
    );
}

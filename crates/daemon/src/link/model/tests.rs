use std::io::Cursor;

use engine::recording::survey;

use super::*;

const MS: u64 = 1_000_000;

fn shape(carrier: Carrier, queue: Queue) -> Shape {
    Shape {
        carrier,
        delay: Duration::from_millis(50),
        loss: 0.0,
        queue,
    }
}

/// Uniform numbers for tests (SplitMix64).
struct Chances(u64);

impl Chances {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

#[test]
fn a_datagram_arrives_after_its_transmission_and_the_delay() {
    let mut link = Link::new(shape(Carrier::Rate(2_000_000), Queue::Datagrams(10)));
    // 1000 octets at 2 Mbit/s: 4 ms each.
    assert_eq!(
        link.offer(1000, Instant(0), 0.5),
        Ok(Fate::Arrives(Instant(54 * MS)))
    );
    assert_eq!(
        link.offer(1000, Instant(MS), 0.5),
        Ok(Fate::Arrives(Instant(58 * MS)))
    );
    let idle = Instant(100 * MS);
    assert_eq!(
        link.offer(1000, idle, 0.5),
        Ok(Fate::Arrives(Instant(154 * MS)))
    );
}

#[test]
fn a_full_queue_refuses_in_datagrams_and_in_octets() {
    for (queue, fits) in [(Queue::Datagrams(3), 3), (Queue::Bytes(3500), 3)] {
        let mut link = Link::new(shape(Carrier::Rate(2_000_000), queue));
        for _ in 0..fits {
            assert!(matches!(
                link.offer(1000, Instant(0), 0.5),
                Ok(Fate::Arrives(_))
            ));
        }
        assert_eq!(
            link.offer(1000, Instant(4 * MS - 1), 0.5),
            Ok(Fate::Overflows)
        );
        assert!(matches!(
            link.offer(1000, Instant(4 * MS), 0.5),
            Ok(Fate::Arrives(_))
        ));
    }
}

/// M/D/1 (Pollaczek-Khinchine): the mean wait is r / (2 (1 - r)) services. Within 3 %.
#[test]
fn the_mean_wait_of_random_arrivals_is_that_of_theory() {
    let service = 4.0e6;
    for utilisation in [0.3, 0.5, 0.7] {
        let mut chances = Chances(7);
        let mut link = Link::new(shape(Carrier::Rate(2_000_000), Queue::Datagrams(100_000)));
        let (mut now, mut waited) = (0.0, 0.0);
        let count = 400_000;
        for _ in 0..count {
            now += chances.exponential(service / utilisation);
            let Ok(Fate::Arrives(at)) = link.offer(1000, Instant(now as u64), 0.5) else {
                panic!("an endless queue refuses nothing");
            };
            waited += at.0 as f64 - 50.0e6 - service - now;
        }
        let mean = waited / f64::from(count) / service;
        let theory = utilisation / (2.0 * (1.0 - utilisation));
        assert!(
            (mean / theory - 1.0).abs() < 0.03,
            "{mean} against {theory}"
        );
    }
}

/// M/D/1/K with K = 1 loses what comes during a service: r / (1 + r) (Erlang B). Within 2 %.
#[test]
fn the_share_refused_without_a_queue_is_erlangs() {
    let mut chances = Chances(11);
    let mut link = Link::new(shape(Carrier::Rate(2_000_000), Queue::Datagrams(1)));
    let mut now = 0.0;
    for _ in 0..200_000 {
        now += chances.exponential(4.0e6);
        let offered = link.offer(1000, Instant(now as u64), 0.5);
        assert!(offered.is_ok());
    }
    let counters = link.counters();
    let share = counters.overflowed as f64 / counters.offered as f64;
    assert!((share / 0.5 - 1.0).abs() < 0.02, "{share}");
}

#[test]
fn the_share_lost_is_the_probability_and_the_lost_are_charged() {
    let mut chances = Chances(3);
    let mut lossy = shape(Carrier::Rate(8_000_000_000), Queue::Datagrams(200_000));
    lossy.loss = 0.01;
    let mut link = Link::new(lossy);
    for _ in 0..100_000 {
        let offered = link.offer(1000, Instant(0), chances.next());
        assert!(offered.is_ok());
    }
    let lost = link.counters().lost as f64;
    // Three standard deviations of a binomial count.
    assert!((lost - 1000.0).abs() < 3.0 * 31.5, "{lost}");
    let last = link.offer(1000, Instant(0), 0.5);
    assert_eq!(last, Ok(Fate::Arrives(Instant(100_001_000 + 50 * MS))));
}

#[test]
fn a_trace_carries_one_opportunity_a_line_and_begins_anew() {
    let mut link = Link::new(shape(trace("2\n4\n4\n10\n"), Queue::Datagrams(100)));
    let mut at = |bytes, now| match link.offer(bytes, Instant(now), 0.5) {
        Ok(Fate::Arrives(at)) => at.0 / MS - 50,
        other => panic!("{other:?}"),
    };
    let whole = 1500;
    assert_eq!([0; 5].map(|now| at(whole, now)), [2, 4, 4, 10, 12]);
    // Two small ones share an opportunity, the third spans two.
    assert_eq!([13 * MS; 3].map(|now| at(700, now)), [14, 14, 14]);
    // A wasted one does not come back; a round begins where the last ended.
    assert_eq!(at(whole, 15 * MS), 20);
    assert_eq!(at(whole, 20 * MS + 1), 22);
}

#[test]
fn a_trace_carries_its_mean_rate() {
    let mut link = Link::new(shape(trace("1\n2\n3\n4\n5\n"), Queue::Datagrams(20_000)));
    let mut last = 0;
    for _ in 0..10_000 {
        if let Ok(Fate::Arrives(at)) = link.offer(748, Instant(0), 0.5) {
            last = at.0;
        }
    }
    // Two a millisecond.
    assert_eq!(last, (5000 + 50) * MS);
}

#[test]
fn a_trace_that_ends_early_ends_the_link() {
    let whole = survey(Cursor::new("2\n4\n")).expect("a trace");
    let source: Box<dyn Rewind + Send> = Box::new(Cursor::new("2\n"));
    let cut = Replay::new(source, whole).expect("a first line");
    let mut link = Link::new(shape(Carrier::Trace(cut), Queue::Datagrams(100)));
    assert!(link.offer(1500, Instant(0), 0.5).is_ok());
    let fault = link.offer(1500, Instant(0), 0.5);
    assert_eq!(fault, Err(BadRecording::Changed));
}

fn trace(text: &'static str) -> Carrier {
    let survey = survey(Cursor::new(text)).expect("a trace");
    let source: Box<dyn Rewind + Send> = Box::new(Cursor::new(text));
    Carrier::Trace(Replay::new(source, survey).expect("a first line"))
}

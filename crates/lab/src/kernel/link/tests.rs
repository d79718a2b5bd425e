use super::*;

fn link(change: impl FnOnce(&mut Shape)) -> Link {
    let mut shape = Shape::plain(8_000_000, Duration::from_millis(10));
    change(&mut shape);
    assert_eq!(shape.fault(), None);
    Link::new(shape, Random::new(1, "link", 0))
}

fn arrives(fate: Fate) -> u64 {
    match fate {
        Fate::Arrives(at) => at.0,
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
fn a_full_queue_overflows_and_drains() {
    let mut link = link(|shape| shape.queue = Limit::Packets(2));
    arrives(link.offer(1000, Instant(0)));
    arrives(link.offer(1000, Instant(0)));
    assert_eq!(link.offer(1000, Instant(0)), Fate::Overflows);
    arrives(link.offer(1000, Instant(MS)));
    let mut bytes = self::link(|shape| shape.queue = Limit::Bytes(1500));
    arrives(bytes.offer(1000, Instant(0)));
    assert_eq!(bytes.offer(501, Instant(0)), Fate::Overflows);
    arrives(bytes.offer(500, Instant(0)));
}

#[test]
fn losses_and_packets_held_back_come_at_their_rate() {
    let count = 100_000;
    let mut link = link(|shape| {
        shape.loss = 0.03;
        shape.held_back = Some((0.1, Duration::from_millis(5)));
    });
    let (mut held, mut last) = (0, 0);
    for number in 0..count {
        let at = number * 2 * MS;
        match link.offer(1000, Instant(at)) {
            Fate::Arrives(arrival) => {
                held += u32::from(arrival.0 == at + 16 * MS);
                assert!([at + 11 * MS, at + 16 * MS].contains(&arrival.0));
                last = arrival.0;
            }
            fate => assert_eq!(fate, Fate::Lost),
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
            // far enough apart that the order is not what decides
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
    assert_eq!(link.offer(1501, Instant(0)), Fate::TooBig);
}

#[test]
fn links_that_cannot_be_are_named() {
    let fault = |change: fn(&mut Shape)| {
        let mut shape = Shape::plain(1, Duration::ZERO);
        change(&mut shape);
        shape.fault().expect("a fault")
    };
    assert!(fault(|shape| shape.loss = -0.1).contains("-0.1"));
    assert!(fault(|shape| shape.loss = f64::NAN).contains("NaN"));
    assert!(fault(|shape| shape.carrier = Carrier::Rate(0)).contains("0 bit/s"));
    assert!(fault(|shape| shape.mtu = Some(67)).contains("67"));
    assert!(fault(|shape| shape.queue = Limit::Packets(0)).contains("queue"));
    assert!(fault(|shape| shape.held_back = Some((2.0, Duration::ZERO))).contains('2'));
    let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut shape = Shape::plain(1, one);
    shape.delay = Delay::Uniform(two, one);
    assert!(shape.fault().expect("a fault").contains("no values"));
}

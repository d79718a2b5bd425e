use super::*;
use crate::rand::Seed;
use crate::tests::hex;

fn point(text: &str) -> Point {
    Point::new(&hex(text).try_into().unwrap()).unwrap()
}

fn scalar(text: &str) -> Scalar {
    Scalar::new(&hex(text).try_into().unwrap()).unwrap()
}

/// RFC 5903 §8.1.
#[test]
fn an_agreement_is_as_published() {
    let i = scalar("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433");
    let r = scalar("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53");
    let public_i = point(
        "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180\
         5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3",
    );
    assert!(Point::GENERATOR.times(&i).unwrap() == public_i);
    let public_r = Point::GENERATOR.times(&r).unwrap();
    let shared = public_i.times(&r).unwrap();
    assert!(shared == public_r.times(&i).unwrap());
    assert_eq!(
        shared.x()[..],
        hex("d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de")
    );
}

#[test]
fn sums_and_negations_meet_at_infinity() {
    let mut random = Seed::new([1; 32]).stream("p256", 0);
    let (a, b) = (Scalar::generate(&mut random), Scalar::generate(&mut random));
    let (p, q) = [&a, &b]
        .map(|it| Point::GENERATOR.times(it).unwrap())
        .into();
    let sum = Point::GENERATOR.times(&a.plus(&b)).unwrap();
    assert!(p.plus(&q).unwrap() == sum);
    assert!(p.plus(&p.negated()).is_none());
    assert!(p.plus(&p).unwrap() == p.times(&Scalar::reduced(&[1])).unwrap());
    assert!(sum.plus(&q.negated()).unwrap() == p);
    for is_odd in [false, true] {
        let found = Point::of_x(&p.x(), is_odd).unwrap();
        assert_eq!(found.octets()[63] & 1 == 1, is_odd);
        assert!(found == p || found == p.negated());
    }
}

#[test]
fn what_is_not_on_the_curve_or_not_in_range_is_refused() {
    let mut wrong = GENERATOR;
    wrong[63] ^= 1;
    assert!(Point::new(&wrong).is_none());
    assert!(Point::new(&[0; 64]).is_none());
    // A coordinate of p or more.
    let mut large = GENERATOR;
    large[..32].fill(0xff);
    assert!(Point::new(&large).is_none());
    assert!(Point::of_x(&[0xff; 32], true).is_none());
    assert!(Scalar::new(&[0; 32]).is_none());
    assert!(Scalar::new(&ORDER).is_none());
    let last = Scalar::new(&less(&ORDER, 1)).unwrap();
    let one = Scalar::reduced(&[0]);
    assert!(!one.is_above_1() && last.is_above_1());
    // Half of all x have no point.
    let without = (0..64).filter(|at| Point::of_x(&[*at; 32], false).is_none());
    assert!((16..48).contains(&without.count()));
}

/// RFC 9380 §J.1.1: the points Q0 and Q1 of an empty message. They have the sign of u too.
#[test]
fn hashed_points_are_as_published() {
    for (u, x, y) in [
        (
            "ad5342c66a6dd0ff080df1da0ea1c04b96e0330dd89406465eeba11582515009",
            "ab640a12220d3ff283510ff3f4b1953d09fad35795140b1c5d64f313967934d5",
            "dccb558863804a881d4fff3455716c836cef230e5209594ddd33d85c565b19b1",
        ),
        (
            "8c0f1d43204bd6f6ea70ae8013070a1518b43873bcd850aafa0a9e220e2eea5a",
            "51cce63c50d972a6e51c61334f0f4875c9ac1cd2d3238412f84e31da7d980ef5",
            "b45d1a36d00ad90e5ec7840a60a4de411917fbe7c82c3949a6e699e5a1b66aac",
        ),
    ] {
        let made = hash_to_point(&hex(u));
        assert_eq!(made.octets()[..], [hex(x), hex(y)].concat(), "{u}");
        assert!(Point::new(made.octets()).is_some());
    }
    // A number of zero takes the special case.
    assert!(Point::new(hash_to_point(&[0; 32]).octets()).is_some());
}

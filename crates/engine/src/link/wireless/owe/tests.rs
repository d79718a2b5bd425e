use crypto::rand::Seed;

use super::*;

/// Made by `python/tests/wireless_by_hand.py`: secrets of client and access point, their public
/// values, master key and its name.
const VECTORS: &str = include_str!("../../../../testdata/wireless/owe.txt");

fn hex<const N: usize>(text: &str) -> [u8; N] {
    assert_eq!(text.len(), 2 * N);
    core::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

#[test]
fn a_second_implementation_has_the_same_keys() {
    let mut work = Work::default();
    for line in VECTORS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let pair = |at: usize, work: &mut Work| {
            let secret = Scalar::new(&hex(words[at])).unwrap();
            let pair = OwePair::of(secret, work);
            assert_eq!(pair.public, hex(words[2 + at]));
            pair
        };
        let (client, access_point) = (pair(0, &mut work), pair(1, &mut work));
        for agreed in [
            client.agree(OweRole::Client, &access_point.element(), &mut work),
            access_point.agree(OweRole::AccessPoint, &client.element(), &mut work),
        ] {
            let agreed = agreed.expect("a good value");
            assert_eq!(*agreed.master.octets(), hex(words[4]));
            assert_eq!(agreed.pmkid, hex(words[5]));
        }
    }
    assert_eq!(VECTORS.lines().count(), 4);
}

fn pairs() -> [OwePair; 2] {
    let seed = Seed::new([4; 32]);
    let mut work = Work::default();
    [0, 1].map(|at| OwePair::generate(&mut seed.stream("owe", at), &mut work))
}

#[test]
fn both_ends_have_the_same_keys() {
    let [client, access_point] = pairs();
    let mut work = Work::default();
    let ours = client.agree(OweRole::Client, &access_point.element(), &mut work);
    let theirs = access_point.agree(OweRole::AccessPoint, &client.element(), &mut work);
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        panic!("both agree");
    };
    assert_eq!(ours.master.octets(), theirs.master.octets());
    assert_eq!(ours.pmkid, theirs.pmkid);
    assert_eq!(work.entries(), [(Task::ScalePoint, 2, 64)]);
}

#[test]
fn bad_public_values_are_refused() {
    let [client, access_point] = pairs();
    let mut work = Work::default();
    let mut refused = |element: &[u8]| client.agree(OweRole::Client, element, &mut work).err();
    let good = access_point.element();
    assert_eq!(refused(&good), None);
    for end in 0..good.len() {
        assert!(refused(&good[..end]).is_some(), "{end}");
    }
    assert_eq!(refused(&client.element()), Some(DropReason::Reflected));
    let group = [&[20, 0][..], &good[2..]].concat();
    assert_eq!(refused(&group), Some(DropReason::NoProposalChosen));
    // p or more, and a coordinate of no point.
    let large = [&[19, 0][..], &[0xff; 32]].concat();
    assert_eq!(refused(&large), Some(DropReason::BadPublicValue));
    let without = (0..=255).find(|at| Point::of_x(&[*at; 32], false).is_none());
    let without = [&[19, 0][..], &[without.expect("half of all"); 32]].concat();
    assert_eq!(refused(&without), Some(DropReason::BadPublicValue));
}

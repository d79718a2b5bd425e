use crypto::rand::Seed;

use super::*;

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

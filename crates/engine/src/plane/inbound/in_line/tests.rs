use crypto::rand::{Seed, Stream};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg};

use super::*;
use crate::firewall::access::{AccessList, Entry, EntryId, Origin};
use crate::sa::{Direction, InLine, Sa};
use crate::selector::TrafficSelector;
use crate::skip::{Association, IvLen, MasterKey, Parts, Profile, Renewal};

const OWN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn named(number: u8) -> Name {
    match number {
        0 => Name::NONE,
        _ => Name::ipv4(Ipv4Addr::new(10, 18, 3, number)),
    }
}

fn opener(id: EntryId, entry: &Entry<()>) -> Opener {
    let algorithms = Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);
    let association = Association::new(Parts {
        profile: Profile::Draft,
        algorithms: algorithms.expect("they go together"),
        local: entry.local,
        remote: entry.remote,
        iv_len: IvLen::Whole,
        renewal: Renewal::DRAFT,
        master: MasterKey::manual(&[7; 32]),
    });
    let in_line = InLine {
        from: (entry.origin != Origin::Nomadic).then(|| entry.origin.selector()),
        ..InLine::new(association.expect("they fit"), id.0 as u32)
    };
    let child = ChildId(id.0 as u32);
    let path = Path::raw(OWN.into(), Ipv4Addr::UNSPECIFIED.into());
    let all = || vec![TrafficSelector::subnet(Ipv4Addr::UNSPECIFIED.into(), 0)];
    let sa = Sa::skip((Direction::Inbound, child), in_line, path, all(), all());
    Opener::new(sa).expect("an SA of packets that come in")
}

/// A list whose networks lie in one another.
fn list(random: &mut Stream) -> AccessList<()> {
    let mut entries: Vec<Entry<()>> = Vec::new();
    for _ in 0..60 {
        let (origin, name) = (some_origin(random), (random.u32() % 3) as u8);
        let local = named(9 * (random.u32() % 2) as u8);
        let remote = match origin {
            Origin::Nomadic => named(name.max(1)),
            _ => named(name),
        };
        let template = ();
        let entry = Entry {
            origin,
            local,
            remote,
            template,
        };
        entries.push(entry);
        if AccessList::new(entries.clone()).is_err() {
            entries.pop();
        }
    }
    AccessList::new(entries).expect("a list")
}

fn some_origin(random: &mut Stream) -> Origin {
    let address = some_address(random);
    match random.u32() % 8 {
        0 => Origin::Nomadic,
        1..=3 => Origin::Host(address),
        _ => {
            let bits = [0, 8, 24, 28, 30, 31, 32][(random.u32() % 7) as usize];
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Origin::Network((address.to_bits() & mask).into(), bits)
        }
    }
}

/// Few addresses, with those at both ends.
fn some_address(random: &mut Stream) -> Ipv4Addr {
    let last = random.u32() % 16;
    match random.u32() % 8 {
        0 => Ipv4Addr::from_bits(last),
        1 => Ipv4Addr::from_bits(u32::MAX - last),
        _ => Ipv4Addr::new(192, 168, 4, last as u8),
    }
}

#[test]
fn the_entry_of_a_packet_is_that_of_the_lists_order() {
    let mut random = Seed::new([4; 32]).stream("list", 0);
    let mut count = [0; 2];
    for _ in 0..60 {
        let list = list(&mut random);
        let mut all: Vec<_> = list.iter().collect();
        // The order in which SAs come does not count.
        for at in 1..all.len() {
            all.swap(at, random.u32() as usize % (at + 1));
        }
        let mut names = Names::default();
        for (id, entry) in &all {
            names.insert(opener(*id, entry));
        }
        let gone = all.pop().map(|(id, _)| id).expect("an entry");
        assert!(
            names
                .remove(ChildId(gone.0 as u32), gone.0 as u32)
                .is_some()
        );
        for _ in 0..600 {
            let source = some_address(&mut random);
            let remote = named((random.u32() % 3) as u8);
            let local = named(9 * (random.u32() % 2) as u8);
            let fits = |entry: &Entry<()>| {
                entry.origin.holds(source) && (entry.remote, entry.local) == (remote, local)
            };
            let first = (list.iter()).find(|(id, entry)| *id != gone && fits(entry));
            let path = Path::raw(OWN.into(), source.into());
            let found = names.find((remote, local), &path);
            let expected = first.map(|(id, _)| ChildId(id.0 as u32));
            assert_eq!(found.map(|it| it.child), expected, "{source}");
            count[usize::from(expected.is_some())] += 1;
        }
    }
    assert!(count.into_iter().all(|count| count > 2_000), "{count:?}");
}

/// An attacker chooses the source: no entry is looked at whose addresses do not hold it.
#[test]
fn a_forged_source_makes_no_search_of_the_list() {
    let mut names = Names::default();
    for number in 0..4_000_usize {
        let net = Ipv4Addr::from_bits(0x0a00_0000 + 256 * number as u32);
        let origin = match number % 2 {
            0 => Origin::Network(net, 24),
            _ => Origin::Host(net),
        };
        let (local, remote, template) = (Name::NONE, Name::NONE, ());
        let entry = Entry {
            origin,
            local,
            remote,
            template,
        };
        names.insert(opener(EntryId(number), &entry));
    }
    let nameless = (Name::NONE, Name::NONE);
    let looked = |source: [u8; 4]| {
        let source = Ipv4Addr::from(source).into();
        names.reaching(nameless, source).count()
    };
    assert_eq!(looked([203, 0, 113, 7]), 0);
    assert_eq!(looked([9, 255, 255, 255]), 0);
    assert_eq!(looked([10, 0, 1, 1]), 0);
    assert_eq!(looked([10, 0, 1, 0]), 1);
    assert_eq!(looked([10, 0, 2, 200]), 1);
}

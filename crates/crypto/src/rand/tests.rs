use super::*;

fn first(seed: u8, name: &str, number: u64) -> [u8; 40] {
    let mut octets = [0; 40];
    Seed::new([seed; 32]).stream(name, number).fill(&mut octets);
    octets
}

#[test]
fn a_stream_is_the_same_for_the_same_seed_name_and_number() {
    assert_eq!(first(1, "spi", 7), first(1, "spi", 7));
}

#[test]
fn streams_of_other_seeds_names_and_numbers_differ() {
    let base = first(1, "spi", 7);
    for other in [first(2, "spi", 7), first(1, "spj", 7), first(1, "spi", 8)] {
        assert_ne!(base, other);
    }
}

#[test]
fn the_key_of_a_stream_is_sha256_of_its_parts() {
    let digest = Hash::Sha256.digest(&[&[5; 32], b"iv", &3u64.to_be_bytes()]);
    let key: [u8; 32] = digest.as_ref().try_into().unwrap();
    let mut expected = [0; 40];
    keystream(&key, &mut expected);
    assert_eq!(first(5, "iv", 3), expected);
}

/// RFC 8439 appendix A.1, test vector 1: the key of zeros.
#[test]
fn the_keystream_is_that_of_chacha20() {
    let expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
                    da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586";
    let mut octets = [0xff; 64];
    keystream(&[0; 32], &mut octets);
    let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(hex, expected);
}

#[test]
fn the_size_of_a_draw_changes_nothing() {
    let mut whole = vec![0; 3 * LEN];
    Seed::new([1; 32]).stream("sizes", 0).fill(&mut whole);
    for size in [1, 7, 32, AHEAD - 1, AHEAD, AHEAD + 1, LEN, 2 * LEN] {
        let mut stream = Seed::new([1; 32]).stream("sizes", 0);
        let mut parts = vec![0; 3 * LEN];
        parts.chunks_mut(size).for_each(|part| stream.fill(part));
        assert_eq!(parts, whole, "{size}");
    }
}

#[test]
fn what_was_drawn_is_nowhere_in_the_state_and_does_not_follow_from_it() {
    let mut stream = Seed::new([2; 32]).stream("erasure", 0);
    let mut drawn = Vec::new();
    for size in [32, 100, 400, 7, 1_000] {
        let mut octets = vec![0; size];
        stream.fill(&mut octets);
        drawn.extend(octets);
        // All that memory holds, and all that the key in it can still make.
        let state = &stream.0.octets;
        let key: [u8; KEY_LEN] = state[AHEAD..].try_into().unwrap();
        let mut next = [0; 4 * LEN];
        keystream(&key, &mut next);
        for held in [&state[..], &next] {
            let is_held = |window: &[u8]| held.windows(8).any(|other| other == window);
            assert!(!drawn.windows(8).any(is_held));
        }
        assert!(state[..stream.0.drawn].iter().all(|octet| *octet == 0));
    }
}

#[test]
fn entropy_changes_what_comes_and_depends_on_what_was() {
    let drawn = |seed: u8, entropy: Option<[u8; 32]>| {
        let mut stream = Seed::new([seed; 32]).stream("stirred", 0);
        stream.u32();
        entropy.iter().for_each(|entropy| stream.stir(entropy));
        let mut octets = [0; 32];
        stream.fill(&mut octets);
        octets
    };
    let all = [
        drawn(1, None),
        drawn(1, Some([1; 32])),
        drawn(1, Some([2; 32])),
        drawn(2, Some([1; 32])),
    ];
    for (at, octets) in all.iter().enumerate() {
        assert!(!all[..at].contains(octets));
    }
    assert_eq!(drawn(1, Some([1; 32])), all[1]);
}

#[test]
fn numbers_are_big_endian() {
    let octets = first(9, "n", 0);
    let number = Seed::new([9; 32]).stream("n", 0).u32();
    assert_eq!(number.to_be_bytes(), octets[..4]);
}

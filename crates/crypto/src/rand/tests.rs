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
    ChaCha20Rng::from_seed(key).fill_bytes(&mut expected);
    assert_eq!(first(5, "iv", 3), expected);
}

#[test]
fn numbers_are_big_endian() {
    let octets = first(9, "n", 0);
    let number = Seed::new([9; 32]).stream("n", 0).u32();
    assert_eq!(number.to_be_bytes(), octets[..4]);
}

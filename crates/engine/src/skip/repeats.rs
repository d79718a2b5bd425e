//! A bounded memory of packets that were opened. SKIP itself accepts a packet again as long as its
//! n is accepted (the draft leaves replays to the protocols above); the memory only tells.

/// 1,024 packets are remembered, in sets of 4.
const SETS: usize = 256;
const WAYS: usize = 4;

/// The first 64 bits of authentication data. Who cannot make authentic packets cannot choose them.
pub(super) struct Repeats {
    sets: Box<[[u64; WAYS]; SETS]>,
    /// The next way to overwrite, of every set.
    next: Box<[u8; SETS]>,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self {
            sets: Box::new([[0; WAYS]; SETS]),
            next: Box::new([0; SETS]),
        }
    }

    /// Remembers an authentic packet. Returns whether it is remembered already.
    pub(super) fn note(&mut self, authentication_data: &[u8]) -> bool {
        let Some(first) = authentication_data.first_chunk() else {
            return false;
        };
        // Zero stands for an empty place.
        let mark = u64::from_be_bytes(*first) | 1;
        let at = (mark >> 56) as usize;
        let (set, next) = (&mut self.sets[at], &mut self.next[at]);
        if set.contains(&mark) {
            return true;
        }
        set[usize::from(*next)] = mark;
        *next = (*next + 1) % WAYS as u8;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMEMBERED: usize = SETS * WAYS;

    fn data(number: u64) -> [u8; 16] {
        let digest = crypto::hash::Hash::Md5.digest(&[&number.to_be_bytes()]);
        digest.as_ref().try_into().unwrap()
    }

    #[test]
    fn the_last_packets_are_known_and_memory_is_bounded() {
        let mut repeats = Repeats::new();
        for number in 0..10 * REMEMBERED as u64 {
            assert!(!repeats.note(&data(number)), "{number}");
            assert!(repeats.note(&data(number)), "{number}");
        }
        // Old ones are forgotten, most of the newest half are not.
        let last = 10 * REMEMBERED as u64;
        let known = |repeats: &mut Repeats, numbers: core::ops::Range<u64>| {
            numbers
                .filter(|number| repeats.note(&data(*number)))
                .count()
        };
        assert_eq!(known(&mut repeats, 0..10), 0);
        let newest = known(&mut repeats, last - REMEMBERED as u64 / 2..last);
        assert!(newest > REMEMBERED * 2 / 5, "{newest}");
    }

    #[test]
    fn without_authentication_nothing_is_known() {
        let mut repeats = Repeats::new();
        assert!(!repeats.note(&[]) && !repeats.note(&[]));
    }
}

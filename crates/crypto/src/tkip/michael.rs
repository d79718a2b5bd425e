//! Michael (IEEE 802.11-2020 §12.5.2.3): a MIC of 64 bits over addresses, priority and data.

use zeroize::ZeroizeOnDrop;

/// Octets of the MIC.
pub const MIC_LEN: usize = 8;

/// A MIC key, wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct MichaelKey([u32; 2]);

struct Running {
    left: u32,
    right: u32,
    word: u32,
    /// Octets in `word`.
    filled: u32,
}

impl MichaelKey {
    /// Takes the octets of a key.
    pub fn new(key: &[u8; MIC_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h] = *key;
        Self([[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes))
    }

    /// The MIC of a packet.
    pub fn sign(
        &self,
        destination: [u8; 6],
        source: [u8; 6],
        priority: u8,
        data: &[u8],
    ) -> [u8; MIC_LEN] {
        self.sign_octets(&[&destination, &source, &[priority, 0, 0, 0], data])
    }

    fn sign_octets(&self, parts: &[&[u8]]) -> [u8; MIC_LEN] {
        let mut running = Running {
            left: self.0[0],
            right: self.0[1],
            word: 0,
            filled: 0,
        };
        for octet in parts.iter().copied().flatten() {
            running.take(*octet);
        }
        // One octet of 0x5a, then four to seven zeros up to a whole word.
        running.take(0x5a);
        (0..4).for_each(|_| running.take(0));
        while running.filled > 0 {
            running.take(0);
        }
        let [a, b, c, d] = running.left.to_le_bytes();
        let [e, f, g, h] = running.right.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl Running {
    fn take(&mut self, octet: u8) {
        self.word |= u32::from(octet) << (8 * self.filled);
        self.filled += 1;
        if self.filled == 4 {
            self.left ^= self.word;
            self.mix();
            (self.word, self.filled) = (0, 0);
        }
    }

    fn mix(&mut self) {
        let (mut l, mut r) = (self.left, self.right);
        r ^= l.rotate_left(17);
        l = l.wrapping_add(r);
        r ^= (l & 0xff00_ff00) >> 8 | (l & 0x00ff_00ff) << 8;
        l = l.wrapping_add(r);
        r ^= l.rotate_left(3);
        l = l.wrapping_add(r);
        r ^= l.rotate_right(2);
        l = l.wrapping_add(r);
        (self.left, self.right) = (l, r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// IEEE 802.11i-2004 annex H.2: the key of each is the MIC of the one before.
    #[test]
    fn michael_is_as_published() {
        let mut key = [0; 8];
        for (text, mic) in [
            ("", "82925c1ca1d130b8"),
            ("M", "434721ca40639b3f"),
            ("Mi", "e8f9becae97e5d29"),
            ("Mic", "90038fc6cf13c1db"),
            ("Mich", "d55e100510128986"),
            ("Michael", "0a942b124ecaa546"),
        ] {
            let made = MichaelKey::new(&key).sign_octets(&[text.as_bytes()]);
            assert_eq!(made[..], hex(mic), "{text}");
            key = made;
        }
    }

    #[test]
    fn addresses_and_priority_count() {
        let key = MichaelKey::new(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let mic = key.sign([1; 6], [2; 6], 0, b"data");
        assert_ne!(mic, key.sign([3; 6], [2; 6], 0, b"data"));
        assert_ne!(mic, key.sign([1; 6], [3; 6], 0, b"data"));
        assert_ne!(mic, key.sign([1; 6], [2; 6], 1, b"data"));
        assert_ne!(mic, key.sign([1; 6], [2; 6], 0, b"dat"));
        assert_ne!(
            mic,
            MichaelKey::new(&[0; 8]).sign([1; 6], [2; 6], 0, b"data")
        );
    }
}

//! The two phases of key mixing (IEEE 802.11-2020 §12.5.2.5). Its table of 16-bit words comes from
//! the S-box of AES, computed here.

use zeroize::Zeroizing;

/// The output of the first phase: TTAK.
pub(super) type Mixed = Zeroizing<[u16; 5]>;

/// Phase 1: temporal key, transmitter and the high 32 bits of the packet number.
pub(super) fn mix_transmitter(temporal: &[u8; 16], transmitter: [u8; 6], high: u32) -> Mixed {
    let [a, b, c, d, e, f] = transmitter;
    let word = |low, high| u16::from_le_bytes([low, high]);
    let mut ttak = Zeroizing::new([
        high as u16,
        (high >> 16) as u16,
        word(a, b),
        word(c, d),
        word(e, f),
    ]);
    for round in 0..8 {
        // Odd rounds take the other half of each four octets.
        let half = 2 * usize::from(round & 1);
        for (at, octet) in [0, 4, 8, 12, 0].into_iter().enumerate() {
            let last = ttak[(at + 4) % 5];
            let substituted = substitute(last ^ word_at(temporal, octet + half));
            ttak[at] = ttak[at].wrapping_add(substituted);
        }
        ttak[4] = ttak[4].wrapping_add(round);
    }
    ttak
}

/// Phase 2: the RC4 key of the packet with these low 16 bits of its number.
pub(super) fn mix_packet(ttak: &Mixed, temporal: &[u8; 16], low: u16) -> Zeroizing<[u8; 16]> {
    let mut ppk = Zeroizing::new([0; 6]);
    ppk[..5].copy_from_slice(&ttak[..]);
    ppk[5] = ttak[4].wrapping_add(low);
    for at in 0..6 {
        let last = ppk[(at + 5) % 6];
        let substituted = substitute(last ^ word_at(temporal, 2 * at));
        ppk[at] = ppk[at].wrapping_add(substituted);
    }
    for at in 0..6 {
        let mut last = ppk[(at + 5) % 6];
        if at < 2 {
            last ^= word_at(temporal, 12 + 2 * at);
        }
        ppk[at] = ppk[at].wrapping_add(last.rotate_right(1));
    }
    let [low_octet, high_octet] = low.to_le_bytes();
    let mut seed = Zeroizing::new([0; 16]);
    seed[0] = high_octet;
    seed[1] = (high_octet | 0x20) & 0x7f;
    seed[2] = low_octet;
    seed[3] = ((ppk[5] ^ word_at(temporal, 0)) >> 1) as u8;
    for (to, word) in seed[4..].chunks_mut(2).zip(ppk.iter()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    seed
}

fn word_at(temporal: &[u8; 16], at: usize) -> u16 {
    u16::from_le_bytes([temporal[at], temporal[at + 1]])
}

fn substitute(word: u16) -> u16 {
    let [low, high] = word.to_le_bytes();
    TABLE[usize::from(low)] ^ TABLE[usize::from(high)].swap_bytes()
}

/// Twice and three times the substituted octet, in the field of AES.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let octet = substituted(at as u8);
        table[at] = u16::from_be_bytes([times(octet, 2), times(octet, 3)]);
        at += 1;
    }
    table
};

/// The S-box of AES (FIPS 197 §5.1.1): the inverse, then an affine transformation.
const fn substituted(octet: u8) -> u8 {
    let mut inverse = 0;
    let mut candidate = 255;
    while candidate > 0 && octet != 0 {
        if times(octet, candidate) == 1 {
            inverse = candidate;
        }
        candidate -= 1;
    }
    let sum = inverse
        ^ inverse.rotate_left(1)
        ^ inverse.rotate_left(2)
        ^ inverse.rotate_left(3)
        ^ inverse.rotate_left(4);
    sum ^ 0x63
}

/// The product in the field of AES.
const fn times(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        let is_over = a & 0x80 != 0;
        a <<= 1;
        if is_over {
            a ^= 0x1b;
        }
        b >>= 1;
    }
    product
}

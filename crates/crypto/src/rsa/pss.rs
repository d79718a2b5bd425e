//! EMSA-PSS with MGF1 and a salt as an argument (RFC 8017 §9.1.1, appendix B.2.1).

use crate::hash::Hash;

/// The encoded message as long as the modulus. `None` if the modulus is too short for hash and
/// salt.
pub(super) fn encode(hash: Hash, digest: &[u8], salt: &[u8], modulus_bits: u32) -> Option<Vec<u8>> {
    let bits = usize::try_from(modulus_bits).ok()?.checked_sub(1)?;
    let len = bits.div_ceil(8);
    let db_len = len.checked_sub(hash.len() + 1)?;
    let zeros = db_len.checked_sub(salt.len() + 1)?;
    let h = hash.digest(&[&[0; 8], digest, salt]);
    let mut db = vec![0; db_len];
    db[zeros] = 1;
    db[zeros + 1..].copy_from_slice(salt);
    mask(hash, h.as_ref(), &mut db);
    db[0] &= 0xff >> (8 * len - bits);
    // With 8k + 1 bits the modulus has an octet more than the encoded message.
    let front = usize::try_from(modulus_bits.div_ceil(8)).ok()? - len;
    Some([&vec![0; front][..], &db, h.as_ref(), &[TRAILER]].concat())
}

/// MGF1, combined with `out`.
fn mask(hash: Hash, seed: &[u8], out: &mut [u8]) {
    for (number, part) in (0u32..).zip(out.chunks_mut(hash.len())) {
        let block = hash.digest(&[seed, &number.to_be_bytes()]);
        part.iter_mut()
            .zip(block.as_ref())
            .for_each(|(octet, mask)| *octet ^= mask);
    }
}

/// The last octet of an encoded message.
const TRAILER: u8 = 0xbc;

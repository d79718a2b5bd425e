//! What CCMP and GCMP authenticate beside the data (IEEE 802.11-2020 §12.5.3.3.3).

use wire::ieee80211::{Header, control};

/// Octets of the longest.
pub(super) const MAX_LEN: usize = 24;

/// Subtype bits 4 to 6, retry, power management and more data: what may change on the way.
const CHANGES: u16 = 0x0070 | 0x0800 | 0x1000 | 0x2000;
/// The number of the fragment, in the sequence control field.
const FRAGMENT: u16 = 0x000f;

/// The octets and how many they are.
pub(super) fn aad(header: &Header) -> ([u8; MAX_LEN], usize) {
    let mut aad = [0; MAX_LEN];
    let control = header.control & !CHANGES | control::PROTECTED;
    aad[..2].copy_from_slice(&control.to_le_bytes());
    aad[2..8].copy_from_slice(&header.receiver.0);
    aad[8..14].copy_from_slice(&header.transmitter.0);
    aad[14..20].copy_from_slice(&header.third.0);
    aad[20..22].copy_from_slice(&(header.sequence & FRAGMENT).to_le_bytes());
    match header.qos {
        Some(_) => aad[22] = priority(header),
        None => return (aad, 22),
    }
    (aad, 24)
}

/// The traffic identifier of data with quality of service, otherwise 0.
pub(super) fn priority(header: &Header) -> u8 {
    header.qos.map_or(0, |qos| (qos & 0xf) as u8)
}

/// A packet number as nonces have it.
pub(super) fn number_octets(number: u64) -> [u8; 6] {
    let [_, _, octets @ ..] = number.to_be_bytes();
    octets
}

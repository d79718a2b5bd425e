mod air;
mod attacks;
mod networks;
mod ports;
mod renewal;
mod sizes;
mod vectors;

use super::*;

/// A key of this cipher with these octets.
fn key(cipher: LinkCipher, octets: &[u8]) -> TemporalKey {
    let permitted = cipher.permit(true).expect("legacy is permitted");
    TemporalKey::new(permitted, octets).expect("its length")
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).expect("a digit") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

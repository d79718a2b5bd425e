//! ESP and AH: rewriting headers and trailers gives the same octets, and changes of mutable fields
//! do not affect what AH covers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ah::{self, Ah, Family};
use wire::esp::{self, Esp, UdpPayload};

fuzz_target!(|input: &[u8]| {
    if let Ok(UdpPayload::Esp(packet)) = UdpPayload::classify(input) {
        let esp = Esp::new(packet).expect("classified");
        let mut again = packet.to_vec();
        again[..esp::HEADER_LEN].fill(0);
        esp::write_header(&mut again, esp.spi(), esp.sequence());
        assert_eq!(again, packet);
        trailer(esp.body());
    }
    header(input);
    zeroing(input, ah::zero_mutable_v4, &[1, 6, 7, 8, 10, 11]);
    zeroing(input, ah::zero_mutable_v6, &[1, 2, 3, 7]);
});

fn trailer(clear: &[u8]) {
    let Ok(trailer) = esp::read_trailer(clear) else {
        return;
    };
    let padding_len = clear.len() - esp::TRAILER_LEN - trailer.payload_len;
    let mut again = clear.to_vec();
    again[trailer.payload_len..].fill(0);
    // The smallest alignment that needs exactly this much padding.
    let Some(alignment) =
        (padding_len + 1..=256).find(|n| esp::padding_len(trailer.payload_len, *n) == padding_len)
    else {
        return;
    };
    let len = esp::write_trailer(
        &mut again,
        trailer.payload_len,
        alignment,
        trailer.next_header,
    );
    assert_eq!(len, clear.len());
    assert_eq!(again, clear);
}

fn header(input: &[u8]) {
    let Ok(read) = Ah::new(input) else {
        return;
    };
    let icv_len = read.header_len() - ah::FIXED_LEN;
    let mut again = input.to_vec();
    let (next, spi, sequence) = (read.next_header(), read.spi(), read.sequence());
    let len = ah::write_header(&mut again, next, spi, sequence, icv_len, Family::V4);
    assert_eq!(len, read.header_len());
    let mut written = Ah::new(&mut again[..]).expect("written");
    let icv = read.icv(icv_len).expect("all of it");
    written
        .icv_mut(icv_len)
        .expect("all of it")
        .copy_from_slice(icv);
    assert_eq!(again[..2], input[..2]);
    assert_eq!(again[4..], input[4..]);
}

/// Zeroing twice equals zeroing once, and changes at the `mutable` places make no difference.
fn zeroing(
    input: &[u8],
    zero: fn(&mut [u8]) -> Result<usize, wire::codec::Malformed>,
    mutable: &[usize],
) {
    let mut once = input.to_vec();
    let Ok(len) = zero(&mut once) else {
        return;
    };
    assert_eq!(once[len..], input[len..]);
    let mut twice = once.clone();
    assert_eq!(zero(&mut twice), Ok(len));
    assert_eq!(once, twice);
    let mut travelled = input.to_vec();
    for at in mutable {
        travelled[*at] ^= 0x5a;
    }
    assert_eq!(zero(&mut travelled), Ok(len));
    assert_eq!(travelled, once);
}

//! What both ends of MSCHAPv2 share: names, and the texts of a success and a failure.

use wire::eap::mschapv2::CHALLENGE_LEN;

/// The user in a name that may have a domain before it (RFC 2759 §8.2).
pub(super) fn without_domain(name: &[u8]) -> &[u8] {
    let after = name.iter().rposition(|it| *it == b'\\');
    after.map_or(name, |at| &name[at + 1..])
}

/// The text of a success (RFC 2759 §5).
pub(super) fn success(authenticator: &[u8; 20]) -> Vec<u8> {
    format!("S={} M=welcome", digits(authenticator)).into_bytes()
}

/// What a text of success proves; `None`: nothing.
pub(super) fn authenticator(text: &[u8]) -> Option<[u8; 20]> {
    let digits = text.strip_prefix(b"S=")?.get(..40)?;
    let mut octets = [0; 20];
    for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = core::str::from_utf8(pair).ok()?;
        *octet = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(octets)
}

/// The text of a wrong password, after which there is no other attempt in this exchange (RFC 2759
/// §6).
pub(super) fn failure(challenge: &[u8; CHALLENGE_LEN]) -> Vec<u8> {
    format!(
        "E=691 R=0 C={} V=3 M=wrong name or password",
        digits(challenge)
    )
    .into_bytes()
}

/// What a text of failure says, in our words.
pub(super) fn complaint(text: &[u8]) -> &'static str {
    let number = text.strip_prefix(b"E=").map(|it| {
        let digits = it.iter().take_while(|it| it.is_ascii_digit()).take(9);
        digits.fold(0_u32, |sum, it| sum * 10 + u32::from(it - b'0'))
    });
    match number {
        Some(646) => "the gateway refuses this user at this hour",
        Some(647) => "the gateway has disabled this user",
        Some(648) => "the user's password has expired",
        Some(649) => "the gateway does not permit this user to connect",
        Some(691) => "the gateway refuses the user's name or password",
        _ => "the gateway refuses the user for a reason of its own",
    }
}

fn digits(octets: &[u8]) -> String {
    octets.iter().map(|it| format!("{it:02X}")).collect()
}

use proptest::prelude::*;

use super::*;

/// A message of `len` octets under cookies made of `n`.
fn message(n: u8, len: usize) -> Vec<u8> {
    let header = Header {
        cookies: Cookies {
            initiator: Cookie([n.max(1); 8]),
            responder: Cookie([n; 8]),
        },
        next_payload: PayloadKind::Sa,
        exchange: Exchange::QuickMode,
        flags: Flags::ENCRYPTION,
        message_id: 7,
    };
    let body: Vec<u8> = (0..len - HEADER_LEN).map(|i| i as u8).collect();
    header.write(&body)
}

#[test]
fn a_short_message_travels_whole() {
    let whole = message(1, MAX_UNFRAGMENTED);
    assert_eq!(split(whole.clone(), 1), std::slice::from_ref(&whole));
    let mut assembly = Assembly::default();
    assert_eq!(assembly.take(&whole, Instant(0)), Ok(Some(whole)));
    assert_eq!(assembly.last_datagrams(), 1);
}

#[test]
fn fragments_carry_the_whole_message_under_a_phase_1_header() {
    let whole = message(1, 3000);
    let pieces = split(whole, 5);
    assert_eq!(pieces.len(), 3);
    assert!(pieces.iter().all(|piece| piece.len() <= MAX_UNFRAGMENTED));
    // Header, then: next payload 0, reserved, length, identifier 5, number 3, last.
    let (header, body) = Header::parse(&pieces[2]).unwrap();
    assert_eq!(header.exchange, Exchange::IdentityProtection);
    assert_eq!((header.message_id, header.flags.0), (0, 0));
    assert_eq!(body[..2], [0, 0]);
    assert_eq!(body[4..8], [0, 5, 3, 1]);
}

#[test]
fn any_order_and_duplicates_give_the_message_once() {
    let whole = message(1, 5000);
    let mut pieces = split(whole.clone(), 1);
    pieces.reverse();
    let mut assembly = Assembly::default();
    let (last, rest) = pieces.split_last().unwrap();
    for piece in rest {
        assert_eq!(assembly.take(piece, Instant(0)), Ok(None));
        let again = assembly.take(piece, Instant(0));
        assert_eq!(again, Err(DropReason::RetransmittedMessage));
    }
    assert_eq!(assembly.take(last, Instant(0)), Ok(Some(whole)));
    assert_eq!(assembly.last_datagrams(), 5);
    assert_eq!(assembly.octets(), 0);
}

#[test]
fn a_newer_message_under_the_same_identifier_takes_over() {
    let (old, new) = (message(1, 3000), message(1, 4000));
    let mut assembly = Assembly::default();
    let old = split(old, 1);
    assert_eq!(assembly.take(&old[1], Instant(0)), Ok(None));
    assert_eq!(assembly.take(&old[2], Instant(0)), Ok(None));
    let pieces = split(new.clone(), 1);
    assert_eq!(assembly.take(&pieces[3], Instant(0)), Ok(None));
    for piece in &pieces[..2] {
        assert_eq!(assembly.take(piece, Instant(0)), Ok(None));
    }
    assert_eq!(assembly.take(&pieces[2], Instant(0)), Ok(Some(new)));
}

#[test]
fn what_is_held_is_bounded_in_number_octets_and_time() {
    let mut assembly = Assembly::default();
    let mut full = 0;
    for n in 0..2000_u32 {
        let mut piece = split(message(9, 3000), 1).swap_remove(0);
        piece[..4].copy_from_slice(&(n + 1).to_be_bytes());
        full += u32::from(assembly.take(&piece, Instant(0)).is_err());
    }
    assert!(full >= 2000 - MAX_PARTIAL as u32);
    assert!(assembly.octets() <= MAX_OCTETS);
    let piece = &split(message(1, 3000), 1)[0];
    let late = Instant(0) + PATIENCE;
    assert_eq!(
        assembly.take(piece, Instant(0)),
        Err(DropReason::TooManyFragments)
    );
    assert_eq!(assembly.take(piece, late), Ok(None));
    assert_eq!(assembly.partial.len(), 1);
}

#[test]
fn first_messages_have_a_share_of_their_own() {
    let mut assembly = Assembly::default();
    for n in 1..=255 {
        let mut piece = split(message(n, 3000), 1).swap_remove(0);
        piece[8..16].fill(0);
        let _ = assembly.take(&piece, Instant(0));
    }
    assert_eq!(assembly.partial.len(), MAX_PARTIAL_FIRST);
    let known = &split(message(1, 3000), 1)[0];
    assert_eq!(assembly.take(known, Instant(0)), Ok(None));
}

#[test]
fn one_peer_holds_few_messages_and_none_too_large() {
    let mut assembly = Assembly::default();
    for id in 0..100 {
        let piece = &split(message(1, 3000), id)[0];
        assert_eq!(assembly.take(piece, Instant(0)), Ok(None));
    }
    assert_eq!(assembly.partial.len(), MAX_PER_PEER);
    let mut assembly = Assembly::default();
    let pieces = split(message(1, 60_000), 1);
    let result = pieces.iter().try_for_each(|piece| {
        assembly
            .take(piece, Instant(0))
            .map(|whole| assert_eq!(whole, None))
    });
    assert_eq!(result, Err(DropReason::TooManyFragments));
    assert_eq!(assembly.octets(), 0);
}

#[test]
fn fragments_of_fragments_and_of_other_cookies_are_refused() {
    let inner = split(message(1, 3000), 1).swap_remove(0);
    let header = |n: u8| Header {
        cookies: Cookies {
            initiator: Cookie([n; 8]),
            responder: Cookie([n; 8]),
        },
        next_payload: PayloadKind::Fragment,
        exchange: Exchange::Aggressive,
        flags: Flags::default(),
        message_id: 0,
    };
    let only = |n: u8, data: &[u8]| {
        let fragment = wire::isakmp::Fragment {
            id: 1,
            number: 1,
            is_last: true,
            data: data.to_vec(),
        };
        header(n).write(&write_payloads(&[Payload::Fragment(fragment)]).1)
    };
    let mut assembly = Assembly::default();
    for piece in [only(1, &inner), only(2, &message(1, 100)), only(1, &[])] {
        let refused = assembly.take(&piece, Instant(0));
        assert_eq!(refused, Err(DropReason::MalformedMessage));
    }
    let whole = message(1, 100);
    let taken = assembly.take(&only(1, &whole), Instant(0));
    assert_eq!(taken, Ok(Some(whole)));
}

proptest! {
    #[test]
    fn hostile_octets_in_fragments_never_panic(
        pieces in prop::collection::vec((0u8..3, 1u8..5, any::<u8>(), 0usize..80), 0..60),
    ) {
        let mut assembly = Assembly::default();
        for (id, number, flags, len) in pieces {
            let whole = message(1, 28 + len);
            let mut piece = whole[..28].to_vec();
            piece[16] = 132;
            piece.extend([0, 0, 0, 8 + len as u8, 0, id, number, flags]);
            piece.extend(&whole[..len.min(whole.len())]);
            let total = piece.len() as u32;
            piece[24..28].copy_from_slice(&total.to_be_bytes());
            let _ = assembly.take(&piece, Instant(0));
            prop_assert!(assembly.octets() <= MAX_OCTETS);
        }
    }
}

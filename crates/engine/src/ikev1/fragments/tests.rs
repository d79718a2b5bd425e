use proptest::prelude::*;
use wire::isakmp::Cookie;

use super::*;

/// A sender with an ISAKMP SA.
fn known() -> Sender {
    sender(1, Standing::Established)
}

/// The host of this number, each in a site of its own.
fn sender(host: u32, standing: Standing) -> Sender {
    Sender {
        from: (host.to_be_bytes(), 500).into(),
        standing,
    }
}

/// The first piece of the `n`th message, of `len` octets.
fn piece(n: u32, len: usize) -> Vec<u8> {
    let mut piece = split(message(9, len), 1).swap_remove(0);
    piece[..4].copy_from_slice(&(n + 1).to_be_bytes());
    piece
}

/// A message of `len` octets with cookies made from `n`.
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

fn take(
    assembly: &mut Assembly,
    piece: &[u8],
    sender: Sender,
    now: Instant,
) -> Result<Option<Vec<u8>>, DropReason> {
    let taken = assembly.take(&Message::parse(piece)?, sender, now);
    taken.whole.map(|whole| Some(whole?.octets))
}

/// Takes first fragments of other messages, and returns how many were given up for them.
fn given_up_for(
    assembly: &mut Assembly,
    pieces: impl IntoIterator<Item = (Vec<u8>, Sender, Instant)>,
) -> u64 {
    let each = pieces.into_iter().map(|(piece, sender, now)| {
        let message = Message::parse(&piece).expect("a message");
        let taken = assembly.take(&message, sender, now);
        assert!(taken.whole.is_ok_and(|whole| whole.is_none()));
        taken.given_up
    });
    each.sum()
}

#[test]
fn a_short_message_travels_whole() {
    let whole = message(1, MAX_UNFRAGMENTED);
    assert_eq!(split(whole.clone(), 1), std::slice::from_ref(&whole));
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
        assert_eq!(take(&mut assembly, piece, known(), Instant(0)), Ok(None));
        let again = take(&mut assembly, piece, known(), Instant(0));
        assert_eq!(again, Err(DropReason::RetransmittedMessage));
    }
    let last = Message::parse(last).unwrap();
    let taken = assembly.take(&last, known(), Instant(0));
    let taken = taken.whole.unwrap().unwrap();
    let message = taken.message().unwrap();
    assert_eq!(message.octets(), whole);
    // On the wire each fragment has headers of its own, and a repeated one counts once.
    let size = pieces.iter().map(|piece| Size::of(piece)).sum();
    assert_eq!(message.size(), size);
    assert_eq!((size.datagrams, size.bytes), (5, 5000 + 5 * OVERHEAD));
    assert_eq!(assembly.octets(), 0);
}

#[test]
fn a_newer_message_under_the_same_identifier_takes_over() {
    let (old, new) = (message(1, 3000), message(1, 4000));
    let mut assembly = Assembly::default();
    let old = split(old, 1);
    assert_eq!(take(&mut assembly, &old[1], known(), Instant(0)), Ok(None));
    assert_eq!(take(&mut assembly, &old[2], known(), Instant(0)), Ok(None));
    let pieces = split(new.clone(), 1);
    assert_eq!(
        take(&mut assembly, &pieces[3], known(), Instant(0)),
        Ok(None)
    );
    for piece in &pieces[..2] {
        assert_eq!(take(&mut assembly, piece, known(), Instant(0)), Ok(None));
    }
    let last = Message::parse(&pieces[2]).unwrap();
    let taken = assembly.take(&last, known(), Instant(0));
    let whole = taken.whole.unwrap().unwrap();
    assert_eq!(whole.octets, new);
    // Only the fragments of the newer one count.
    assert_eq!(whole.size, pieces.iter().map(|it| Size::of(it)).sum());
}

#[test]
fn what_is_held_is_bounded_in_number_octets_and_time() {
    let standings = [
        Standing::First,
        Standing::Unproven,
        Standing::Proven,
        Standing::Established,
    ];
    let mut assembly = Assembly::default();
    let mut given_up = 0;
    for standing in standings {
        let pieces = (0..1_000).map(|n| (piece(n, 3_000), sender(n, standing), Instant(0)));
        given_up += given_up_for(&mut assembly, pieces);
    }
    assert_eq!(assembly.messages(), standings.len() * MAX_PARTIAL);
    assert!(assembly.octets() <= standings.len() * MAX_OCTETS);
    assert_eq!(given_up, 4_000 - assembly.messages() as u64);
    let late = (piece(0, 3_000), known(), Instant(0) + PATIENCE);
    let held = assembly.messages() as u64;
    assert_eq!(given_up_for(&mut assembly, [late]), held);
    assert_eq!(assembly.messages(), 1);
}

#[test]
fn octets_are_bounded_for_all_and_for_one_site() {
    let mut assembly = Assembly::default();
    let large = |n: u32| {
        let mut whole = message(9, 30_000);
        whole[..4].copy_from_slice(&(n + 1).to_be_bytes());
        let mut parts = split(whole, 1);
        parts.pop();
        parts
    };
    for n in 0..20 {
        for part in large(n) {
            let taken = take(
                &mut assembly,
                &part,
                sender(1, Standing::Proven),
                Instant(0),
            );
            assert_eq!(taken, Ok(None));
            assert!(assembly.octets() <= MAX_OCTETS_PER_SITE);
        }
    }
    for n in 0..60 {
        for part in large(n) {
            let taken = take(
                &mut assembly,
                &part,
                sender(n, Standing::Proven),
                Instant(0),
            );
            assert_eq!(taken, Ok(None));
            assert!(assembly.octets() <= MAX_OCTETS);
        }
    }
    assert!(assembly.octets() > MAX_OCTETS - MAX_ASSEMBLED);
}

#[test]
fn the_shares_of_other_standings_and_sites_are_untouched_by_a_flood() {
    let standings = [
        Standing::First,
        Standing::Unproven,
        Standing::Proven,
        Standing::Established,
    ];
    for (at, flooded) in standings.into_iter().enumerate() {
        let mut assembly = Assembly::default();
        let whole = message(7, 2_000);
        let parts = split(whole.clone(), 1);
        let honest = standings[(at + 1) % standings.len()];
        for standing in [honest, flooded] {
            let taken = take(&mut assembly, &parts[0], sender(1, standing), Instant(0));
            assert_eq!(taken, Ok(None));
        }
        for n in 0..1_000 {
            let from = sender(2, flooded);
            assert_eq!(
                take(&mut assembly, &piece(n, 3_000), from, Instant(0)),
                Ok(None)
            );
        }
        assert_eq!(assembly.messages(), MAX_PER_SITE + 2);
        for standing in [honest, flooded] {
            let taken = take(&mut assembly, &parts[1], sender(1, standing), Instant(0));
            assert_eq!(taken, Ok(Some(whole.clone())));
        }
    }
}

#[test]
fn the_oldest_first_message_makes_room() {
    let mut assembly = Assembly::default();
    let many = u32::try_from(MAX_PARTIAL).unwrap();
    let pieces = (0..=many).map(|n| {
        let from = sender(n, Standing::First);
        (piece(n, 2_000), from, Instant(u64::from(n)))
    });
    assert_eq!(given_up_for(&mut assembly, pieces), 1);
    // A repetition of a held fragment shows that it is held.
    for (n, is_held) in [(1, true), (many, true), (0, false)] {
        let now = Instant(u64::from(many));
        let taken = take(
            &mut assembly,
            &piece(n, 2_000),
            sender(n, Standing::First),
            now,
        );
        let again = Err(DropReason::RetransmittedMessage);
        assert_eq!(taken == again, is_held, "{n}");
    }
}

#[test]
fn an_ipv6_network_is_one_site() {
    let mut assembly = Assembly::default();
    for n in 0..1_000_u16 {
        let host = [0x2001, 0xdb8, 0, 1, n, n, n, n];
        let from = Sender {
            from: (host, 500).into(),
            standing: Standing::First,
        };
        let part = piece(u32::from(n), 2_000);
        assert_eq!(take(&mut assembly, &part, from, Instant(0)), Ok(None));
    }
    assert_eq!(assembly.messages(), MAX_PER_SITE);
}

#[test]
fn an_unproven_exchange_holds_one_message_and_a_refused_fragment_holds_nothing() {
    for standing in [Standing::First, Standing::Unproven] {
        let mut assembly = Assembly::default();
        for id in 0..100 {
            let part = &split(message(1, 3_000), id)[0];
            let taken = take(&mut assembly, part, sender(1, standing), Instant(0));
            assert_eq!(taken, Ok(None));
        }
        assert_eq!(assembly.messages(), 1);
    }
    let mut assembly = Assembly::default();
    let mut too_long = message(1, 28);
    let (_, body) = write_payloads(&[Payload::Fragment(wire::isakmp::Fragment {
        id: 1,
        number: 2,
        is_last: false,
        data: vec![0; MAX_ASSEMBLED + 1],
    })]);
    too_long[16] = PayloadKind::Fragment.number();
    too_long[24..28].copy_from_slice(&((28 + body.len()) as u32).to_be_bytes());
    too_long.extend(body);
    let taken = take(&mut assembly, &too_long, known(), Instant(0));
    assert_eq!(taken, Err(DropReason::TooManyFragments));
    assert_eq!((assembly.messages(), assembly.octets()), (0, 0));
}

#[test]
fn one_peer_holds_few_messages_and_none_too_large() {
    let mut assembly = Assembly::default();
    for id in 0..100 {
        let piece = &split(message(1, 3000), id)[0];
        assert_eq!(take(&mut assembly, piece, known(), Instant(0)), Ok(None));
    }
    assert_eq!(assembly.messages(), 2);
    let mut assembly = Assembly::default();
    let pieces = split(message(1, 60_000), 1);
    let result = pieces.iter().try_for_each(|piece| {
        take(&mut assembly, piece, known(), Instant(0)).map(|whole| assert_eq!(whole, None))
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
        let refused = take(&mut assembly, &piece, known(), Instant(0));
        assert_eq!(refused, Err(DropReason::MalformedMessage));
    }
    let whole = message(1, 100);
    let taken = take(&mut assembly, &only(1, &whole), known(), Instant(0));
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
            let _ = take(&mut assembly, &piece, known(), Instant(0));
            prop_assert!(assembly.octets() <= MAX_OCTETS_PER_SITE);
            prop_assert!(assembly.messages() <= 2);
        }
    }
}

use proptest::prelude::*;
use wire::isakmp::{Flags, Header, write_payloads};

use super::*;
use crate::ike::{Outbox, Step};
use crate::ikev1::in_clear::InClear;
use crate::ikev1::testing::isakmp_pair;

const ID: u32 = 0x0a0b_0c0d;

fn read(sa: &IsakmpSa, octets: &[u8], out: &mut Outbox) -> Result<Vec<Notification>, Fault> {
    super::read(sa, &Message::parse(octets)?, out)
}

/// What the gateway reads in the client's message.
fn told(payloads: Vec<Payload>) -> Vec<Notification> {
    let (station, gateway) = isakmp_pair("3des-md5-modp1024");
    let mut out = Outbox::default();
    send(&station, payloads, ID, &mut out);
    assert_eq!(out.messages[0].step, Step::Informational);
    let message = out.messages[0].message.clone();
    read(&gateway, &message, &mut out).unwrap()
}

fn unprotected(exchange: Exchange, chain: &[Payload]) -> Vec<u8> {
    let (station, _) = isakmp_pair("aes128-sha1-modp2048");
    let (next_payload, body) = write_payloads(chain);
    let header = Header {
        cookies: station.cookies,
        next_payload,
        exchange,
        flags: Flags::default(),
        message_id: 1,
    };
    header.write(&body)
}

#[test]
fn each_notice_arrives_as_it_was_sent() {
    let (sa, _) = isakmp_pair("3des-md5-modp1024");
    let esp = delete_children(Protocol::Esp, &[0x1000, 0x2000]);
    let ah = delete_children(Protocol::Ah, &[0x3000]);
    assert_eq!(
        told(vec![esp, ah]),
        [
            Notification::DeletedChildren(vec![0x1000, 0x2000]),
            Notification::DeletedChildren(vec![0x3000])
        ]
    );
    assert_eq!(told(vec![delete_ike(&sa)]), [Notification::DeletedIke]);
    let ask = are_you_there(&sa, 7);
    assert_eq!(told(vec![ask]), [Notification::AreYouThere(7)]);
    let answer = i_am_here(&sa, u32::MAX);
    assert_eq!(told(vec![answer]), [Notification::IAmHere(u32::MAX)]);
    let contact = notification(&sa, NotifyType::InitialContact, None);
    assert_eq!(told(vec![contact]), [Notification::InitialContact]);
    // RFC 2408 §3.14: the receiver's SPI; that of an ISAKMP SA is its cookies
    let cookies = sa.cookie_octets();
    for (refused, protocol, spi) in [
        (None, ProtocolId::Isakmp, cookies),
        (
            Some((ProtocolId::Ah, vec![1, 2, 3, 4])),
            ProtocolId::Ah,
            vec![1, 2, 3, 4],
        ),
    ] {
        let kind = NotifyType::NoProposalChosen;
        let payload = notification(&sa, kind, refused);
        let Payload::Notify(notify) = &payload else {
            panic!("{payload:?}");
        };
        assert_eq!(
            (notify.kind, notify.protocol, &notify.spi),
            (kind, protocol, &spi)
        );
        let told = told(vec![payload]);
        let [Notification::Other(complaint)] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(complaint.refuses, Some(Refusal::Proposal));
        let child = <[u8; 4]>::try_from(&spi[..]).ok().map(u32::from_be_bytes);
        assert_eq!(complaint.child, child);
    }
}

#[test]
fn what_speaks_of_another_sa_says_nothing() {
    let mut other = isakmp_pair("3des-md5-modp1024").0;
    other.cookies.responder.0[0] ^= 1;
    let payloads = vec![
        delete_ike(&other),
        are_you_there(&other, 1),
        i_am_here(&other, 1),
    ];
    assert_eq!(told(payloads), []);
    let mut short = are_you_there(&isakmp_pair("3des-md5-modp1024").0, 1);
    if let Payload::Notify(notify) = &mut short {
        notify.value.pop();
    }
    assert_eq!(told(vec![short]), []);
}

#[test]
fn a_message_changed_or_cut_anywhere_is_dropped() {
    let (station, gateway) = isakmp_pair("aes256-sha1-modp2048");
    let mut out = Outbox::default();
    let payload = delete_children(Protocol::Esp, &[0x1000]);
    send(&station, vec![payload], ID, &mut out);
    let message = out.messages[0].message.clone();
    for at in 0..message.len() {
        assert!(read(&gateway, &message[..at], &mut out).is_err());
        let mut wrong = message.clone();
        wrong[at] ^= 0x41;
        assert!(read(&gateway, &wrong, &mut out).is_err(), "octet {at}");
    }
    assert!(out.received.is_empty());
    assert!(read(&gateway, &message, &mut out).is_ok());
    assert_eq!(out.received[0].payloads, "HASH D");
}

#[test]
fn unprotected_messages_are_words_for_the_log_only() {
    let (sa, _) = isakmp_pair("aes128-sha1-modp2048");
    let chain = [
        notification(&sa, NotifyType::NoProposalChosen, None),
        notification(&sa, NotifyType::Other(40_000), None),
    ];
    let message = unprotected(Exchange::Informational, &chain);
    let said = InClear::read(&Message::parse(&message).unwrap()).unwrap();
    assert_eq!(said.words(), "NO-PROPOSAL-CHOSEN, notification 40000");
    assert!(!said.is_about_us() && said.lost().is_none());
    let mut out = Outbox::default();
    assert_eq!(
        read(&sa, &message, &mut out),
        Err(DropReason::UnexpectedMessage.into())
    );
    let quick = unprotected(Exchange::QuickMode, &chain);
    assert!(InClear::read(&Message::parse(&quick).unwrap()).is_err());
    send(&sa, chain.to_vec(), ID, &mut out);
    let sealed = Message::parse(&out.messages[0].message).unwrap();
    assert!(InClear::read(&sealed).is_err());
}

proptest! {
    #[test]
    fn any_octets_are_read_or_dropped(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (sa, _) = isakmp_pair("aes128-sha1-modp2048");
        let mut out = Outbox::default();
        prop_assert!(read(&sa, &octets, &mut out).is_err());
        let _ = Message::parse(&octets).map(|message| InClear::read(&message).is_ok());
    }
}

//! Octets of clients' first messages that others have published, and what our phones send.
//!
//! Windows: the request of `Util/Test-AOVPN.ps1` (github.com/kbcitrite/scripts), which asks whether
//! a gateway for Windows answers. Android: the proposals of `IkeSaPayloadTest` (AOSP,
//! packages/modules/IPsec). Of Apple's clients nothing was found but logs.

use wire::ikev2::transform::{encryption, integrity, key_exchange as group, prf};
use wire::ikev2::{
    KeyExchange, NotifyType, Payload, PayloadKind, Proposal, Protocol, Transform, TransformType,
    payloads, write_payloads,
};

use super::phones::Brand::{Android, Windows};
use super::phones::{VENDORS, octets};
use crate::ikev2::parts::notify_with;

/// Of the script, whose numbers at random are zeros here. It has another digit in the first vendor
/// ID: 1e2b5159, where captures have 1e2b5169.
fn of_windows() -> Vec<u8> {
    let zeros = |count: usize| "00".repeat(count);
    let text = [
        "22000030",
        "0000002c01010004",
        "0300000c0100000c800e0080",
        "030000080300000c",
        "0300000802000005",
        "000000080400000e",
        "28000108000e0000",
        &zeros(256),
        "29000034",
        &zeros(48),
        "290000080000402e",
        "2900001c00004004",
        &zeros(20),
        "2b00001c00004005",
        &zeros(20),
        "2b0000181e2b516905991c7d7c96fcbfb587e46100000009",
        "2b000014fb1de3cdf341b7ea16b7e5be0855f120",
        "2b00001426244d38eddb61b3172a36e3d0cfb819",
        "0000001801528bbbc00696121849ab9a1c5b2a5100000002",
    ];
    octets(&text.concat())
}

#[test]
fn our_windows_sends_what_is_published() {
    let published = of_windows();
    // With the header, as the script says.
    assert_eq!(28 + published.len(), 544);
    let mut proposals = Windows.ike();
    // The script is for an older default.
    proposals[0].transforms[0] = Transform::with_key_length(encryption::AES_CBC, 128);
    let ke = KeyExchange {
        method: group::MODP_2048,
        value: vec![0; 256],
    };
    let hashes = [
        NotifyType::NatDetectionSourceIp,
        NotifyType::NatDetectionDestinationIp,
    ];
    let chain = Windows.init(
        Payload::SecurityAssociation(proposals.clone()),
        Payload::KeyExchange(ke),
        Payload::Nonce(vec![0; 48]),
        hashes.map(|kind| notify_with(kind, vec![0; 20])),
    );
    let (first, body) = write_payloads(&chain);
    assert_eq!(first, PayloadKind::SecurityAssociation);
    assert_eq!(body, published);
    let read = payloads(first, &published).expect("payloads");
    assert_eq!(read[0].payload, Payload::SecurityAssociation(proposals));
    let vendors = read.iter().filter_map(|it| match &it.payload {
        Payload::VendorId(id) => Some(id.clone()),
        _ => None,
    });
    let vendors: Vec<Vec<u8>> = vendors.collect();
    assert_eq!(vendors, VENDORS.map(octets));
}

/// A request that Android's code writes.
const OF_ANDROID: &str = "220000300000002c010100040300000c0100000c800e00800300000803000002\
                          03000008040000020000000802000002";

/// The proposals of an SA payload that is the first of these octets.
fn proposals_of(octets: &[u8]) -> Vec<Proposal> {
    let len = usize::from(u16::from_be_bytes([octets[2], octets[3]]));
    // Nothing follows it.
    let mut alone = octets[..len].to_vec();
    alone[0] = 0;
    let read = payloads(PayloadKind::SecurityAssociation, &alone).expect("a payload");
    match &read[0].payload {
        Payload::SecurityAssociation(proposals) => proposals.clone(),
        other => panic!("{other:?}"),
    }
}

/// The kinds of a proposal's transforms, in order.
fn kinds(proposal: &Proposal) -> Vec<TransformType> {
    let mut kinds: Vec<TransformType> = proposal.transforms.iter().map(|it| it.kind).collect();
    kinds.dedup();
    kinds
}

#[test]
fn our_android_has_the_order_that_is_published() {
    let published = octets(OF_ANDROID);
    let proposals = proposals_of(&published);
    let expected = Proposal {
        number: 1,
        protocol: Protocol::Ike,
        spi: Vec::new(),
        transforms: vec![
            Transform::with_key_length(encryption::AES_CBC, 128),
            Transform::new(TransformType::Integrity, integrity::HMAC_SHA1_96),
            Transform::new(TransformType::KeyExchange, group::MODP_1024),
            Transform::new(TransformType::Prf, prf::HMAC_SHA1),
        ],
    };
    assert_eq!(proposals, [expected]);
    let ke = Payload::KeyExchange(KeyExchange {
        method: group::MODP_1024,
        value: Vec::new(),
    });
    let (_, body) = write_payloads(&[Payload::SecurityAssociation(proposals.clone()), ke]);
    assert_eq!(body[..published.len()], published);
    assert_eq!(kinds(&proposals[0]), kinds(&Android.ike()[0]));
}

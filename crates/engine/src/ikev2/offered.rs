//! What a peer offers, in the words of proposals, for the log. Transforms that no suite of ours has
//! get words of the same kind; those that nobody here knows stay numbers: type and ID.

use crypto::key_exchange::Method;
use wire::ikev2::transform::{encryption, integrity, key_exchange, prf, sequence_numbers};
use wire::ikev2::{Proposal, Transform, TransformType};

use crate::suite::of_method;

/// Proposals that a sentence describes.
const MAX_PROPOSALS: usize = 8;
/// Transforms of one that it describes.
const MAX_TRANSFORMS: usize = 24;

/// A peer's proposals: the transforms of each, with a comma between two proposals.
pub(super) fn described(offered: &[Proposal]) -> String {
    let words = offered.iter().take(MAX_PROPOSALS).map(|proposal| {
        let some = proposal.transforms.iter().take(MAX_TRANSFORMS);
        some.map(word).collect::<Vec<_>>().join(" ")
    });
    let words = words.collect::<Vec<_>>().join(", ");
    match offered.len().saturating_sub(MAX_PROPOSALS) {
        0 => words,
        more => format!("{words} and {more} more"),
    }
}

fn word(transform: &Transform) -> String {
    let bits = transform.key_length().ok().flatten();
    let known = match transform.kind {
        TransformType::Encryption => cipher(transform.id, bits),
        TransformType::Prf => named(transform.id, &PRFS).map(|name| format!("prf{name}")),
        TransformType::Integrity => named(transform.id, &INTEGRITIES).map(str::to_owned),
        TransformType::KeyExchange => method(transform.id),
        TransformType::SequenceNumbers => match transform.id {
            sequence_numbers::SEQUENTIAL_32 => Some("noesn".to_owned()),
            sequence_numbers::PARTIALLY_TRANSMITTED_64 => Some("esn".to_owned()),
            _ => None,
        },
        kind => {
            let mut places = TransformType::ADDITIONAL_KEY_EXCHANGES.iter();
            let place = places.position(|it| *it == kind);
            place.and_then(|at| Some(format!("ke{}_{}", at + 1, method(transform.id)?)))
        }
    };
    known.unwrap_or_else(|| match bits {
        Some(bits) => format!("{}:{}/{bits}", transform.kind.number(), transform.id),
        None => format!("{}:{}", transform.kind.number(), transform.id),
    })
}

fn cipher(id: u16, bits: Option<u16>) -> Option<String> {
    let aes = |mode: &str| bits.map(|bits| format!("aes{bits}{mode}"));
    match id {
        encryption::DES => Some("des".to_owned()),
        encryption::TRIPLE_DES => Some("3des".to_owned()),
        encryption::NULL => Some("null".to_owned()),
        encryption::AES_CBC => aes(""),
        encryption::AES_CTR => aes("ctr"),
        encryption::AES_GCM_8 => aes("gcm8"),
        encryption::AES_GCM_12 => aes("gcm12"),
        encryption::AES_GCM_16 => aes("gcm16"),
        encryption::CHACHA20_POLY1305 => Some("chacha20poly1305".to_owned()),
        _ => None,
    }
}

/// IANA's numbers of a type, and their words.
type Table = [(u16, &'static str)];

const PRFS: [(u16, &str); 7] = [
    (prf::HMAC_MD5, "md5"),
    (prf::HMAC_SHA1, "sha1"),
    (prf::AES128_XCBC, "aesxcbc"),
    (prf::HMAC_SHA2_256, "sha256"),
    (prf::HMAC_SHA2_384, "sha384"),
    (prf::HMAC_SHA2_512, "sha512"),
    (prf::AES128_CMAC, "aescmac"),
];
const INTEGRITIES: [(u16, &str); 7] = [
    (integrity::NONE, "none"),
    (integrity::HMAC_MD5_96, "md5"),
    (integrity::HMAC_SHA1_96, "sha1"),
    (integrity::AES_XCBC_96, "aesxcbc"),
    (integrity::HMAC_SHA2_256_128, "sha256"),
    (integrity::HMAC_SHA2_384_192, "sha384"),
    (integrity::HMAC_SHA2_512_256, "sha512"),
];
/// Those that no suite has.
const METHODS: [(u16, &str); 4] = [
    (key_exchange::NONE, "none"),
    (key_exchange::MODP_1024, "modp1024"),
    (key_exchange::MODP_1536, "modp1536"),
    (key_exchange::ML_KEM_512, "mlkem512"),
];

fn named(id: u16, table: &Table) -> Option<&'static str> {
    let found = table.iter().find(|(number, _)| *number == id);
    found.map(|(_, name)| *name)
}

fn method(id: u16) -> Option<String> {
    let ours = Method::of_number(id).map(of_method);
    ours.or_else(|| named(id, &METHODS)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use wire::ikev2::Protocol;

    use super::*;

    #[test]
    fn a_peer_s_proposals_are_told_in_the_words_of_ours() {
        let one = Transform::new;
        let proposal = |transforms| Proposal {
            number: 1,
            protocol: Protocol::Ike,
            spi: Vec::new(),
            transforms,
        };
        let offered = [
            proposal(vec![
                Transform::with_key_length(encryption::AES_GCM_16, 256),
                one(TransformType::Prf, prf::HMAC_SHA2_384),
                one(TransformType::KeyExchange, key_exchange::CURVE25519),
                one(
                    TransformType::AdditionalKeyExchange1,
                    key_exchange::ML_KEM_768,
                ),
            ]),
            proposal(vec![
                Transform::with_key_length(encryption::AES_CBC, 128),
                one(TransformType::Integrity, integrity::HMAC_SHA2_256_128),
                one(TransformType::KeyExchange, key_exchange::MODP_1024),
                one(TransformType::SequenceNumbers, 1),
                one(TransformType::Other(200), 7),
                one(TransformType::Encryption, 99),
                Transform::with_key_length(99, 128),
            ]),
        ];
        assert_eq!(
            described(&offered),
            "aes256gcm16 prfsha384 curve25519 ke1_mlkem768, aes128 sha256 modp1024 esn 200:7 1:99 \
             1:99/128"
        );
    }

    #[test]
    fn a_long_offer_is_cut() {
        let proposal = |number| Proposal {
            number,
            protocol: Protocol::Ike,
            spi: Vec::new(),
            transforms: vec![Transform::new(TransformType::Prf, prf::HMAC_SHA1); 100],
        };
        let offered: Vec<Proposal> = (1..=20).map(proposal).collect();
        let text = described(&offered);
        assert!(text.ends_with(" and 12 more"), "{text}");
        assert_eq!(
            text.matches("prfsha1").count(),
            MAX_PROPOSALS * MAX_TRANSFORMS
        );
    }
}

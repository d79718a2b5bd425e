//! The words of proposals, and which proposals may have them.

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::key_exchange::Method;
use crypto::packet::Encryption;
use crypto::sign::KeyKind;

/// The meaning of one word.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Encryption(Encryption),
    Hash(Hash),
    Group(Group),
    Method(Method),
    Esn(bool),
    Prf(Hash),
}

/// Sorts of words: one of each in a proposal.
#[derive(Clone, Copy)]
pub(super) enum Sort {
    Encryption,
    Hash,
    Group,
    SequenceNumbers,
    Prf,
}

impl Word {
    pub(super) fn sort(self) -> Sort {
        match self {
            Self::Encryption(_) => Sort::Encryption,
            Self::Hash(_) => Sort::Hash,
            Self::Group(_) | Self::Method(_) => Sort::Group,
            Self::Esn(_) => Sort::SequenceNumbers,
            Self::Prf(_) => Sort::Prf,
        }
    }
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Encryption => "cipher",
            Self::Hash => "hash",
            Self::Group => "group",
            Self::SequenceNumbers => "word on sequence numbers",
            Self::Prf => "prf",
        }
    }
}

type Table = [(&'static str, Word)];

const fn cbc(cipher: Cipher) -> Word {
    Word::Encryption(Encryption::Cbc(cipher))
}

const fn gcm(key_len: u8) -> Word {
    Word::Encryption(Encryption::AesGcm { key_len })
}

const CBC: &Table = &[
    ("des", cbc(Cipher::Des)),
    ("3des", cbc(Cipher::TripleDes)),
    ("aes128", cbc(Cipher::Aes128)),
    ("aes", cbc(Cipher::Aes128)),
    ("aes192", cbc(Cipher::Aes192)),
    ("aes256", cbc(Cipher::Aes256)),
];
const NULL: &Table = &[("null", Word::Encryption(Encryption::Null))];
const AEADS: &Table = &[
    ("aes128gcm16", gcm(16)),
    ("aes128gcm128", gcm(16)),
    ("aes128gcm", gcm(16)),
    ("aes192gcm16", gcm(24)),
    ("aes192gcm128", gcm(24)),
    ("aes192gcm", gcm(24)),
    ("aes256gcm16", gcm(32)),
    ("aes256gcm128", gcm(32)),
    ("aes256gcm", gcm(32)),
    (
        "chacha20poly1305",
        Word::Encryption(Encryption::ChaCha20Poly1305),
    ),
];
const HASHES: &Table = &[
    ("md5", Word::Hash(Hash::Md5)),
    ("sha1", Word::Hash(Hash::Sha1)),
    ("sha", Word::Hash(Hash::Sha1)),
    ("sha256", Word::Hash(Hash::Sha256)),
    ("sha2_256", Word::Hash(Hash::Sha256)),
    ("sha384", Word::Hash(Hash::Sha384)),
    ("sha2_384", Word::Hash(Hash::Sha384)),
    ("sha512", Word::Hash(Hash::Sha512)),
    ("sha2_512", Word::Hash(Hash::Sha512)),
];
const GROUPS: &Table = &[
    ("modp768", Word::Group(Group::Modp768)),
    ("modp1024", Word::Group(Group::Modp1024)),
    ("modp1536", Word::Group(Group::Modp1536)),
    ("modp2048", Word::Group(Group::Modp2048)),
    ("modp3072", Word::Group(Group::Modp3072)),
    ("modp4096", Word::Group(Group::Modp4096)),
    ("curve25519", Word::Group(Group::Curve25519)),
];
pub(super) const METHODS: &Table = &[
    ("modp2048", Word::Method(Method::Modp2048)),
    ("modp3072", Word::Method(Method::Modp3072)),
    ("modp4096", Word::Method(Method::Modp4096)),
    ("modp6144", Word::Method(Method::Modp6144)),
    ("modp8192", Word::Method(Method::Modp8192)),
    ("ecp256", Word::Method(Method::Ecp256)),
    ("ecp384", Word::Method(Method::Ecp384)),
    ("ecp521", Word::Method(Method::Ecp521)),
    ("curve25519", Word::Method(Method::Curve25519)),
    ("x25519", Word::Method(Method::Curve25519)),
    ("mlkem768", Word::Method(Method::MlKem768)),
    ("mlkem1024", Word::Method(Method::MlKem1024)),
];
const PRFS: &Table = &[
    ("prfmd5", Word::Prf(Hash::Md5)),
    ("prfsha1", Word::Prf(Hash::Sha1)),
    ("prfsha256", Word::Prf(Hash::Sha256)),
    ("prfsha384", Word::Prf(Hash::Sha384)),
    ("prfsha512", Word::Prf(Hash::Sha512)),
];
const SEQUENCE_NUMBERS: &Table = &[("esn", Word::Esn(true)), ("noesn", Word::Esn(false))];

pub(super) const IKE: [&Table; 3] = [CBC, HASHES, GROUPS];
pub(super) const IKEV2: [&Table; 5] = [AEADS, CBC, HASHES, PRFS, METHODS];
pub(super) const ESP: [&Table; 7] = [NULL, AEADS, CBC, HASHES, GROUPS, METHODS, SEQUENCE_NUMBERS];
pub(super) const AH: [&Table; 4] = [HASHES, GROUPS, METHODS, SEQUENCE_NUMBERS];

/// The meaning of a word in these tables, or the nearest valid one, if any is near.
pub(super) fn find(tables: &[&Table], text: &str) -> Result<Word, Option<&'static str>> {
    let all = || tables.iter().flat_map(|table| table.iter());
    if let Some((_, word)) = all().find(|(name, _)| *name == text) {
        return Ok(*word);
    }
    if text == "x25519" {
        return Err(Some(of_group(Group::Curve25519)));
    }
    if let Some(strength) = strength(text) {
        let groups = all().filter_map(|(name, _)| Some((*name, bits_of_modp(name)?)));
        let nearest = groups.min_by_key(|(_, bits)| bits.abs_diff(strength));
        return Err(nearest.map(|(name, _)| name));
    }
    // A distance costs time proportional to both lengths, so only the start of a long word counts.
    let symbols: Vec<char> = text.chars().take(LONGEST_COMPARED).collect();
    let near = all().map(|(name, _)| (distance(name, &symbols), *name));
    // A word that has to be changed in more than half of its places is another word.
    let near = near.filter(|(changes, name)| 2 * changes <= name.len().max(symbols.len()));
    Err(near
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, name)| name))
}

/// The strength of a group's word, in bits of a modulus. A curve counts as the modulus of about
/// equal strength. `None` if the word is not a group.
fn strength(word: &str) -> Option<u32> {
    bits_of_modp(word).or_else(|| {
        let bits = match word.trim_start_matches(|c: char| c.is_ascii_alphabetic()) {
            "" => return None,
            number => leading_number(number)?,
        };
        match bits {
            448 if word == "curve448" => Some(u32::MAX),
            _ if !word.starts_with("ecp") => None,
            ..=192 => Some(1_024),
            193..=224 => Some(2_048),
            225..=256 => Some(3_072),
            _ => Some(u32::MAX),
        }
    })
}

fn bits_of_modp(word: &str) -> Option<u32> {
    leading_number(word.strip_prefix("modp")?)
}

/// The number at the start of a text.
fn leading_number(text: &str) -> Option<u32> {
    let digits = text.chars().map_while(|c| c.to_digit(10));
    digits.fold(None, |number: Option<u32>, digit| {
        let tens = number.unwrap_or(0).saturating_mul(10);
        Some(tens.saturating_add(digit))
    })
}

/// The number of insertions, deletions and replacements that turn one word into the other
/// (Levenshtein distance).
fn distance(name: &str, symbols: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=symbols.len()).collect();
    for (i, own) in name.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, theirs) in symbols.iter().enumerate() {
            let changed = diagonal + usize::from(own != *theirs);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[symbols.len()]
}

const LONGEST_COMPARED: usize = 64;

/// The word of a cipher of packets or messages, such as `aes128gcm16`.
pub fn of_encryption(encryption: Encryption) -> &'static str {
    match encryption {
        Encryption::Null => "null",
        Encryption::Cbc(cipher) => of_cipher(cipher),
        Encryption::AesGcm { key_len: 24 } => "aes192gcm16",
        Encryption::AesGcm { key_len: 32 } => "aes256gcm16",
        Encryption::AesGcm { .. } => "aes128gcm16",
        Encryption::ChaCha20Poly1305 => "chacha20poly1305",
    }
}

/// The word of a cipher in CBC mode, such as `aes128`.
pub fn of_cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "des",
        Cipher::TripleDes => "3des",
        Cipher::Aes128 => "aes128",
        Cipher::Aes192 => "aes192",
        Cipher::Aes256 => "aes256",
    }
}

/// The word of a hash, such as `sha256`.
pub fn of_hash(hash: Hash) -> &'static str {
    match hash {
        Hash::Md5 => "md5",
        Hash::Sha1 => "sha1",
        Hash::Sha256 => "sha256",
        Hash::Sha384 => "sha384",
        Hash::Sha512 => "sha512",
    }
}

/// The name of a group's operations in measurements and cost tables: those of Curve25519 are
/// X25519's.
pub fn of_agreement(group: Group) -> &'static str {
    match group {
        Group::Curve25519 => "x25519",
        modp => of_group(modp),
    }
}

/// The word of a Diffie-Hellman group, such as `modp2048` or `curve25519`.
pub fn of_group(group: Group) -> &'static str {
    match group {
        Group::Modp768 => "modp768",
        Group::Modp1024 => "modp1024",
        Group::Modp1536 => "modp1536",
        Group::Modp2048 => "modp2048",
        Group::Modp3072 => "modp3072",
        Group::Modp4096 => "modp4096",
        Group::Curve25519 => "curve25519",
    }
}

/// The word of a key exchange method of IKEv2, such as `ecp256`.
pub fn of_method(method: Method) -> &'static str {
    match method {
        Method::Modp2048 => "modp2048",
        Method::Modp3072 => "modp3072",
        Method::Modp4096 => "modp4096",
        Method::Modp6144 => "modp6144",
        Method::Modp8192 => "modp8192",
        Method::Ecp256 => "ecp256",
        Method::Ecp384 => "ecp384",
        Method::Ecp521 => "ecp521",
        Method::Curve25519 => "curve25519",
        Method::MlKem768 => "mlkem768",
        Method::MlKem1024 => "mlkem1024",
    }
}

/// The word of a key that signs, such as `rsa-2048` or `ecp256`.
pub fn of_key(kind: KeyKind) -> String {
    match kind {
        KeyKind::Rsa { bits } => format!("rsa-{bits}"),
        KeyKind::Ecdsa(curve) => format!("ecdsa-{}", curve.bits()),
        KeyKind::Ed25519 => "ed25519".to_owned(),
        KeyKind::MlDsa(set) => set.word().to_owned(),
    }
}

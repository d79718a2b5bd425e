//! Work: operations and bytes by algorithm that a machine has just done. The engine counts it, the
//! lab assigns costs to it, and the daemon exports it.

use crypto::cipher::Cipher;
use crypto::dh::{Group, long_term};
use crypto::hash::Hash;
use crypto::key_exchange::Method;
use crypto::packet::{Encryption, Protection};
use crypto::sign::KeyKind;
use wire::skip::{CryptAlg, KijAlg, MacAlg};

use crate::link::wireless::LinkCipher;
use crate::sa::{Encapsulation, Protocol};

/// An operation and its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// A packet sealed.
    Seal(Protocol, Protection),
    /// A packet opened.
    Open(Protocol, Protection),
    /// A packet put into a tunnel of Mobile IPv4.
    Encapsulate(Encapsulation),
    /// A packet taken out of one.
    Decapsulate(Encapsulation),
    /// A Diffie-Hellman pair generated.
    KeyPair(Group),
    /// A shared secret computed.
    Agree(Group),
    /// The half of a key exchange of IKEv2 that is none of those groups.
    KeyShare(Method),
    /// The secret of such a half and the other end's.
    KeySecret(Method),
    /// The second half of a KEM and the secret: its text and key at once.
    KeyAnswer(Method),
    /// A signature of ECDSA, Ed25519 or ML-DSA made.
    SignCurve(KeyKind),
    /// A signature of ECDSA, Ed25519 or ML-DSA checked.
    VerifyCurve(KeyKind),
    /// An RSA signature made, modulus in bits.
    Sign(u32),
    /// An RSA signature checked, modulus in bits.
    Verify(u32),
    /// An IKE message body encrypted or decrypted.
    MessageCipher(Cipher),
    /// An IKE message sealed or opened by a cipher that brings its own integrity.
    MessageAead(Encryption),
    /// A prf call of IKE or of a wireless link's handshake: HMAC with this hash.
    Prf(Hash),
    /// A value computed that long-term pairs share.
    AgreeLongTerm(long_term::Group),
    /// Hash calls that derive keys of SKIP: MD5, or HMAC-SHA-256 with HKDF.
    DeriveSkipKey(KijAlg),
    /// A packet key of SKIP wrapped or unwrapped; with HKDF, derived.
    WrapPacketKey(KijAlg),
    /// The text of a SKIP packet encrypted or decrypted; AES-GCM-SIV also authenticates.
    SkipCipher(CryptAlg),
    /// A SKIP packet authenticated.
    SkipMac(MacAlg),
    /// A frame of a wireless link protected; octets without its headers.
    ProtectFrame(LinkCipher),
    /// One whose protection was taken off.
    UnprotectFrame(LinkCipher),
    /// AES-128-CMAC over a message of a handshake.
    Cmac,
    /// Key data of a handshake encrypted or decrypted.
    KeyData,
    /// A passphrase turned into a key by 4,096 rounds of PBKDF2.
    Passphrase,
    /// A point of P-256 multiplied by a scalar.
    ScalePoint,
    /// A number turned into a point of P-256, or found to be the coordinate of none.
    HashToPoint,
}

/// How often each task was done and over how many bytes, in the order of [`Task`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    entries: Vec<(Task, u64, u64)>,
}

impl Work {
    /// Counts one `task` over `bytes`.
    pub fn count(&mut self, task: Task, bytes: u64) {
        self.add(task, 1, bytes);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &(task, times, bytes) in &other.entries {
            self.add(task, times, bytes);
        }
    }

    /// Task, times, bytes, ordered by task.
    pub fn entries(&self) -> &[(Task, u64, u64)] {
        &self.entries
    }

    /// Counts `task`, done `times` over `bytes` in total.
    pub fn add(&mut self, task: Task, times: u64, bytes: u64) {
        match self.entries.binary_search_by_key(&task, |entry| entry.0) {
            Ok(at) => {
                self.entries[at].1 += times;
                self.entries[at].2 += bytes;
            }
            Err(at) => self.entries.insert(at, (task, times, bytes)),
        }
    }

    /// Counts a signature.
    pub fn count_sign(&mut self, kind: KeyKind) {
        match kind {
            KeyKind::Rsa { bits } => self.count(Task::Sign(bits), 0),
            other => self.count(Task::SignCurve(other), 0),
        }
    }

    /// Counts the check of one.
    pub fn count_verify(&mut self, kind: KeyKind) {
        match kind {
            KeyKind::Rsa { bits } => self.count(Task::Verify(bits), 0),
            other => self.count(Task::VerifyCurve(other), 0),
        }
    }
}

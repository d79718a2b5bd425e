//! Keys that may rest. A prepared key takes twenty times the memory of the key itself, and most SAs
//! of a large gateway are idle.

use core::cell::{Cell, OnceCell};

use zeroize::Zeroizing;

use super::{PacketKey, Protection};

/// Keys as they are.
pub(crate) struct RawKey {
    protection: Protection,
    /// Encryption, then integrity.
    keys: Zeroizing<Box<[u8]>>,
}

impl RawKey {
    /// Panics on keys of other lengths than `protection` requires.
    pub(crate) fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        assert_eq!(encryption.len(), protection.encryption_key_len());
        assert_eq!(integrity.len(), protection.integrity_key_len());
        Self {
            protection,
            keys: Zeroizing::new([encryption, integrity].concat().into()),
        }
    }

    pub(crate) fn protection(&self) -> Protection {
        self.protection
    }

    pub(crate) fn prepare(&self) -> PacketKey {
        let (encryption, integrity) = self.keys.split_at(self.protection.encryption_key_len());
        PacketKey::new(self.protection, encryption, integrity)
    }
}

/// The keys of an SA: prepared from a packet on until they rest.
pub struct RestingKey {
    raw: RawKey,
    prepared: OnceCell<PacketKey>,
    is_used: Cell<bool>,
}

impl RestingKey {
    /// Takes keys of exactly the lengths that `protection` requires. Panics on others.
    pub fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        Self {
            raw: RawKey::new(protection, encryption, integrity),
            prepared: OnceCell::new(),
            is_used: Cell::new(false),
        }
    }

    /// The key for packets.
    #[inline]
    pub fn prepared(&self) -> &PacketKey {
        self.is_used.set(true);
        self.prepared.get_or_init(|| self.raw.prepare())
    }

    /// Forgets the prepared key if no packet has used it since the last call.
    pub fn rest(&mut self) {
        if !self.is_used.replace(false) {
            self.prepared.take();
        }
    }

    /// Whether there is a prepared key.
    pub fn is_prepared(&self) -> bool {
        self.prepared.get().is_some()
    }
}

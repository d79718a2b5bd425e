//! Ed25519 keys on a PKCS #11 token. A key is found by its CKA_ID, which is its handle.

use std::path::Path;

use crypto::ed25519::{Signature, VerifyKey};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use engine::agent::Handle;
use wire::agent::LABEL_LEN;
use wire::token::{PUBLIC_LEN, Refusal, TOKENS_MAX, Token};

use crate::agent::sheet_file::token_name;
use crate::token::{demand_modules, trusted};

/// The object identifier of Ed25519, 1.3.101.112, in DER (RFC 8410 §3).
const ED25519: [u8; 5] = [0x06, 3, 0x2b, 0x65, 0x70];
/// A DER OCTET STRING of 32 octets.
const POINT_HEAD: [u8; 2] = [0x04, PUBLIC_LEN as u8];

pub(super) struct Module {
    library: Pkcs11,
}

/// A session with a token, logged in.
pub(super) struct Opened {
    session: Session,
    slot: Slot,
    serial: String,
}

type Id = [u8; LABEL_LEN];

impl Module {
    /// Loads a module.
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        demand_modules()?;
        let library = Pkcs11::new(trusted(path)?)?;
        library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK))?;
        Ok(Self { library })
    }

    /// The tokens that are there, [`TOKENS_MAX`] at most.
    pub(super) fn tokens(&self) -> Result<Vec<Token>, Refusal> {
        let slots = self.library.get_slots_with_token().map_err(failed)?;
        let all = slots.into_iter().filter_map(|slot| self.token(slot).ok());
        Ok(all.take(TOKENS_MAX).collect())
    }

    fn token(&self, slot: Slot) -> Result<Token, Refusal> {
        let about = self.library.get_token_info(slot).map_err(failed)?;
        if !about.token_initialized() {
            return Err(Refusal::NoToken);
        }
        let shown = |text: &str| text.chars().filter(|it| !it.is_control()).collect();
        Ok(Token {
            label: shown(about.label()),
            serial: shown(about.serial_number()),
        })
    }

    /// Logs in to the one token of this label; `pin` is asked for only if there is one.
    pub(super) fn open(
        &self,
        label: &str,
        pin: impl FnOnce() -> Option<AuthPin>,
    ) -> Result<Opened, Refusal> {
        let slots = self.library.get_slots_with_token().map_err(failed)?;
        let named = slots.into_iter().filter_map(|slot| {
            let token = self.token(slot).ok()?;
            (token.label == label).then_some((slot, token.serial))
        });
        let mut named: Vec<(Slot, String)> = named.collect();
        let (slot, serial) = match named.len() {
            1 => named.remove(0),
            _ => return Err(Refusal::NoToken),
        };
        let able = self.library.get_mechanism_list(slot).map_err(failed)?;
        if !able.contains(&MechanismType::EDDSA) {
            return Err(Refusal::NoEd25519);
        }
        let pin = pin().ok_or(Refusal::NoPin)?;
        let session = self.library.open_rw_session(slot).map_err(failed)?;
        match session.login(UserType::User, Some(&pin)) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => {}
            Err(Error::Pkcs11(RvError::PinLocked, _)) => return Err(Refusal::PinLocked),
            Err(Error::Pkcs11(
                RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange,
                _,
            )) => return Err(Refusal::Pin),
            Err(fault) => return Err(failed(fault)),
        }
        Ok(Opened {
            session,
            slot,
            serial,
        })
    }

    /// Whether a token is still in its slot.
    pub(super) fn has(&self, opened: &Opened) -> bool {
        let Ok(slots) = self.library.get_slots_with_token() else {
            return false;
        };
        let is_same = |token: Token| token.serial == opened.serial;
        slots.contains(&opened.slot) && self.token(opened.slot).is_ok_and(is_same)
    }
}

impl Opened {
    /// Makes a key. Returns its public half.
    pub(super) fn make(&self, handle: Id) -> Result<VerifyKey, Refusal> {
        if !self.all(handle, ObjectClass::PRIVATE_KEY)?.is_empty() {
            return Err(Refusal::SeveralKeys);
        }
        // People who look at the token see it. Keys are found by their handle alone.
        let label = token_name(Handle(handle));
        let public = [
            Attribute::Token(true),
            Attribute::Verify(true),
            Attribute::EcParams(ED25519.to_vec()),
            Attribute::Id(handle.to_vec()),
            Attribute::Label(label.as_bytes().to_vec()),
        ];
        let private = [
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::Sign(true),
            Attribute::Id(handle.to_vec()),
            Attribute::Label(label.as_bytes().to_vec()),
        ];
        let how = Mechanism::EccEdwardsKeyPairGen;
        let made = self.session.generate_key_pair(&how, &public, &private);
        let (public, _) = made.map_err(failed)?;
        self.value(public)
    }

    /// The public half of a key.
    pub(super) fn find(&self, handle: Id) -> Result<VerifyKey, Refusal> {
        self.value(self.one(handle, ObjectClass::PUBLIC_KEY)?)
    }

    /// Signs.
    pub(super) fn sign(&self, handle: Id, octets: &[u8]) -> Result<Signature, Refusal> {
        let key = self.one(handle, ObjectClass::PRIVATE_KEY)?;
        let how = Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure));
        let signature = self.session.sign(&how, key, octets).map_err(failed)?;
        let signature = signature.try_into().map_err(|_| Refusal::NoEd25519)?;
        Ok(Signature(signature))
    }

    /// Destroys both halves, so that it can never sign again.
    pub(super) fn destroy(&self, handle: Id) -> Result<(), Refusal> {
        for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY] {
            for object in self.all(handle, class)? {
                self.session.destroy_object(object).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn one(&self, handle: Id, class: ObjectClass) -> Result<ObjectHandle, Refusal> {
        match self.all(handle, class)?[..] {
            [one] => Ok(one),
            [] => Err(Refusal::NoKey),
            _ => Err(Refusal::SeveralKeys),
        }
    }

    fn all(&self, handle: Id, class: ObjectClass) -> Result<Vec<ObjectHandle>, Refusal> {
        let wanted = [
            Attribute::Class(class),
            Attribute::KeyType(KeyType::EC_EDWARDS),
            Attribute::Id(handle.to_vec()),
        ];
        self.session.find_objects(&wanted).map_err(failed)
    }

    /// The octets of a public key: its point, in a DER OCTET STRING, or bare.
    fn value(&self, public: ObjectHandle) -> Result<VerifyKey, Refusal> {
        let wanted = [AttributeType::EcPoint];
        let attributes = self.session.get_attributes(public, &wanted);
        let Some(Attribute::EcPoint(point)) = attributes.map_err(failed)?.into_iter().next() else {
            return Err(Refusal::Token);
        };
        let octets = point.strip_prefix(&POINT_HEAD[..]).unwrap_or(&point);
        // Another curve has points of another length.
        octets
            .try_into()
            .map(VerifyKey)
            .map_err(|_| Refusal::NoEd25519)
    }
}

fn failed(fault: Error) -> Refusal {
    tracing::debug!("the token: {fault}");
    Refusal::Token
}

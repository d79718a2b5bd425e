//! A long-term key of SKIP on a PKCS #11 token: it is made there and never leaves it.
//!
//! Curve25519 alone: X25519 as an Edwards key with ECDH, which is how SoftHSM has it. Left out:
//! SKIP's own groups, because the safe interface to PKCS #11 has no name for their derivation, and
//! one-time keys of tunnel agents (`agent::token`).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crypto::dh::long_term::{Group, SHARED_LEN};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::elliptic_curve::{EcKdf, Ecdh1DeriveParams};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;
use nix::unistd::geteuid;
use zeroize::Zeroizing;

use crate::typed;

/// Bits of a mode: the group or anybody may write, and in a folder only owners may replace files.
pub(crate) const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Options of a command that uses a token.
#[derive(Clone, Debug, clap::Args)]
pub struct TokenArgs {
    /// Keep the secret on a PKCS #11 token; the module's library
    #[arg(long, value_name = "LIBRARY", requires = "token")]
    pub(crate) module: Option<PathBuf>,
    /// Label of the token
    #[arg(long, value_name = "LABEL", requires = "module")]
    pub(crate) token: Option<String>,
    /// File whose first line is the user's PIN; without it, the PIN is asked on the terminal
    #[arg(long, value_name = "FILE", requires = "module")]
    pub(crate) pin_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Whether a token is named.
    pub fn names_any(&self) -> bool {
        self.module.is_some()
    }

    /// Logs in; none without a module.
    pub fn open(&self) -> anyhow::Result<Option<Token>> {
        let (Some(module), Some(label)) = (&self.module, &self.token) else {
            return Ok(None);
        };
        let pin = match &self.pin_file {
            Some(file) => {
                let read = typed::read(file);
                read.with_context(|| format!("cannot read a PIN from {}", file.display()))?
            }
            None => typed::ask(&format!("PIN of the token {label}: "))
                .context("nobody has given a PIN: --pin-file names its file")?,
        };
        let pin = &pin;
        Token::open(Place { module, label, pin }).map(Some)
    }
}

/// Where a token is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The module's library.
    pub module: &'a Path,
    /// Label of the token.
    pub label: &'a str,
    /// The user's PIN.
    pub pin: &'a str,
}

/// A session with a token, logged in.
pub struct Token {
    session: Session,
}

/// The object identifier of X25519, 1.3.101.110, in DER.
const X25519: [u8; 5] = [0x06, 3, 0x2b, 0x65, 0x6e];
/// A DER OCTET STRING of 32 octets.
const POINT_HEAD: [u8; 2] = [0x04, 32];

impl Token {
    /// Logs in.
    pub fn open(place: Place<'_>) -> anyhow::Result<Self> {
        demand_modules()?;
        let module = &trusted(place.module)?;
        let library =
            Pkcs11::new(module).with_context(|| format!("cannot load {}", module.display()))?;
        library
            .initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK))
            .with_context(|| format!("cannot start {}", module.display()))?;
        let label = place.label;
        let mut found = None;
        for slot in library.get_slots_with_token()? {
            if library.get_token_info(slot)?.label() == label {
                found = Some(slot);
            }
        }
        let slot = found.with_context(|| format!("no token has the label {label:?}"))?;
        let session = library.open_rw_session(slot)?;
        session
            .login(UserType::User, Some(&AuthPin::from(place.pin.trim_end())))
            .with_context(|| format!("the token {label:?} refuses the PIN"))?;
        Ok(Self { session })
    }

    /// Makes a key of this name. Returns its public value.
    pub fn generate(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        if !self.find(name, ObjectClass::PRIVATE_KEY)?.is_empty() {
            bail!("the token has a key {name:?} already: remove it first");
        }
        let label = || Attribute::Label(name.as_bytes().to_vec());
        let public = [
            Attribute::Token(true),
            Attribute::EcParams(X25519.to_vec()),
            label(),
        ];
        let private = [
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::Derive(true),
            label(),
        ];
        let (public, _) = self
            .session
            .generate_key_pair(&Mechanism::EccEdwardsKeyPairGen, &public, &private)
            .context("the token makes no key on Curve25519")?;
        self.value(public)
    }

    /// The public value of the key of this name, and what it shares with a peer's value.
    pub fn agree(
        &self,
        name: &str,
        peer: &[u8],
    ) -> anyhow::Result<(Vec<u8>, Zeroizing<[u8; SHARED_LEN]>)> {
        Group::Curve25519.check(peer)?;
        let public = self.value(self.one(name, ObjectClass::PUBLIC_KEY)?)?;
        let how = Mechanism::Ecdh1Derive(Ecdh1DeriveParams::new(EcKdf::null(), peer));
        let what = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::GENERIC_SECRET),
            Attribute::Token(false),
            Attribute::Sensitive(false),
            Attribute::Extractable(true),
            Attribute::ValueLen((SHARED_LEN as u64).into()),
        ];
        let private = self.one(name, ObjectClass::PRIVATE_KEY)?;
        let shared = self
            .session
            .derive_key(&how, private, &what)
            .context("the token derives no secret")?;
        let attributes = self
            .session
            .get_attributes(shared, &[AttributeType::Value])?;
        let mut octets = Zeroizing::new([0; SHARED_LEN]);
        let mut attributes = attributes.into_iter();
        let Some(Attribute::Value(value)) = attributes.next() else {
            bail!("the token keeps what it derives");
        };
        let value = Zeroizing::new(value);
        if value.len() != SHARED_LEN || value.iter().all(|octet| *octet == 0) {
            bail!("the token derives no secret of 256 bits");
        }
        octets.copy_from_slice(&value);
        self.session.destroy_object(shared)?;
        Ok((public, octets))
    }

    fn one(&self, name: &str, class: ObjectClass) -> anyhow::Result<ObjectHandle> {
        match self.find(name, class)?[..] {
            [one] => Ok(one),
            [] => bail!("the token has no key {name:?}"),
            _ => bail!("the token has several keys {name:?}"),
        }
    }

    fn find(&self, name: &str, class: ObjectClass) -> anyhow::Result<Vec<ObjectHandle>> {
        let label = Attribute::Label(name.as_bytes().to_vec());
        Ok(self
            .session
            .find_objects(&[Attribute::Class(class), label])?)
    }

    /// The octets of a public key: its point, in a DER OCTET STRING.
    fn value(&self, public: ObjectHandle) -> anyhow::Result<Vec<u8>> {
        let attributes = self
            .session
            .get_attributes(public, &[AttributeType::EcPoint])?;
        let Some(Attribute::EcPoint(point)) = attributes.into_iter().next() else {
            bail!("the token does not tell the public value");
        };
        let value = point
            .strip_prefix(&POINT_HEAD[..])
            .unwrap_or(&point)
            .to_vec();
        Group::Curve25519.check(&value)?;
        Ok(value)
    }
}

/// Refuses in a static program. The C library would load a module there with a second copy of
/// itself, if it finds one.
pub(crate) fn demand_modules() -> anyhow::Result<()> {
    if cfg!(target_feature = "crt-static") {
        bail!(
            "this program is one static file, which loads no module of PKCS #11: use one with \
             shared libraries, or caravan-token for one-time keys"
        );
    }
    Ok(())
}

/// The whole path of a module whose code nobody else could have written: it is loaded into this
/// process, which may be root's.
pub(crate) fn trusted(module: &Path) -> anyhow::Result<PathBuf> {
    let whole = module
        .canonicalize()
        .with_context(|| format!("cannot load {}", module.display()))?;
    let own = geteuid().as_raw();
    for part in whole.ancestors() {
        let found = part.symlink_metadata();
        let found = found.with_context(|| format!("cannot load {}", whole.display()))?;
        let is_sticky = found.is_dir() && found.mode() & STICKY != 0;
        let is_ours = [0, own].contains(&found.uid());
        if !is_ours || found.mode() & OTHERS_WRITE != 0 && !is_sticky {
            bail!(
                "{} is not loaded: another user can write {}; the file and the folders above it \
                 must be root's or yours, and writable for their owner alone",
                whole.display(),
                part.display()
            );
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_module_that_others_can_write_is_not_loaded() {
        let name = format!("caravan-token-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let module = folder.join("module.so");
        fs::write(&module, "no library").expect("written");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        };
        set(&folder, 0o700);
        set(&module, 0o644);
        let whole = module.canonicalize().expect("it is there");
        assert_eq!(trusted(&module).expect("ours"), whole);
        for (path, before) in [(module.as_path(), 0o644), (folder.as_path(), 0o700)] {
            for mode in [0o720, 0o702] {
                set(path, mode);
                let said = trusted(&module).expect_err("not ours alone").to_string();
                assert!(said.contains("another user can write"), "{said}");
            }
            set(path, before);
        }
        assert!(trusted(&folder.join("none.so")).is_err());
        fs::remove_dir_all(&folder).expect("removed");
    }
}

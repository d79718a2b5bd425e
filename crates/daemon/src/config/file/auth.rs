//! `local` and `remote` of a connection: how each side proves its identity.

use std::fmt;
use std::path::PathBuf;

use document::{Fault, Item};
use serde::Serialize;

use super::super::read::{Keys, Read, ReadTable};
use super::super::values::SecretText;

/// `local` and `remote`
#[derive(Clone, Default, Serialize)]
pub struct AuthTable {
    /// Proof of identity: a certificate ("pubkey"), a pre-shared key ("psk"), or with IKEv2 a
    /// method of EAP, after the gateway has proven itself by its certificate. "eap-mschapv2": a
    /// user's password. "eap-tls": a certificate within TLS; if both ends have it, the gateway
    /// proves itself within TLS alone. `remote` only: "eap", a password or a certificate, and
    /// "eap-radius", what the servers of `[radius]` decide.
    pub auth: Auth,
    /// Certificate files. `local`: ours, then intermediates. `remote`: the peers' own certificates;
    /// then only these are accepted, whatever `cacerts` says.
    #[serde(skip_serializing)]
    pub certs: Vec<PathBuf>,
    /// Our private key.
    #[serde(skip_serializing)]
    pub key: Option<PathBuf>,
    /// Authorities that may have issued the peer's certificate.
    #[serde(skip_serializing)]
    pub cacerts: Vec<PathBuf>,
    /// Certificate revocation lists (CRLs).
    #[serde(skip_serializing)]
    pub crls: Vec<PathBuf>,
    /// When a peer is refused because its authority has no current CRL. "strict": always. "ifcrl":
    /// if `crls` names a CRL of that authority. "relaxed": never. Revoked peers are always refused.
    #[serde(skip_serializing)]
    pub revocation: Revocation,
    /// Identity: an address, a name, user@name or a subject. `remote`: "*" accepts any. With EAP it
    /// is compared with the user or certificate that is proven, and "*" is the default.
    pub id: Option<String>,
    /// With EAP, `local`: what we call ourselves there. Default with "eap-tls": `id`.
    pub eap_id: Option<String>,
    /// With "eap-tls", `local`: the name in the certificate of the server of EAP, if it is not the
    /// gateway but a server of RADIUS behind it. Default: `id` of `remote`.
    pub aaa_id: Option<String>,
    /// With EAP, `remote`: file of the users and their passwords, which `caravan user` writes.
    #[serde(skip_serializing)]
    pub users: Option<PathBuf>,
    /// The pre-shared key itself, or the password of "eap-mschapv2"; or use `secret_file`. If only
    /// one side has a key, both use it.
    #[serde(skip_serializing)]
    pub secret: Option<SecretText>,
    /// File with the pre-shared key or password.
    #[serde(skip_serializing)]
    pub secret_file: Option<PathBuf>,
}

impl ReadTable for AuthTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            auth: keys.given("auth")?,
            certs: keys.given("certs")?,
            key: keys.given("key")?,
            cacerts: keys.given("cacerts")?,
            crls: keys.given("crls")?,
            revocation: keys.given("revocation")?,
            id: keys.given("id")?,
            eap_id: keys.given("eap_id")?,
            aaa_id: keys.given("aaa_id")?,
            users: keys.given("users")?,
            secret: keys.given("secret")?,
            secret_file: keys.given("secret_file")?,
        })
    }
}

/// Shows the identity and leaves out the secret.
impl fmt::Debug for AuthTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AuthTable");
        shown.field("auth", &self.auth).field("id", &self.id);
        shown.finish_non_exhaustive()
    }
}

/// How a side proves its identity.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Auth {
    /// RSA signatures and certificates.
    #[default]
    Pubkey,
    /// A pre-shared key.
    Psk,
    /// A user's password.
    EapMschapv2,
    /// A certificate within TLS.
    EapTls,
    /// Either of both.
    Eap,
    /// What servers of RADIUS decide.
    EapRadius,
}

impl Auth {
    /// Whether it is a method of EAP.
    pub const fn is_eap(self) -> bool {
        !matches!(self, Self::Pubkey | Self::Psk)
    }
}

impl Read for Auth {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice(
            "value",
            &[
                ("pubkey", Self::Pubkey),
                ("psk", Self::Psk),
                ("eap-mschapv2", Self::EapMschapv2),
                ("eap-tls", Self::EapTls),
                ("eap", Self::Eap),
                ("eap-radius", Self::EapRadius),
            ],
        )
    }
}

/// What a missing CRL means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// Refuse.
    Strict,
    /// Refuse if `crls` names a CRL of the issuer that is not current.
    #[default]
    Ifcrl,
    /// Accept.
    Relaxed,
}

impl Read for Revocation {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice(
            "value",
            &[
                ("strict", Self::Strict),
                ("ifcrl", Self::Ifcrl),
                ("relaxed", Self::Relaxed),
            ],
        )
    }
}

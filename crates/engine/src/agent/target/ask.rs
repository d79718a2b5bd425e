//! What Target asks its databases, its authority and its back-end.

use crypto::ed25519::{Signature, VerifyKey};
use crypto::hpke::PublicKey;
use wire::agent::{Kind, Network};
use zeroize::ZeroizeOnDrop;

use crate::agent::envelope::{Use, signed_octets};
use crate::agent::ike::IkeVersion;
use crate::agent::legacy::SESSION_KEY_LEN;
use crate::agent::objectives::{Options, SecurityOption};
use crate::agent::ppk::TunnelPpk;
use crate::agent::{Digest, Handle, TunnelId};
use crate::time::{Calendar, Duration};

/// A question. Those of one tunnel are done in their order.
#[derive(Clone)]
pub enum Ask {
    /// Could our end of a tunnel be built now? It is asked before an offer, which costs no key.
    CanBuild,
    /// Step 4: is the user a member, and what may he?
    Standing {
        /// The User ID.
        user: String,
        /// The name of the Host that has authenticated him.
        host: String,
        /// SHA-256 of the one-time key's public half: a membership may demand that it is enrolled.
        /// None: a shared pair, by which the user has proven nothing to us. No membership that
        /// demands enrolment admits it.
        key: Option<Digest>,
    },
    /// Writes that a key is spent here, before anything is built with it. A key is spent once, and
    /// a tunnel that is not noted as ended is a [`super::Former`] after a restart.
    Spend(Spending),
    /// Makes the certificate of minutes for the tunnel's key.
    Certify {
        /// The tunnel.
        tunnel: TunnelId,
        /// SubjectPublicKeyInfo of Client's key.
        tunnel_key: Vec<u8>,
        /// The identity that it certifies.
        client_identity: String,
        /// Not after.
        until: Calendar,
    },
    /// Step 5: builds our end.
    Build(Box<Build>),
    /// Takes our end down, whatever is there of it.
    Destroy(TunnelId),
    /// Notes how far a tunnel is. Not waited for.
    Note(TunnelId, Progress),
}

/// A key and the tunnel that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// SHA-256 of the key's public half.
    pub key: Digest,
    /// Its handle.
    pub handle: Handle,
    /// The tunnel.
    pub tunnel: TunnelId,
    /// User@Host.
    pub client_identity: String,
    /// When the tunnel ends.
    pub until: Calendar,
    /// What the user has signed.
    pub evidence: Evidence,
}

/// A request as its user has signed it: whoever has this can show that the key's holder has asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The one-time key's public half.
    pub key: VerifyKey,
    /// The request's body.
    pub request: Vec<u8>,
    /// The signature.
    pub signature: Signature,
}

impl Evidence {
    /// Whether the key's holder has signed the request under this handle for the Host of this
    /// sealing key. Never so with a shared pair, which Host could have used.
    pub fn holds(&self, handle: Handle, host: PublicKey) -> bool {
        let what = Use::Message(Kind::Request);
        let octets = signed_octets(what, &handle.0, host, &self.request);
        self.key.verify(&[&octets], &self.signature).is_ok()
    }
}

/// How far a tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Client has come.
    Arrived,
    /// Our end is down.
    Ended,
}

/// Our end of a tunnel.
#[derive(Clone)]
pub struct Build {
    /// Its name.
    pub tunnel: TunnelId,
    /// Its option.
    pub option: SecurityOption,
    /// Client's IKE identity, User@Host.
    pub client_identity: String,
    /// How Client proves itself.
    pub credential: Credential,
    /// The version of IKE.
    pub ike: IkeVersion,
    /// The tunnel's PPK: without it there is none.
    pub ppk: Option<TunnelPpk>,
    /// What Client may reach.
    pub networks: Vec<Network>,
    /// How long it lives from now on.
    pub lifetime: Duration,
}

/// How Client proves itself in IKE.
#[derive(Clone)]
pub enum Credential {
    /// By this certificate alone, DER.
    Certificate(Vec<u8>),
    /// By a pre-shared key ([`crate::agent::legacy`]).
    SessionKey(SessionKey),
}

/// A delivered pre-shared key. Wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SessionKey(pub [u8; SESSION_KEY_LEN]);

/// What they say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Ask::Standing`].
    Standing(Standing),
    /// To [`Ask::Spend`]: it is written.
    Spent,
    /// To [`Ask::Spend`]: the key was spent here before.
    SpentBefore,
    /// To [`Ask::Certify`]: Client's certificates, its own first, DER.
    Certified(Vec<Vec<u8>>),
    /// To [`Ask::CanBuild`], [`Ask::Build`] and [`Ask::Destroy`].
    Done,
    /// It has failed, or does not answer. What was asked may have been done.
    Failed,
}

/// A user's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// He is a member, and this is his line of the access list.
    Member(Access),
    /// He is none.
    Stranger,
    /// He is one, but the key is not enrolled.
    KeyNotEnrolled,
}

/// A line of the access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Options that he may use.
    pub options: Options,
    /// What he may reach.
    pub networks: Vec<Network>,
    /// The longest tunnel.
    pub lifetime: Duration,
}

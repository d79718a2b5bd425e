//! Tickets by value (RFC 5723 §6): the state of a session, sealed under a key of the node.
//!
//! ```text
//! number of the key (4) | nonce (12) | { version | expiry | .. } sealed with AES-256-GCM
//! ```
//!
//! The node keeps the keys over a restart. A key seals for [`KEY_LIFETIME`], and opens as much
//! longer as a ticket may live. A ticket is for one use: the nonces of used tickets are remembered
//! until they expire. It dies with what it was given for: the revision of its connection, the
//! credentials in it, the peer's certificate, the user and the password. All that is checked when
//! it is presented.

use std::collections::BTreeSet;
use std::sync::Arc;

use crypto::aead::{Aead, AeadKey, ICV_LEN, IV_LEN, SALT_LEN};
use crypto::cert::CertificatePath;
use crypto::counted::{fixed, put, take};
use crypto::hash::{Hash, is_equal};
use crypto::rand::Stream;
use zeroize::Zeroizing;

use crate::config::{Connection, LocalMethod, RemoteMethod};
use crate::identity::{Identity, Peer};
use crate::ike::Spi;
use crate::ike::auth::{Certified, Proven, proven_by_eap, proven_by_key};
use crate::sa::Secret;
use crate::suite::Ikev2Suite;
use crate::time::{Calendar, Duration, Instant};

/// How long a ticket may be used at most. An IKE SA's own lifetime may be shorter.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// How long a key seals: much longer than an IKE SA lives (RFC 5723 §6.2).
pub const KEY_LIFETIME: Duration = Duration::from_secs(48 * 3_600);
/// Octets of a ticket at most. A request with one is not encrypted, so IKE cannot split it: with
/// all that it may have besides, a cookie too, it must fit into 1,500 octets of IPv6. Nearly all
/// tickets are so short that it fits into 1,280 octets.
pub(super) const MAX_TICKET: usize = 1_180;
/// Used tickets that are remembered; beyond that, those that expire first are forgotten.
const MAX_USED: usize = 1 << 16;
/// Octets of a key.
pub(crate) const KEY_LEN: usize = 32;
/// The form of what is sealed.
const VERSION: u8 = 2;
/// Octets of the number of a key.
const NUMBER_LEN: usize = 4;
/// Octets of a nonce.
const NONCE_LEN: usize = SALT_LEN + IV_LEN;
const HEAD_LEN: usize = NUMBER_LEN + NONCE_LEN;

/// Names a ticket: its nonce.
pub(crate) type TicketId = [u8; NONCE_LEN];

/// A key that seals and opens tickets.
pub(crate) struct TicketKey {
    pub(crate) number: u32,
    /// When it began to seal.
    pub(crate) since: Calendar,
    pub(crate) key: Secret,
}

/// The keys of a node, the current one last, and its used tickets.
#[derive(Default)]
pub(crate) struct Tickets {
    pub(crate) keys: Vec<TicketKey>,
    /// By when they expire.
    used: BTreeSet<(Calendar, TicketId)>,
}

/// Why a ticket is refused. The peer is told no more than that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is none of ours, or its key is gone.
    Unreadable,
    /// Its time is over.
    Expired,
    /// It was used, or its session has ended.
    Used,
    /// No connection, or another one than then.
    Policy,
    /// The certificate was revoked or has expired, or the user may not connect any more.
    Peer,
}

impl Refused {
    /// For the log.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Unreadable => "it is none of ours, or its key is gone",
            Self::Expired => "it has expired",
            Self::Used => "it was used before, or its session has ended",
            Self::Policy => "the connection that it was given for has changed",
            Self::Peer => "the certificate or the user that it was given for is not accepted now",
        }
    }
}

/// What a ticket carries of the session that it was given for.
pub(super) struct Carried<'a> {
    /// SK_d of its IKE SA.
    pub(super) d: &'a Secret,
    pub(super) suite: Ikev2Suite,
    pub(super) own_spi: Spi,
    /// The body of the initiator's ID payload.
    pub(super) initiator: &'a [u8],
    pub(super) connection: &'a Connection,
    pub(super) peer: &'a Peer,
    pub(super) certificate: Option<&'a CertificatePath>,
    /// The peer must authenticate again then.
    pub(super) ends: Option<Calendar>,
    /// A post-quantum pre-shared key is in its keys.
    pub(super) has_ppk: bool,
}

/// A ticket that was opened and is good.
pub(super) struct Resumable {
    pub(super) id: TicketId,
    pub(super) expires: Calendar,
    pub(super) d: Secret,
    pub(super) suite: Ikev2Suite,
    /// Our SPI of the session that it was given for.
    pub(super) own_spi: Spi,
    /// The body of the initiator's ID payload.
    pub(super) initiator: Vec<u8>,
    pub(super) proven: Proven,
    pub(super) has_ppk: bool,
}

/// What became of a request for a ticket.
pub(super) enum Sealed {
    /// A ticket and its name.
    Ticket(TicketId, Vec<u8>),
    /// A session of this kind gets none.
    None,
    /// It would have so many octets.
    TooLarge(usize),
}

impl Tickets {
    /// A ticket with this lifetime. Returns whether the keys have changed.
    pub(super) fn seal(
        &mut self,
        carried: &Carried<'_>,
        expires: Calendar,
        now: Calendar,
        random: &mut Stream,
    ) -> (Sealed, bool) {
        let is_new = self.turn(now, random);
        let clear = carried.write(expires);
        let (Some(clear), Some(key)) = (clear, self.keys.last()) else {
            return (Sealed::None, is_new);
        };
        let octets = HEAD_LEN + clear.len() + ICV_LEN;
        if octets > MAX_TICKET {
            return (Sealed::TooLarge(octets), is_new);
        }
        let mut id = [0; NONCE_LEN];
        random.fill(&mut id);
        let mut sealed = Vec::with_capacity(octets);
        sealed.extend_from_slice(&key.number.to_be_bytes());
        sealed.extend_from_slice(&id);
        let (aead, iv) = key.prepare(&id);
        let mut body = clear;
        let mut icv = [0; ICV_LEN];
        aead.seal(iv, &sealed[..NUMBER_LEN], &mut body, &mut icv);
        sealed.extend_from_slice(&body);
        sealed.extend_from_slice(&icv);
        (Sealed::Ticket(id, sealed), is_new)
    }

    /// Opens a ticket and checks that it is still good for one of these connections.
    pub(super) fn open(
        &mut self,
        sealed: &[u8],
        candidates: &[Arc<Connection>],
        (calendar, now): (Calendar, Instant),
    ) -> Result<Resumable, Refused> {
        self.forget(calendar);
        let (id, clear) = self.unseal(sealed).ok_or(Refused::Unreadable)?;
        let read = Read::of(&clear).ok_or(Refused::Unreadable)?;
        if read.expires <= calendar {
            return Err(Refused::Expired);
        }
        if self.used.contains(&(read.expires, id)) {
            return Err(Refused::Used);
        }
        let is_it = |it: &&Arc<Connection>| {
            it.name.as_bytes() == read.connection && it.resumption && is_equal(&mark(it), read.mark)
        };
        let connection = candidates.iter().find(is_it).ok_or(Refused::Policy)?;
        let suite = core::str::from_utf8(read.suite).ok();
        let suite: Option<Ikev2Suite> = suite.and_then(|it| it.parse().ok());
        let suite = suite.filter(|it| connection.ikev2_proposals.contains(it));
        let suite = suite.ok_or(Refused::Policy)?;
        let mut proven = read.proven(connection, calendar).ok_or(Refused::Peer)?;
        proven.until = read.ends.map(|at| {
            let rest = at.0.saturating_sub(calendar.0);
            now + Duration::from_secs(u64::try_from(rest).unwrap_or(0))
        });
        Ok(Resumable {
            id,
            expires: read.expires,
            d: Secret(read.d.to_vec()),
            suite,
            own_spi: read.own_spi,
            initiator: read.initiator.to_vec(),
            proven,
            has_ppk: read.has_ppk,
        })
    }

    /// A ticket is used, or its session has ended. Returns whether it was good before.
    pub(crate) fn spend(&mut self, expires: Calendar, id: TicketId) -> bool {
        let is_first = self.used.insert((expires, id));
        while self.used.len() > MAX_USED {
            self.used.pop_first();
        }
        is_first
    }

    /// The used ones that have not expired, and when they do.
    pub(crate) fn used(&self) -> impl Iterator<Item = &(Calendar, TicketId)> {
        self.used.iter()
    }

    /// Changes the key if it is time. Returns whether the keys are others now.
    fn turn(&mut self, now: Calendar, random: &mut Stream) -> bool {
        let age = |key: &TicketKey| Duration::from_secs(now.0.abs_diff(key.since.0));
        let kept = self.keys.len();
        self.keys
            .retain(|key| age(key) < KEY_LIFETIME + TICKET_LIFETIME);
        if self.keys.last().is_some_and(|key| age(key) < KEY_LIFETIME) {
            // One whose tickets are all over must not stay in the file.
            return self.keys.len() < kept;
        }
        let mut key = Secret(vec![0; KEY_LEN]);
        random.fill(&mut key.0);
        self.keys.push(TicketKey {
            number: random.u32(),
            since: now,
            key,
        });
        let surplus = self.keys.len().saturating_sub(MAX_KEYS);
        self.keys.drain(..surplus);
        true
    }

    /// Forgets used tickets that have expired.
    fn forget(&mut self, now: Calendar) {
        while self.used.first().is_some_and(|(at, _)| *at <= now) {
            self.used.pop_first();
        }
    }

    fn unseal(&self, sealed: &[u8]) -> Option<(TicketId, Zeroizing<Vec<u8>>)> {
        if sealed.len() > MAX_TICKET {
            return None;
        }
        let (number, rest) = sealed.split_first_chunk::<NUMBER_LEN>()?;
        let (id, body) = rest.split_first_chunk::<NONCE_LEN>()?;
        let clear_len = body.len().checked_sub(ICV_LEN)?;
        let named = u32::from_be_bytes(*number);
        let key = self.keys.iter().find(|key| key.number == named)?;
        let (aead, iv) = key.prepare(id);
        let mut clear = Zeroizing::new(body.to_vec());
        aead.open(iv, number, &mut clear).ok()?;
        clear.truncate(clear_len);
        Some((*id, clear))
    }
}

/// Keys that a node has: one seals, the one before it opens what it has sealed.
const MAX_KEYS: usize = 2;

impl TicketKey {
    /// The key with the salt of this nonce, and the rest of the nonce.
    fn prepare(&self, id: &TicketId) -> (AeadKey, [u8; IV_LEN]) {
        let (salt, rest) = id.split_at(SALT_LEN);
        let material = Zeroizing::new([&self.key.0[..], salt].concat());
        let mut iv = [0; IV_LEN];
        iv.copy_from_slice(rest);
        (AeadKey::new(Aead::AesGcm, &material), iv)
    }
}

/// How the peer has proven itself.
const BY_KEY: u8 = 1;
const BY_CERTIFICATE: u8 = 2;
const BY_PASSWORD: u8 = 3;
/// No time.
const NEVER: i64 = i64::MAX;

impl Carried<'_> {
    /// `None` for a session that gets no ticket.
    fn write(&self, expires: Calendar) -> Option<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(vec![VERSION]);
        let connection = self.connection;
        out.extend_from_slice(&expires.0.to_be_bytes());
        out.extend_from_slice(&self.ends.map_or(NEVER, |it| it.0).to_be_bytes());
        out.extend_from_slice(&self.own_spi.0);
        out.push(u8::from(self.has_ppk));
        out.extend_from_slice(&mark(connection));
        put(&mut out, &self.d.0)?;
        put(&mut out, self.suite.to_string().as_bytes())?;
        put(&mut out, connection.name.as_bytes())?;
        put(&mut out, self.initiator)?;
        let name = self.peer.identity().to_string();
        match (&connection.remote.method, self.certificate) {
            (RemoteMethod::PresharedKey(_), _) => {
                out.push(BY_KEY);
                put(&mut out, name.as_bytes())?;
            }
            (_, Some(path)) => {
                out.push(BY_CERTIFICATE);
                let [subject, alternative] = self.peer.certificate_names()?;
                for text in [&name, &subject, &alternative] {
                    put(&mut out, text.as_bytes())?;
                }
                let store = connection.remote.method.trust_store()?;
                put(&mut out, &path.to_octets(store)?)?;
            }
            (RemoteMethod::Eap(examiner), None) => {
                // What a server of RADIUS has allowed, only it can allow again.
                let users = examiner.users.as_ref().filter(|_| !examiner.asks_servers)?;
                out.push(BY_PASSWORD);
                put(&mut out, name.as_bytes())?;
                put(&mut out, &users.mark(self.peer.identity(), self.d)?)?;
            }
            (RemoteMethod::Signature(_), None) => return None,
        }
        Some(out)
    }
}

/// What is in a ticket.
struct Read<'a> {
    expires: Calendar,
    ends: Option<Calendar>,
    own_spi: Spi,
    has_ppk: bool,
    mark: &'a [u8],
    d: &'a [u8],
    suite: &'a [u8],
    connection: &'a [u8],
    initiator: &'a [u8],
    kind: u8,
    /// What follows the kind.
    peer: Vec<&'a [u8]>,
}

impl<'a> Read<'a> {
    fn of(mut clear: &'a [u8]) -> Option<Self> {
        let rest = &mut clear;
        if fixed::<1>(rest)? != &[VERSION] {
            return None;
        }
        let expires = Calendar(i64::from_be_bytes(*fixed(rest)?));
        let ends = i64::from_be_bytes(*fixed(rest)?);
        let own_spi = Spi(*fixed(rest)?);
        let [has_ppk] = *fixed(rest)?;
        let mark = &fixed::<MARK_LEN>(rest)?[..];
        let (d, suite) = (take(rest)?, take(rest)?);
        let (connection, initiator) = (take(rest)?, take(rest)?);
        let [kind] = *fixed(rest)?;
        let mut peer = Vec::new();
        while !rest.is_empty() {
            peer.push(take(rest)?);
        }
        Some(Self {
            expires,
            ends: (ends != NEVER).then_some(Calendar(ends)),
            own_spi,
            has_ppk: has_ppk != 0,
            mark,
            d,
            suite,
            connection,
            initiator,
            kind,
            peer,
        })
    }

    /// The peer, if the connection would still let it in.
    fn proven(&self, connection: &Arc<Connection>, calendar: Calendar) -> Option<Proven> {
        let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).ok();
        let name = |octets: &[u8]| Identity::parse(&text(octets)?).ok();
        if self.ends.is_some_and(|ends| ends <= calendar) {
            return None;
        }
        match (self.kind, &self.peer[..]) {
            (BY_KEY, [claimed]) => {
                let claimed = name(claimed)?;
                let accepts = connection.accepts(&claimed);
                accepts.then(|| proven_by_key(connection, &claimed))
            }
            (BY_CERTIFICATE, [identity, subject, alternative, path]) => {
                let store = connection.remote.method.trust_store()?;
                let path = CertificatePath::from_octets(path, store)?;
                store.still_believes(&path, calendar.0).ok()?;
                let of = |octets: &[u8]| match octets.is_empty() {
                    true => Some(None),
                    false => name(octets).map(Some),
                };
                let identity = name(identity)?;
                let names = [of(subject)?, of(alternative)?];
                let accepts = connection.accepts(&identity);
                accepts.then(|| Proven {
                    identity: Peer::of_written(&connection.name, names, identity),
                    connection: Arc::clone(connection),
                    certified: Some(Certified {
                        not_after: NEVER,
                        path,
                    }),
                    until: None,
                })
            }
            (BY_PASSWORD, [user, password]) => {
                let RemoteMethod::Eap(examiner) = &connection.remote.method else {
                    return None;
                };
                let user = name(user)?;
                let users = examiner.users.as_ref().filter(|_| !examiner.asks_servers)?;
                let own = users.mark(&user, &Secret(self.d.to_vec()))?;
                let is_let_in = is_equal(&own, password) && connection.accepts(&user);
                is_let_in.then(|| proven_by_eap(connection, &user))
            }
            _ => None,
        }
    }
}

const MARK_LEN: usize = 32;

/// What a ticket depends on of its connection: its revision, and every credential in it.
pub(super) fn mark(connection: &Connection) -> [u8; MARK_LEN] {
    let mut parts: Vec<Vec<u8>> = vec![
        connection.name.clone().into_bytes(),
        connection.revision.to_be_bytes().to_vec(),
        connection.local.identity.to_string().into_bytes(),
    ];
    match &connection.local.method {
        LocalMethod::PresharedKey(key) => parts.push(digest(&key.0)),
        LocalMethod::Signature { chain, .. } => {
            parts.extend(chain.iter().map(|it| digest(it.der())));
        }
        LocalMethod::Eap(_) => {}
    }
    if let RemoteMethod::PresharedKey(key) = &connection.remote.method {
        parts.push(digest(&key.0));
    }
    if let Some(store) = connection.remote.method.trust_store() {
        let all = store.authorities.iter().chain(&store.pinned);
        parts.extend(all.map(|it| digest(it.der())));
    }
    if let Some(ppk) = &connection.ppk {
        parts.push(digest(&ppk.key.0));
    }
    let mut octets = Zeroizing::new(Vec::new());
    for part in &parts {
        octets.extend_from_slice(&(part.len() as u64).to_be_bytes());
        octets.extend_from_slice(part);
    }
    let mut mark = [0; MARK_LEN];
    mark.copy_from_slice(Hash::Sha256.digest(&[&octets]).as_ref());
    mark
}

fn digest(octets: &[u8]) -> Vec<u8> {
    Hash::Sha256.digest(&[octets]).as_ref().to_vec()
}

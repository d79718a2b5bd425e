//! EAP-TLS (RFC 5216, RFC 9190): the messages of a handshake in fragments, and the key that comes
//! of it.
//!
//! ```text
//! station                                                        gateway
//!                                                   <-- EAP-TLS start
//! ClientHello -->
//!                                                   <-- ServerHello ... (in fragments)
//! certificate, its proof, Finished (in fragments) -->
//!                                                   <-- Finished (1.2), or one octet 0 (1.3)
//! empty -->                                         <-- EAP success
//! ```

use crypto::cert::Certificate;
use crypto::dh::Group;
use crypto::rand::{Seed, Stream};
use crypto::sign::KeyKind;
use crypto::tls::handshake::{Broken, End, Handshake};
use wire::eap::tls::{Fragment, MAX_MESSAGE_LEN};

use crate::sa::Secret;
use crate::work::{Task, Work};

/// Octets of TLS in one packet. RFC 5216 §2.1.5 leaves it to each end; IKE's own fragments carry
/// what is longer than a path.
const FRAGMENT_LEN: usize = 1_000;
/// The ephemeral keys of a handshake with ourselves.
const EPHEMERAL: Group = Group::Curve25519;
/// What a server of TLS 1.3 says under the keys when it is content (RFC 9190 §2.1.1).
const CONTENT: [u8; 1] = [0];
/// The method's number is the context of the exporter (RFC 9190 §2.3).
const TYPE: [u8; 1] = [13];

/// One end's side.
pub(super) struct Tls {
    handshake: Handshake,
    incoming: Vec<u8>,
    /// Octets of the message that comes in, if the peer has said it.
    total: Option<usize>,
    outgoing: Vec<u8>,
    sent: usize,
    has_begun: bool,
    /// TLS 1.3: the server is content.
    is_content: bool,
    /// The handshake has failed; the alert is on the way.
    broken: Option<String>,
    /// The kind of our key.
    own: KeyKind,
    /// What TLS has computed that costs most: the ephemeral key, our signature, the peer's.
    work: Work,
    has_agreed: bool,
    has_checked: bool,
}

/// What a fragment of the peer leads to.
pub(super) enum Turn {
    /// Our fragment.
    Say(Vec<u8>),
    /// The handshake is done at both ends.
    Done,
    /// It has failed.
    Failed(String),
}

/// A stream of our own for one handshake.
fn own(random: &mut Stream) -> Stream {
    let mut seed = [0; 32];
    random.fill(&mut seed);
    Seed::new(seed).stream("eap-tls", 0)
}

impl Tls {
    pub(super) fn client(end: &End, now: i64, random: &mut Stream) -> Result<Self, String> {
        let handshake = Handshake::client(end, now, own(random));
        let mut tls = Self::new(handshake.map_err(|fault| fault.to_string())?, end);
        tls.work.count(Task::KeyPair(EPHEMERAL), 0);
        Ok(tls)
    }

    pub(super) fn server(end: &End, now: i64, random: &mut Stream) -> Result<Self, String> {
        let handshake = Handshake::server(end, now, own(random));
        Ok(Self::new(
            handshake.map_err(|fault| fault.to_string())?,
            end,
        ))
    }

    fn new(handshake: Handshake, end: &End) -> Self {
        Self {
            handshake,
            incoming: Vec::new(),
            total: None,
            outgoing: Vec::new(),
            sent: 0,
            has_begun: false,
            is_content: false,
            broken: None,
            own: end.key.kind(),
            work: Work::default(),
            has_agreed: false,
            has_checked: false,
        }
    }

    /// What was computed since the last call.
    pub(super) fn take_work(&mut self) -> Work {
        core::mem::take(&mut self.work)
    }

    /// Counts what the message that was just taken has led to. The ephemeral keys are of the group
    /// that rustls prefers.
    fn count(&mut self, is_server: bool) {
        if !self.has_agreed {
            self.has_agreed = true;
            if is_server {
                self.work.count(Task::KeyPair(EPHEMERAL), 0);
            }
            self.work.count(Task::Agree(EPHEMERAL), 0);
            self.work.count_sign(self.own);
        }
        if !self.has_checked
            && let Some(peer) = self.peer().first()
        {
            self.has_checked = true;
            let leaf = Certificate::from_der(peer);
            if let Ok(key) = leaf.and_then(|it| it.signature_key()) {
                self.work.count_verify(key.kind());
            }
        }
    }

    /// A server's first fragment.
    pub(super) fn start() -> Vec<u8> {
        let start = Fragment {
            is_start: true,
            ..Fragment::default()
        };
        start.to_data()
    }

    /// A server's turn.
    pub(super) fn serve(&mut self, data: &[u8]) -> Turn {
        let whole = match self.collect(data) {
            Ok(Collected::Whole(whole)) => whole,
            Ok(Collected::Turn(turn)) => return turn,
            Err(why) => return Turn::Failed(why),
        };
        if let Some(why) = self.broken.take() {
            return Turn::Failed(why);
        }
        if whole.is_empty() {
            return match self.handshake.is_done() {
                true => Turn::Done,
                false => Turn::Failed("the peer says nothing where TLS expects it to".into()),
            };
        }
        let was_done = self.handshake.is_done();
        let mut ours = self.take(&whole);
        self.count(true);
        if was_done && self.broken.is_none() {
            return Turn::Failed("the peer goes on after the end of TLS".into());
        }
        if self.broken.is_none()
            && self.handshake.is_done()
            && self.handshake.is_of_version_13()
            && self.handshake.say(&CONTENT)
        {
            ours.extend(self.handshake.ours());
        }
        self.begin(ours)
    }

    /// A client's turn.
    pub(super) fn answer(&mut self, data: &[u8]) -> Turn {
        let is_start = Fragment::parse(data).is_ok_and(|it| it.is_start);
        if is_start == self.has_begun {
            return Turn::Failed("EAP-TLS begins once, and first".into());
        }
        if is_start {
            self.has_begun = true;
            let hello = self.handshake.ours();
            return self.begin(hello);
        }
        let whole = match self.collect(data) {
            Ok(Collected::Whole(whole)) => whole,
            Ok(Collected::Turn(turn)) => return turn,
            Err(why) => return Turn::Failed(why),
        };
        let ours = self.take(&whole);
        self.count(false);
        if self.handshake.is_done() && self.broken.is_none() {
            let heard = self.handshake.heard(CONTENT.len() + 1);
            self.is_content |= heard == CONTENT;
        }
        match ours.is_empty() {
            // An acknowledgement, also of an alert: the server's verdict follows.
            true => Turn::Say(Fragment::default().to_data()),
            false => self.begin(ours),
        }
    }

    /// Why the handshake has failed, if it has.
    pub(super) fn fault(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Whether a client may take the server's success for true.
    pub(super) fn may_succeed(&self) -> bool {
        let is_said = self.is_content || !self.handshake.is_of_version_13();
        self.handshake.is_done() && is_said && self.broken.is_none()
    }

    /// The peer's certificates, its own first.
    pub(super) fn peer(&self) -> Vec<Vec<u8>> {
        self.handshake.peer()
    }

    /// MSK (RFC 5216 §2.3, RFC 9190 §2.3).
    pub(super) fn key(&self) -> Result<Secret, String> {
        let key = match self.handshake.is_of_version_13() {
            true => {
                let label = b"EXPORTER_EAP_TLS_Key_Material";
                self.handshake.export(label, Some(&TYPE))
            }
            false => self.handshake.export(b"client EAP encryption", None),
        };
        let key = key.map_err(|fault| fault.to_string())?;
        Ok(Secret(key.to_vec()))
    }

    /// Feeds a whole message to TLS. Gives what it says.
    fn take(&mut self, whole: &[u8]) -> Vec<u8> {
        match self.handshake.take(whole) {
            Ok(ours) => ours,
            Err(Broken { fault, alert }) => {
                self.broken = Some(format!("TLS: {fault}"));
                alert
            }
        }
    }

    /// Begins a message of ours.
    fn begin(&mut self, ours: Vec<u8>) -> Turn {
        if ours.is_empty() {
            let why = self.broken.take();
            return Turn::Failed(why.unwrap_or_else(|| "TLS has nothing to say".into()));
        }
        self.outgoing = ours;
        self.sent = 0;
        Turn::Say(self.next())
    }

    /// The next fragment of our message.
    fn next(&mut self) -> Vec<u8> {
        let is_first = self.sent == 0;
        let rest = &self.outgoing[self.sent..];
        let data = rest[..rest.len().min(FRAGMENT_LEN)].to_vec();
        let has_more = data.len() < rest.len();
        self.sent += data.len();
        let total = u32::try_from(self.outgoing.len()).unwrap_or(u32::MAX);
        let fragment = Fragment {
            is_start: false,
            has_more,
            total: (is_first && has_more).then_some(total),
            data,
        };
        fragment.to_data()
    }

    /// Collects the peer's message.
    fn collect(&mut self, data: &[u8]) -> Result<Collected, String> {
        let fragment = Fragment::parse(data).map_err(|fault| format!("EAP-TLS: {fault}"))?;
        if self.sent < self.outgoing.len() {
            return match fragment.data.is_empty() && !fragment.has_more {
                true => Ok(Collected::Turn(Turn::Say(self.next()))),
                false => Err("the peer speaks before it has heard all of our message".into()),
            };
        }
        let total = fragment.total.map(|it| it as usize);
        let is_first = self.incoming.is_empty();
        if is_first {
            self.total = total;
        }
        let most = self.total.unwrap_or(MAX_MESSAGE_LEN);
        if self.incoming.len() + fragment.data.len() > most {
            return Err("the peer's message of TLS is longer than it says".into());
        }
        self.incoming.extend(&fragment.data);
        if fragment.has_more {
            return match fragment.data.is_empty() {
                true => Err("a fragment of TLS is empty, and more should follow".into()),
                false => Ok(Collected::Turn(Turn::Say(Fragment::default().to_data()))),
            };
        }
        if self.total.is_some_and(|total| total != self.incoming.len()) {
            return Err("the peer's message of TLS is shorter than it says".into());
        }
        self.total = None;
        Ok(Collected::Whole(core::mem::take(&mut self.incoming)))
    }
}

/// A message of the peer.
enum Collected {
    Whole(Vec<u8>),
    /// It is not whole, or ours is not.
    Turn(Turn),
}

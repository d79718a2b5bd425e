//! Audit events: who came in, by which key, to what, and until when. Each is one line of the log
//! ([`super::chain`]).

use core::fmt;
use std::net::IpAddr;

use wire::agent::Network;

use super::identity::Fingerprint;
use super::ike::IkeVersion;
use super::objectives::SecurityOption;
use super::{Handle, TunnelId};
use crate::ikev2::ppk::PpkExchange;
use crate::time::Calendar;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Where the user sits.
    Client,
    /// The user's trusted machine.
    Host,
    /// The machine of the user's working environment.
    Target,
}

/// What has happened, by the number of the paper's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// 1: Client has sent its request.
    Requested,
    /// 2: Host has found and verified the key.
    Authenticated,
    /// 3: the key is taken, and never valid again.
    KeyTaken,
    /// 3: Host has told Target.
    Referred,
    /// 4: the user is a member, and the access list lets him in.
    Admitted,
    /// 5: Target has built its end.
    Built,
    /// 6: Target has told Host.
    Authorized,
    /// 7 and 8: Host has told Client; the key is used.
    KeyUsed,
    /// 9: Client builds its end.
    Accepted,
    /// 10: the tunnel is up.
    Up,
    /// The tunnel is down.
    Ended,
    /// A tunnel could not be taken down. It is tried again.
    StillUp,
    /// A key that was taken has made no tunnel.
    KeyFailed,
    /// A request was refused. Without a key: only the refusals that were left out are told.
    Refused,
    /// A torn line was cut off the log.
    LogTorn,
    /// Lines are missing here that the disk did not take: so many as `unlogged` says.
    LogGap,
}

/// Why something was refused, has failed or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Another request has used the key.
    KeyUsed,
    /// The key was revoked.
    KeyRevoked,
    /// The key's time is over.
    KeyExpired,
    /// The clocks are too far apart.
    ClocksApart,
    /// The request names another user than the key.
    WrongUser,
    /// The signature is not by the key.
    WrongSignature,
    /// A message is not for us, or of an agent that we do not know.
    Misdirected,
    /// A body cannot be read.
    Unreadable,
    /// Client's back-end does not have the option.
    OptionNotAtClient,
    /// Target's back-end does not have the option.
    OptionNotAtTarget,
    /// Client's and Target's back-ends have no version of IKE in common.
    NoCommonVersion,
    /// The request wants a PPK, and Host has none of this key, or has not told Target.
    NoPpk,
    /// The other agent does not answer.
    NoAnswer,
    /// The user is no member.
    NotMember,
    /// The key is not one that Target has enrolled for the user.
    KeyNotEnrolled,
    /// The access list does not allow the option.
    NotAllowed,
    /// The request was served before a restart, or the key by another request.
    Replayed,
    /// Host has refused this very request before, and its key is not spent.
    RefusedBefore,
    /// The paper's own form, which is not allowed here.
    LegacyRefused,
    /// The database does not answer, is locked, full or gone.
    StoreUnavailable,
    /// The log cannot be written.
    LogUnavailable,
    /// The certificate was not made.
    NoCertificate,
    /// The back-end has refused.
    BackEndFailed,
    /// Target cannot build an end now.
    NotReady,
    /// Too much at a time.
    Busy,
    /// Host has as many tunnels at Target as it may have, or Target's pool is empty.
    NoRoom,
    /// Target has refused.
    TargetRefused,
    /// Host has refused.
    HostRefused,
    /// Target's part is not of the Target on the sheet, or not for this request.
    FalseTarget,
    /// Client has not come.
    NeverCame,
    /// Its time is over.
    TimeOver,
    /// The user has logged out, or the token is gone.
    LoggedOut,
    /// The other end has closed it.
    ClosedByPeer,
    /// An agent was restarted before it was done.
    Restarted,
    /// The administrator has said so.
    Administrator,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Calendar,
    /// Who says it.
    pub role: Role,
    /// What.
    pub step: Step,
    /// By which key.
    pub key: Option<Handle>,
    /// Which user.
    pub user: Option<String>,
    /// Of which Host, where several are known.
    pub host: Option<String>,
    /// To which Target.
    pub target: Option<Fingerprint>,
    /// Which tunnel.
    pub tunnel: Option<TunnelId>,
    /// With which option.
    pub option: Option<SecurityOption>,
    /// By which version of IKE.
    pub ike: Option<IkeVersion>,
    /// Whether IKE has the PPK of the key, where the version is known.
    pub has_ppk: bool,
    /// In which exchange IKE has taken it, once the back-end says so.
    pub ppk_exchange: Option<PpkExchange>,
    /// Until when.
    pub until: Option<Calendar>,
    /// Client's address inside.
    pub inner: Option<IpAddr>,
    /// Client's address outside.
    pub peer: Option<IpAddr>,
    /// What the tunnel leads to.
    pub networks: Vec<Network>,
    /// Why.
    pub why: Option<Why>,
    /// Refusals before this that have no line, because there were too many; or lines of any kind
    /// that could not be written.
    pub unlogged: u64,
}

impl Event {
    /// An event of which nothing more is known.
    pub fn new(at: Calendar, role: Role, step: Step) -> Self {
        Self {
            at,
            role,
            step,
            key: None,
            user: None,
            host: None,
            target: None,
            tunnel: None,
            option: None,
            ike: None,
            has_ppk: false,
            ppk_exchange: None,
            until: None,
            inner: None,
            peer: None,
            networks: Vec::new(),
            why: None,
            unlogged: 0,
        }
    }
}

/// `at=TIME role=host step=key-taken key=... user="..."`, without what is not known.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, step) = (Dashed(&self.role), Dashed(&self.step));
        write!(f, "at={} role={role} step={step}", self.at)?;
        let mut put = |name: &str, value: Option<&dyn fmt::Display>| match value {
            Some(value) => write!(f, " {name}={value}"),
            None => Ok(()),
        };
        let quoted = |text: &Option<String>| text.as_ref().map(|text| format!("{text:?}"));
        put("key", self.key.as_ref().map(|it| it as _))?;
        put("user", quoted(&self.user).as_ref().map(|it| it as _))?;
        put("host", quoted(&self.host).as_ref().map(|it| it as _))?;
        put("target", self.target.as_ref().map(|it| it as _))?;
        put("tunnel", self.tunnel.as_ref().map(|it| it as _))?;
        put("option", self.option.as_ref().map(|it| it as _))?;
        put(
            "ike",
            self.ike.map(IkeVersion::number).as_ref().map(|it| it as _),
        )?;
        let ppk = self.ike.map(|_| if self.has_ppk { "yes" } else { "no" });
        put("ppk", ppk.as_ref().map(|it| it as _))?;
        let exchange = self.ppk_exchange.as_ref().map(Dashed);
        put("ppk-in", exchange.as_ref().map(|it| it as _))?;
        put("until", self.until.as_ref().map(|it| it as _))?;
        put("inner", self.inner.as_ref().map(|it| it as _))?;
        put("peer", self.peer.as_ref().map(|it| it as _))?;
        let why = self.why.as_ref().map(Dashed);
        put("why", why.as_ref().map(|it| it as _))?;
        let unlogged = (self.unlogged > 0).then_some(self.unlogged);
        put("unlogged", unlogged.as_ref().map(|it| it as _))?;
        // The longest is the last: a line has an end.
        let networks = self.networks.iter();
        let networks = networks.map(|it| format!("{}/{}", it.address, it.prefix_len));
        let networks = networks.collect::<Vec<_>>().join(",");
        let networks = (!networks.is_empty()).then_some(networks);
        put("networks", networks.as_ref().map(|it| it as _))
    }
}

/// The name of a variant as a word of the log: `KeyTaken` is `key-taken`.
struct Dashed<'a, T: fmt::Debug>(&'a T);

impl<T: fmt::Debug> fmt::Display for Dashed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}", self.0);
        for (at, c) in name.char_indices() {
            if at > 0 && c.is_uppercase() {
                f.write_str("-")?;
            }
            write!(f, "{}", c.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_a_user_is_called() {
        let mut event = Event::new(Calendar(1_795_000_000), Role::Host, Step::KeyTaken);
        event.key = Some(Handle([0xab; 16]));
        event.user = Some("al\"ice\nuntil=9".into());
        event.option = Some(SecurityOption::AhEsp);
        event.ike = Some(IkeVersion::V2);
        event.has_ppk = true;
        event.ppk_exchange = Some(PpkExchange::IkeIntermediate);
        event.until = Some(Calendar(1_795_000_600));
        event.why = Some(Why::NeverCame);
        let line = event.to_string();
        assert_eq!(
            line,
            "at=2026-11-18T11:06:40Z role=host step=key-taken key=abababababababababababababababab \
             user=\"al\\\"ice\\nuntil=9\" option=AH+ESP ike=2 ppk=yes ppk-in=ike-intermediate \
             until=2026-11-18T11:16:40Z why=never-came"
        );
    }
}

//! Checks of a configuration: errors that keep it from running, and warnings that every user
//! interface should show.

use core::fmt;
use std::net::IpAddr;

use crypto::sign::KeyKind;

use super::{
    Child, ChildLayer, Connection, Encapsulation, IdentityPattern, LocalMethod, RemoteMethod,
    Version,
};
use crate::identity::{Breadth, Identity};
use crate::sa::{Mode, Protocol};
use crate::selector::TrafficSelector;
use crate::suite::Reason;

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it may run.
    pub severity: Severity,
    /// One sentence.
    pub text: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It runs, but the user should know.
    Warning,
    /// It does not run.
    Error,
}

/// RSA keys of fewer bits are legacy (NIST SP 800-131A).
const MIN_RSA_BITS: u32 = 2048;

impl Connection {
    /// All errors and warnings. Without an [`Severity::Error`] it can run.
    pub fn check(&self) -> Vec<Finding> {
        let mut found = Findings {
            is_legacy: self.is_legacy,
            all: Vec::new(),
        };
        if self.version.has_v1() {
            found.warning("IKEv1 is deprecated, RFC 9395".into());
            self.check_phase1(&mut found);
        }
        if self.version.has_v2() {
            self.check_ikev2(&mut found);
        }
        self.check_authentication(&mut found);
        self.check_eap(&mut found);
        if self.children.is_empty() {
            found.error("there is no child: nothing would be protected".into());
        }
        for child in &self.children {
            self.check_child(child, &mut found);
        }
        found.all
    }

    fn check_phase1(&self, found: &mut Findings) {
        if self.proposals.is_empty() {
            found.error("there is no proposal for phase 1".into());
        }
        for suite in &self.proposals {
            let reasons = suite.legacy_reasons();
            if !reasons.is_empty() {
                let reasons = listed(&reasons);
                found.legacy(format!("proposal {suite} ({reasons})"));
            }
        }
        // RFC 2409 §5: message 1 of aggressive mode carries one public value.
        let group = self.proposals.first().map(|suite| suite.group);
        let is_other = |suite: &super::IkeSuite| Some(suite.group) != group;
        if self.is_aggressive && self.begins() && self.proposals.iter().any(is_other) {
            found.warning("aggressive mode offers only the group of its first proposal".into());
        }
    }

    fn check_ikev2(&self, found: &mut Findings) {
        if self.ikev2_proposals.is_empty() {
            found.error("there is no proposal for the IKE SA".into());
        }
        for suite in &self.ikev2_proposals {
            let reasons = suite.legacy_reasons();
            if !reasons.is_empty() {
                let reasons = listed(&reasons);
                found.legacy(format!("proposal {suite} ({reasons})"));
            }
        }
        if !self.fragments
            && self
                .ikev2_proposals
                .iter()
                .any(|it| !it.additional.is_empty())
        {
            found.warning(
                "fragmentation = false: the public value of an additional key exchange travels in \
                 fragments of IP, which many networks drop"
                    .into(),
            );
        }
        if !self.fragments && self.has_ml_dsa() {
            found.warning(
                "fragmentation = false: IKE_AUTH with a certificate of ML-DSA has several times \
                 the octets of a datagram, and travels in fragments of IP, which many networks drop"
                    .into(),
            );
        }
        if self.version == Version::Either && self.begins() {
            found.error(
                "a connection that begins needs version = 1 or version = 2: it never falls back"
                    .into(),
            );
        }
    }

    /// Whether an end proves itself by a certificate of ML-DSA, or may.
    fn has_ml_dsa(&self) -> bool {
        let own = match &self.local.method {
            LocalMethod::Signature { chain, .. } => &chain[..],
            LocalMethod::PresharedKey(_) | LocalMethod::Eap(_) => &[],
        };
        let store = self.remote.method.trust_store();
        let trusted = store.map(|it| it.authorities.iter().chain(&it.pinned));
        let all = own.iter().chain(trusted.into_iter().flatten());
        let mut keys = all.filter_map(|it| it.signature_key().ok());
        keys.any(|key| matches!(key.kind(), KeyKind::MlDsa(_)))
    }

    fn check_authentication(&self, found: &mut Findings) {
        let is_preshared = matches!(self.local.method, LocalMethod::PresharedKey(_))
            || matches!(self.remote.method, RemoteMethod::PresharedKey(_));
        if is_preshared && self.is_aggressive {
            let text = "aggressive mode with a pre-shared key, which lets anyone guess the key \
                        offline";
            found.legacy(text.into());
        }
        if is_preshared && self.version.has_v1() && !self.is_aggressive && self.takes_many_peers() {
            found.warning(
                "a main-mode pre-shared key behind a NAT is a group key: each holder can pose as \
                 the gateway"
                    .into(),
            );
        }
        if let LocalMethod::Signature { key, .. } = &self.local.method {
            match key.kind() {
                KeyKind::Rsa { bits } if bits < MIN_RSA_BITS => {
                    found.legacy(format!("an RSA key of {bits} bits"));
                }
                KeyKind::Rsa { .. } => {}
                KeyKind::Ecdsa(_) | KeyKind::Ed25519 | KeyKind::MlDsa(_)
                    if self.version.has_v1() =>
                {
                    found
                        .error("IKEv1 signs with RSA keys only: version = 2 takes this one".into());
                }
                KeyKind::Ecdsa(_) | KeyKind::Ed25519 | KeyKind::MlDsa(_) => {}
            }
        }
        if let RemoteMethod::Signature(store) = &self.remote.method
            && self.begins()
            && store.pinned.is_empty()
        {
            self.check_gateway_names(found);
        }
        let is_signed = matches!(self.remote.method, RemoteMethod::Signature(_));
        for pattern in &self.remote.identities {
            if let IdentityPattern::Is(identity @ Identity::KeyId(_)) = pattern
                && is_signed
            {
                found.error(format!("no certificate proves the key ID {identity}"));
            }
        }
    }

    /// EAP is IKEv2's, the client's proof alone, and believed only of and by a certificate.
    fn check_eap(&self, found: &mut Findings) {
        self.check_eap_only(found);
        let logs_in = matches!(self.local.method, LocalMethod::Eap(_));
        let examines = matches!(self.remote.method, RemoteMethod::Eap(_));
        if !logs_in && !examines {
            return;
        }
        if self.version != Version::V2 {
            found.error("EAP is IKEv2's: version = 2".into());
        }
        if logs_in && !self.begins() {
            found.error(
                "a gateway proves itself by a certificate: EAP is for its clients, remote auth = \
                 \"eap\"; with \"eap-tls\" at both ends it does that within TLS alone"
                    .into(),
            );
        }
        if examines && self.begins() {
            found.error(
                "a gateway proves itself by a certificate: EAP is for us, local auth = \"eap\"; \
                 with \"eap-tls\" at both ends the gateway does that within TLS alone"
                    .into(),
            );
        }
        if logs_in && !matches!(self.remote.method, RemoteMethod::Signature(_)) {
            found.error(
                "a password is sent only to a gateway that has proven itself by a certificate: \
                 remote auth = \"pubkey\""
                    .into(),
            );
        }
        if examines && !matches!(self.local.method, LocalMethod::Signature { .. }) {
            found.error(
                "clients send a password only to a gateway with a certificate: local auth = \
                 \"pubkey\""
                    .into(),
            );
        }
        if let RemoteMethod::Eap(examiner) = &self.remote.method
            && examiner.users.as_ref().is_some_and(|it| it.is_empty())
            && examiner.trusted.is_none()
            && !examiner.asks_servers
        {
            let text = "there is no user yet: `caravan user add NAME --file FILE` adds one to the \
                        file of `users`";
            found.warning(text.into());
        }
    }

    /// EAP alone proves both ends only by a method that does not rest on a password (RFC 5998 §4).
    fn check_eap_only(&self, found: &mut Findings) {
        let is_safe = match (&self.local.method, &self.remote.method) {
            (LocalMethod::Eap(login), RemoteMethod::Signature(_)) => login.is_safe_alone(),
            (LocalMethod::Signature { .. }, RemoteMethod::Eap(examiner)) => {
                examiner.is_safe_alone()
            }
            _ => false,
        };
        if self.is_eap_only && !is_safe {
            found.error(
                "EAP alone needs a method that proves both ends by certificates: auth = \
                 \"eap-tls\" of both, or a gateway that proves itself first"
                    .into(),
            );
        }
    }

    /// Whether a client accepts as its gateway any holder of a certificate from an authority that
    /// also certifies clients.
    fn check_gateway_names(&self, found: &mut Findings) {
        let remedy = "name the gateway, such as remote id = \"sg.example\", or pin its \
                      certificate with remote certs";
        for pattern in &self.remote.identities {
            match pattern.breadth() {
                Breadth::One => {}
                Breadth::Some => found.warning(format!(
                    "every client with a certificate for {pattern} can pose as the gateway: \
                     {remedy}"
                )),
                Breadth::All => found.error(format!(
                    "a client that accepts any identity of an authority accepts every other \
                     client as the gateway: {remedy}"
                )),
            }
        }
    }

    fn check_child(&self, child: &Child, found: &mut Findings) {
        let name = &child.name;
        if child.proposals.is_empty() {
            found.error(format!("child {name} has no proposal"));
        }
        for suite in &child.proposals {
            let reasons = suite.legacy_reasons();
            if !reasons.is_empty() {
                let reasons = listed(&reasons);
                found.legacy(format!("proposal {suite} of child {name} ({reasons})"));
            }
        }
        self.check_version(child, found);
        let is_ah = |suite: &super::EspSuite| suite.protocol == Protocol::Ah;
        if self.encapsulation == Encapsulation::Always && child.proposals.iter().any(is_ah) {
            found.error(format!(
                "child {name} proposes AH, which cannot be encapsulated in UDP"
            ));
        }
        if child.proposals.iter().any(is_ah) && !child.proposals.iter().all(is_ah) {
            found.warning(format!(
                "child {name} proposes ESP and AH: the peer chooses one of them, never both; \
                 remove esp_proposals or ah_proposals"
            ));
        }
        if child.mode == Mode::Tunnel {
            check_families(child, found);
        }
        if self.begins() && child.mode == Mode::Tunnel {
            self.check_reach(child, found);
        }
        let is_lent = !self.begins() && !self.pools.is_empty() && child.mode == Mode::Tunnel;
        // AH around ESP carries what the child inside names.
        if is_lent && child.local.is_empty() && child.layer != ChildLayer::Around {
            found.warning(format!(
                "child {name} has no local_ts: clients reach only this gateway's own address; \
                 name the networks behind it, such as local_ts = [\"10.10.0.0/24\"]"
            ));
        }
        self.check_claims(child, found);
        let has_esp = !child.proposals.iter().all(is_ah);
        let needs_pool = child.mode == Mode::Transport && has_esp && self.takes_many_peers();
        if needs_pool && self.pools.is_empty() {
            found.error(format!(
                "child {name} in transport mode needs a pool: behind one NAT two clients may \
                 have the same address (RFC 3948 §5.2)"
            ));
        }
    }

    /// What the version of IKE cannot negotiate.
    fn check_version(&self, child: &Child, found: &mut Findings) {
        let name = &child.name;
        for suite in &child.proposals {
            match self.version {
                Version::V1 if !suite.is_for_ikev1() => found.error(format!(
                    "proposal {suite} of child {name} has a key exchange that IKEv1 does not \
                     have: take one of a MODP group or curve25519, or remove version = 1"
                )),
                Version::V2 if !suite.is_for_ikev2() => found.error(format!(
                    "proposal {suite} of child {name} has a group below 2048 bits, which is \
                     IKEv1's: add version = 1, or name another one such as curve25519"
                )),
                _ => {}
            }
        }
        let mut selectors = child.local.iter().chain(&child.remote);
        let is_range = |it: &&TrafficSelector| it.ports.to_ikev1().is_none();
        let range = selectors.find(is_range).filter(|_| self.version.has_v1());
        if let Some(range) = range {
            found.error(format!(
                "child {name} has the range of ports {range}, which IKEv1 cannot name: remove \
                 version, or write one port or none"
            ));
        }
    }

    /// Several peers may each have a part of one range.
    fn check_claims(&self, child: &Child, found: &mut Findings) {
        let name = &child.name;
        if child.mode == Mode::Tunnel && !child.remote.is_empty() && self.takes_many_peers() {
            let ranges: Vec<String> = child.remote.iter().map(ToString::to_string).collect();
            found.warning(format!(
                "child {name} lets every peer that remote.id accepts ask for any part of \
                 remote_ts {}: the first peer that asks for a network gets it, and others are \
                 refused; write one connection for each peer, or remove remote_ts and use a pool",
                ranges.join(", ")
            ));
        }
    }

    /// What a client's tunnel leads to, and the source address inside.
    fn check_reach(&self, child: &Child, found: &mut Findings) {
        let name = &child.name;
        if child.remote.is_empty() {
            found.warning(format!(
                "child {name} has no remote_ts: its tunnel reaches only the gateway's own \
                 address; name the networks behind it, such as remote_ts = [\"10.10.0.0/24\"]"
            ));
        }
        if !child.local.is_empty() {
            return;
        }
        let wants = self.wants_inner;
        if !wants.is_any() {
            found.warning(format!(
                "child {name} has neither vips nor local_ts: its packets come from this \
                 machine's own address, which few gateways accept; vips = [\"0.0.0.0\"] asks for \
                 an inner address"
            ));
            return;
        }
        let is_without = |selector: &&TrafficSelector| match selector.first {
            IpAddr::V4(_) => !wants.v4,
            IpAddr::V6(_) => !wants.v6,
        };
        if let Some(without) = child.remote.iter().find(is_without) {
            let any = if wants.v4 { "::" } else { "0.0.0.0" };
            let text = format!(
                "child {name} has remote_ts {without}, but vips asks for no address of that \
                 family: no traffic goes there; vips = [\"0.0.0.0\", \"::\"] asks for both, \
                 \"{any}\" is missing"
            );
            match child.remote.iter().all(|it| is_without(&it)) {
                true => found.error(text),
                false => found.warning(text),
            }
        }
    }

    fn begins(&self) -> bool {
        !self.remote_addrs.is_empty()
    }

    /// Whether several peers can be connected at the same time: a gateway that accepts more than
    /// one identity.
    pub(crate) fn takes_many_peers(&self) -> bool {
        let is_one = matches!(self.remote.identities.as_slice(), [one] if one.is_exact());
        !self.begins() && !is_one
    }
}

/// Networks that nothing on the other side can reach, because IPv4 and IPv6 do not mix.
/// Reasons in one line.
fn listed(reasons: &[Reason]) -> String {
    let texts: Vec<String> = reasons.iter().map(Reason::to_string).collect();
    texts.join("; ")
}

fn check_families(child: &Child, found: &mut Findings) {
    let (name, local, remote) = (&child.name, &child.local, &child.remote);
    if local.is_empty() || remote.is_empty() {
        return;
    }
    let sides = [
        ("local_ts", local, "remote_ts", remote),
        ("remote_ts", remote, "local_ts", local),
    ];
    for (key, own, other, others) in sides {
        let is_alone = |own: &&TrafficSelector| !others.iter().any(|it| it.is_of_family(own));
        let Some(alone) = own.iter().find(is_alone) else {
            continue;
        };
        let text = format!(
            "child {name}: {key} {alone} has an address family that {other} does not have: no \
             packet goes from IPv4 to IPv6 or back"
        );
        if own.iter().all(|it| is_alone(&it)) {
            return found.error(text);
        }
        found.warning(text);
    }
}

struct Findings {
    is_legacy: bool,
    all: Vec<Finding>,
}

impl Findings {
    fn error(&mut self, text: String) {
        let severity = Severity::Error;
        self.all.push(Finding { severity, text });
    }

    fn warning(&mut self, text: String) {
        let severity = Severity::Warning;
        self.all.push(Finding { severity, text });
    }

    /// Reports what only a configuration with `legacy = true` may have.
    fn legacy(&mut self, what: String) {
        if self.is_legacy {
            self.warning(format!("insecure, permitted by legacy = true: {what}"));
        } else {
            self.error(format!("legacy = true is needed for {what}"));
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{word}: {}", self.text)
    }
}

#[cfg(test)]
mod tests;

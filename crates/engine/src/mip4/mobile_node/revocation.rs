//! Revocation of a co-located node's registration by its home agent (RFC 3543 §4.2.2.3).

use std::net::SocketAddrV4;

use wire::mip4::{
    Authentication, Extension, Located, Request, RequestFlags, Revocation, extensions,
};

use super::{INTERVAL_MIN, MobileNode, Output, State};
use crate::mip4::revocation::{self, Agreement, Fault};
use crate::time::Instant;

impl MobileNode {
    /// What a request says about revocation. Only one that goes from a co-located node to its home
    /// agent itself says something (RFC 3543 §3.2).
    pub(super) fn revocation_support(&self, request: &Request, now: Instant) -> Option<Extension> {
        let is_direct = request.flags.has(RequestFlags::DECAPSULATES) && self.through.is_none();
        let is_wanted = self.config.hears_revocations && request.lifetime > 0;
        (is_direct && is_wanted).then(|| Extension::RevocationSupport {
            informs: false,
            timestamp: revocation::timestamp(self.clock, now),
        })
    }

    /// What an authentic reply has agreed on, of whose extensions these are the home agent's.
    pub(super) fn agreed(
        &self,
        request: &Request,
        signed: &[&Located],
        sent: Instant,
    ) -> Option<Agreement> {
        self.revocation_support(request, sent)?;
        let (_, timestamp) = revocation::support(signed.iter().copied())?;
        Some(Agreement {
            has_inform: false,
            timestamp,
            said: sent,
        })
    }

    /// A revocation, whose extensions begin at `at`.
    pub(super) fn hear_revocation(
        &mut self,
        it: &Revocation,
        at: usize,
        from: SocketAddrV4,
        payload: &[u8],
        now: Instant,
    ) {
        let Ok(list) = extensions(payload, at) else {
            self.ignored.malformed += 1;
            return;
        };
        match self.check_revocation(it, payload, &list) {
            Ok(()) => self.obey(it, from, now),
            Err(Fault::NotAuthenticated) => self.ignored.unauthenticated += 1,
            Err(Fault::Stale) => self.ignored.stale += 1,
            Err(_) => self.ignored.unexpected += 1,
        }
    }

    fn check_revocation(
        &self,
        it: &Revocation,
        payload: &[u8],
        list: &[Located],
    ) -> Result<(), Fault> {
        if !it.is_from_home_agent {
            return Err(Fault::Reflected);
        }
        let own = &self.config.associations;
        revocation::authenticate(payload, list, Authentication::MobileHome, own)?;
        let (State::Registered { tunnel, .. }, Some(agreement)) = (self.state, self.agreement)
        else {
            return Err(Fault::NoBinding);
        };
        let config = &self.config;
        let is_ours = (it.home_address, it.home_domain) == (config.home_address, config.home_agent);
        if !is_ours || it.foreign_domain != tunnel.care_of {
            return Err(Fault::WrongAddress);
        }
        agreement.precedes(it.identifier)
    }

    /// Acknowledges, forgets the registration, and asks for another one.
    fn obey(&mut self, it: &Revocation, from: SocketAddrV4, now: Instant) {
        let own = self.config.associations.first();
        let between = Authentication::MobileHome;
        self.outputs.push_back(Output::Send {
            from: it.foreign_domain,
            to: from,
            ttl: None,
            firewall: self.firewall(),
            payload: revocation::acknowledgment(it, true, between, own),
        });
        self.outputs.push_back(Output::Revoked);
        self.lose();
        if self.pending.is_none() {
            self.renewal = Some((now + INTERVAL_MIN, Instant(u64::MAX)));
        }
    }
}

//! The pool address that represents a peer of transport mode to our own stack: one per address
//! family for all its children, as long as it has a session. Without a free one the peer is
//! refused, because our stack would know it by its source address, which other peers may have too.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::Node;
use super::super::leases::Purpose;
use super::super::session_id::SessionId;
use crate::config::Connection;
use crate::ike::Fault;

impl Node {
    /// The address that represents the peer of a session, in the family of its path. `Ok(None)`:
    /// the connection has no pools.
    pub(super) fn stand_in(
        &mut self,
        id: SessionId,
        connection: &Arc<Connection>,
    ) -> Result<Option<IpAddr>, Fault> {
        if connection.pools.is_empty() {
            return Ok(None);
        }
        let home = self.sessions.heir_of(id);
        let session = &self.sessions[&home];
        let is_v4 = session.path().local.is_ipv4();
        let of_family = |held: &[IpAddr]| held.iter().find(|it| it.is_ipv4() == is_v4).copied();
        if let Some(own) = of_family(&session.held.stand_ins) {
            return Ok(Some(own));
        }
        let siblings = self.siblings(home).into_iter();
        let mut held = siblings.filter_map(|it| of_family(&self.sessions.get(&it)?.held.stand_ins));
        let address = match held.next() {
            Some(shared) => {
                self.leases.share(shared);
                shared
            }
            None => self.lend_stand_in(home, connection, is_v4)?,
        };
        if let Some(session) = self.sessions.get_mut(&home) {
            session.held.stand_ins.push(address);
        }
        Ok(Some(address))
    }

    fn lend_stand_in(
        &mut self,
        id: SessionId,
        connection: &Arc<Connection>,
        is_v4: bool,
    ) -> Result<IpAddr, Fault> {
        let config = self.config.clone();
        let mut pools = connection
            .pools
            .iter()
            .filter_map(|it| config.pools.get(*it));
        let pool = pools.find(|pool| pool.first.is_ipv4() == is_v4);
        let peer = self.sessions[&id].ike.identity();
        let lent = pool
            .zip(peer)
            .and_then(|(pool, peer)| self.leases.lend(pool, peer, Purpose::StandIn, None));
        lent.ok_or_else(|| {
            let family = if is_v4 { "IPv4" } else { "IPv6" };
            let why = match pool {
                Some(pool) => format!("pool {} is exhausted", pool.name),
                None => format!("its connection has no pool of {family}"),
            };
            let peer = peer.map(ToString::to_string).unwrap_or_default();
            Fault::NothingToLend(format!(
                "{peer} asks for transport mode, but no pool address is free for it: {why}"
            ))
        })
    }
}

//! The table of stations. A station keeps its number as long as the node exists.

use core::ops::{Index, IndexMut};
use std::net::IpAddr;

use super::{State, Station};
use crate::ikev2::Ticket;
use crate::node::session_id::SessionId;
use crate::sa::ChildId;

/// All stations of a node, including retired ones.
#[derive(Default)]
pub(in crate::node) struct Stations(Vec<Station>);

impl Stations {
    /// Adds a station, and returns its number.
    pub(super) fn add(&mut self, station: Station) -> usize {
        self.0.push(station);
        self.0.len() - 1
    }

    pub(in crate::node) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::node) fn iter(&self) -> impl Iterator<Item = &Station> {
        self.0.iter()
    }

    /// The stations of a connection that are not retired.
    pub(super) fn named(&self, name: &str) -> Vec<usize> {
        let is_named = |i: &usize| !self[*i].is_retired && self[*i].connection.name == name;
        (0..self.0.len()).filter(is_named).collect()
    }

    /// The station whose peer has authenticated in this session.
    pub(in crate::node) fn of_session(&self, id: SessionId) -> Option<usize> {
        self.find(|station| station.state.session() == Some(id))
    }

    /// The station that races with this exchange.
    pub(in crate::node) fn of_racer(&self, id: SessionId) -> Option<usize> {
        self.find(|station| station.race.has(id))
    }

    /// The station whose session this exchange renews.
    pub(super) fn of_renewal(&self, id: SessionId) -> Option<usize> {
        self.find(|station| station.renewal == Some(id))
    }

    /// The station that keeps this child up.
    pub(in crate::node) fn of_child(&self, child: ChildId) -> Option<usize> {
        self.find(|station| station.children.contains(&child))
    }

    /// The sessions of stations whose peer has authenticated.
    pub(in crate::node) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.0.iter().filter_map(|station| station.state.session())
    }

    /// A session took over from another one.
    pub(super) fn follow(&mut self, old: SessionId, new: SessionId) {
        let up = self.0.iter_mut();
        for station in up.filter(|station| station.state == State::Up(old)) {
            station.state = State::Up(new);
        }
    }

    /// A station's session was lost: its next one goes on from it at this address.
    pub(in crate::node) fn keep_ticket(&mut self, index: usize, at: IpAddr, ticket: Box<Ticket>) {
        self[index].ticket = Some((at, ticket));
    }

    /// The ticket of the connection's station for a gateway at this address.
    pub(in crate::node) fn take_ticket(&mut self, name: &str, at: IpAddr) -> Option<Box<Ticket>> {
        let mut own = self.0.iter_mut();
        let station = own.find(|it| !it.is_retired && it.connection.name == name)?;
        let (_, ticket) = station.ticket.take_if(|(own, _)| *own == at)?;
        Some(ticket)
    }

    fn find(&self, is_it: impl Fn(&Station) -> bool) -> Option<usize> {
        self.0.iter().position(is_it)
    }
}

impl Index<usize> for Stations {
    type Output = Station;

    fn index(&self, number: usize) -> &Station {
        &self.0[number]
    }
}

impl IndexMut<usize> for Stations {
    fn index_mut(&mut self, number: usize) -> &mut Station {
        &mut self.0[number]
    }
}

//! How large outer packets may be on the path of each outbound child, and which source says so.
//!
//! There are five sources, and the smallest value counts: what the SA allows, what our own link
//! carries, what a router proved with a report (RFC 1191, RFC 8201), what an unproven report
//! claims, and what silently lost large packets show (`stall.rs`).
//!
//! An ICMP report is proven if it quotes the SPI and a recent sequence number, because nobody off
//! the path knows both. A report that quotes too little for that, as RFC 792 allows, can lower a
//! path only to [`LEAST_CLAIM`] and only for [`CLAIM_HOLDS`], so forging it gains little. A report
//! that quotes a packet that we did not send is ignored. A raw tunnel of Mobile IPv4 has no such
//! numbers, nor has SKIP: its report is proven by the identification of one of its last large
//! packets, which is drawn at random. A tunnel in UDP has nothing to prove a report with.
//!
//! A nested SA's own link is the SA that carries it on.
//!
//! Searching the path with probes (RFC 8899) is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use wire::ip::protocol::{AH, ESP, SKIP};

use crate::sa::{ChildId, Encapsulation, Path, Sa, Via};
use crate::time::{Duration, Instant};

/// What every IPv4 host accepts (RFC 791 §3.1). No path goes below it.
const LEAST_V4: u16 = 576;
/// What every IPv6 link carries (RFC 8200 §5).
pub(crate) const LEAST_V6: u16 = 1_280;
/// An unproven claim cannot go lower.
pub const LEAST_CLAIM: u16 = 1_280;
/// An unproven claim counts this long.
pub const CLAIM_HOLDS: Duration = Duration::from_secs(10);
/// A proven report counts this long (RFC 1191 §6.3); a small link is asked again as late.
pub const REPORT_HOLDS: Duration = Duration::from_secs(600);
/// A quoted sequence number is recent if no more packets than this were sealed after it.
pub const RECENT_PACKETS: u32 = 1 << 16;

/// An ICMP report that a datagram of ours did not fit: "fragmentation needed" or "packet too big".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig<'a> {
    /// Where the datagram was going; the port is 0 if it was raw.
    pub remote: SocketAddr,
    /// How it travelled.
    pub via: Via,
    /// What is said to fit; 0: an old router that does not say (RFC 1191 §5).
    pub mtu: u32,
    /// What the report quotes: of UDP its payload, else the packet from its IP header on.
    pub quoted: &'a [u8],
}

/// The least that a path is believed to carry.
pub(crate) fn least(is_v6: bool) -> u16 {
    if is_v6 { LEAST_V6 } else { LEAST_V4 }
}

impl TooBig<'_> {
    /// SPI and sequence number, if so much is quoted.
    pub(crate) fn numbers(&self) -> Option<(u32, u32)> {
        let (protocol, at) = match self.via {
            Via::Udp | Via::UdpWithMarker => (ESP, 0),
            Via::UdpWithType | Via::UdpWithSkip => return None,
            Via::Raw => quoted_payload(self.quoted)?,
        };
        // AH: next header, length and a reserved field come first (RFC 4302 §2).
        let at = if protocol == AH { at + 4 } else { at };
        let word = |at: usize| {
            let octets = self.quoted.get(at..at + 4)?;
            octets.try_into().ok().map(u32::from_be_bytes)
        };
        Some((word(at)?, word(at + 4)?))
    }
}

/// The protocol of a raw tunnel's packet, or of SKIP's, and its identification, if that is what a
/// report quotes.
pub(crate) fn quoted_raw(via: Via, quoted: &[u8]) -> Option<(u8, u16)> {
    let is_whole = matches!(via, Via::Raw | Via::UdpWithSkip);
    let is_v4 = is_whole && quoted.first()? >> 4 == 4;
    let protocol = *quoted.get(9).filter(|_| is_v4)?;
    let is_known = protocol == SKIP || Encapsulation::of(protocol).is_some();
    is_known.then(|| (protocol, u16::from_be_bytes([quoted[4], quoted[5]])))
}

/// The packet inside of a quoted one, if that is IP in IP or plain GRE (RFC 2784 §2). It is cut
/// off somewhere.
pub(crate) fn quoted_inner(quoted: &[u8]) -> Option<&[u8]> {
    const PLAIN_GRE: [u8; 4] = [0, 0, 8, 0];
    let payload = quoted.get(usize::from(quoted.first()? & 15) * 4..)?;
    match Encapsulation::of(*quoted.get(9)?)? {
        Encapsulation::IpInIp => Some(payload),
        Encapsulation::Gre => payload.strip_prefix(&PLAIN_GRE),
        Encapsulation::Minimal => None,
    }
}

/// Protocol and place of what follows the quoted IP header, if that is ESP or AH. A quotation is
/// cut off somewhere: its length says nothing.
fn quoted_payload(quoted: &[u8]) -> Option<(u8, usize)> {
    let (protocol, at) = match quoted.first()? >> 4 {
        4 => {
            let offset = u16::from_be_bytes(quoted.get(6..8)?.try_into().ok()?) & 0x1fff;
            // A later fragment has no header of ours.
            let protocol = *quoted.get(9).filter(|_| offset == 0)?;
            (protocol, usize::from(quoted[0] & 15) * 4)
        }
        6 => (*quoted.get(6)?, 40),
        _ => return None,
    };
    [ESP, AH].contains(&protocol).then_some((protocol, at))
}

/// What lowers a path for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A proven report.
    Report,
    /// A report without proof.
    Claim,
    /// Large packets are lost and nobody says so.
    Silence,
}

impl Why {
    const COUNT: usize = Self::Silence as usize + 1;
}

/// A size, and until when it counts.
#[derive(Clone, Copy)]
struct Lowered {
    mtu: u16,
    until: Instant,
}

/// One child's path.
struct Known {
    path: Path,
    /// What its SA allows.
    most: u16,
    /// What our own link carries, or the SA that a nested one goes through.
    link: u16,
    is_nested: bool,
    /// What lowers it; of most paths nothing.
    lowered: Option<Box<[Option<Lowered>; Why::COUNT]>>,
    spis: Vec<u32>,
    /// When our link is to be asked for: its place in [`PathSizes::to_ask`].
    ask_at: Option<Instant>,
    /// When the first of `lowered` ends: its place in [`PathSizes::to_grow`].
    grows_at: Option<Instant>,
}

impl Known {
    fn least(&self) -> u16 {
        least(self.path.remote.is_ipv6())
    }

    fn lowered(&self) -> impl Iterator<Item = Lowered> {
        self.lowered.iter().flat_map(|all| **all).flatten()
    }

    fn lowered_by(&mut self, why: Why) -> &mut Option<Lowered> {
        &mut self.lowered.get_or_insert_default()[why as usize]
    }

    /// The largest outer packet.
    fn mtu(&self) -> u16 {
        let lowered = self.lowered().map(|lowered| lowered.mtu);
        lowered
            .fold(self.most.min(self.link), u16::min)
            .max(self.least())
    }
}

/// The paths of outbound SAs: a child's is known as long as it has one.
#[derive(Default)]
pub(crate) struct PathSizes {
    /// Boxed: a tree of ever newer keys is half empty.
    children: BTreeMap<ChildId, Box<Known>>,
    /// By where packets go and the peer's SPI, as a report quotes them. Tunnels may share both.
    by_spi: BTreeSet<(SocketAddr, u32, ChildId)>,
    to_ask: BTreeSet<(Instant, ChildId)>,
    to_grow: BTreeSet<(Instant, ChildId)>,
}

impl PathSizes {
    /// A new SA: what is known of its child's path stays. Returns what the path carries.
    pub(crate) fn install(&mut self, sa: &Sa) -> u16 {
        let former = self.forget(sa.child);
        let is_same = |known: &Known| known.path.remote.ip() == sa.path.remote.ip();
        let (mut spis, lowered) = match former {
            Some(known) if is_same(&known) => (known.spis, known.lowered),
            Some(known) => (known.spis, None),
            None => (Vec::new(), None),
        };
        spis.retain(|spi| *spi != sa.spi());
        spis.push(sa.spi());
        let known = Known {
            path: sa.path,
            most: sa.path_mtu,
            link: u16::MAX,
            is_nested: sa.is_nested,
            lowered,
            spis,
            ask_at: has_link(&sa.path, sa.is_nested).then_some(Instant(0)),
            grows_at: None,
        };
        self.keep(sa.child, known)
    }

    /// The packets of this child take a new path, of which nothing is known. Returns what it
    /// carries.
    pub(crate) fn follow(&mut self, child: ChildId, path: Path) -> Option<u16> {
        let known = self.children.get(&child)?;
        let (travels, is_nested) = (known.path, known.is_nested);
        self.lead(child, travels.led_to(path), is_nested)
    }

    /// The same, of a path that may travel otherwise.
    pub(crate) fn lead(&mut self, child: ChildId, path: Path, is_nested: bool) -> Option<u16> {
        let known = self.forget(child)?;
        let is_same = known.path.remote.ip() == path.remote.ip();
        let known = Known {
            path,
            link: u16::MAX,
            is_nested,
            lowered: known.lowered.filter(|_| is_same),
            ask_at: has_link(&path, is_nested).then_some(Instant(0)),
            ..known
        };
        Some(self.keep(child, known))
    }

    pub(crate) fn remove(&mut self, child: ChildId, spi: u32) {
        let Some(mut known) = self.forget(child) else {
            return;
        };
        known.spis.retain(|own| *own != spi);
        if !known.spis.is_empty() {
            self.keep(child, known);
        }
    }

    /// What our own link towards the peer of this child carries. Returns what the path does.
    pub(crate) fn link(&mut self, child: ChildId, mtu: u16, now: Instant) -> Option<u16> {
        self.change(child, |known| {
            known.link = mtu;
            let is_asked = mtu < known.most && has_link(&known.path, known.is_nested);
            known.ask_at = is_asked.then(|| now + REPORT_HOLDS);
        })
    }

    /// What its link is known to carry.
    pub(crate) fn link_of(&self, child: ChildId) -> Option<u16> {
        self.children.get(&child).map(|known| known.link)
    }

    /// Our link towards this peer carries less than we believed: ask for it.
    pub(crate) fn doubt_link(&mut self, remote: SocketAddr) {
        for child in self.of_peer(remote) {
            self.change(child, |known| {
                known.ask_at = (!known.is_nested).then_some(Instant(0));
            });
        }
    }

    /// A child whose link is to be asked for; it is asked for again if nobody knew.
    pub(crate) fn next_asked(&mut self, now: Instant) -> Option<(ChildId, Path)> {
        let (_, child) = *self.to_ask.first().filter(|(at, _)| *at <= now)?;
        self.change(child, |known| known.ask_at = Some(now + REPORT_HOLDS));
        self.children.get(&child).map(|known| (child, known.path))
    }

    /// A child with a report whose time is over, and what its path carries then.
    pub(crate) fn next_grown(&mut self, now: Instant) -> Option<(ChildId, u16)> {
        let (_, child) = *self.to_grow.first().filter(|(at, _)| *at <= now)?;
        let mtu = self.change(child, |known| {
            for lowered in known.lowered.iter_mut().flat_map(|all| &mut **all) {
                lowered.take_if(|lowered| lowered.until <= now);
            }
        })?;
        Some((child, mtu))
    }

    /// The child whose packet a report quotes.
    pub(crate) fn child_of(&self, remote: SocketAddr, spi: u32) -> Option<ChildId> {
        let all = (remote, spi, ChildId(0))..=(remote, spi, ChildId(u32::MAX));
        self.by_spi.range(all).next().map(|place| place.2)
    }

    /// The children whose packets go there.
    pub(crate) fn of_peer(&self, remote: SocketAddr) -> Vec<ChildId> {
        let all = (remote, 0, ChildId(0))..=(remote, u32::MAX, ChildId(u32::MAX));
        let mut children: Vec<ChildId> = self.by_spi.range(all).map(|place| place.2).collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// The path of a child is said to carry `mtu`. Returns that if it is less than was believed.
    pub(crate) fn lower(
        &mut self,
        child: ChildId,
        mtu: u32,
        why: Why,
        now: Instant,
    ) -> Option<u16> {
        let known = self.children.get(&child)?;
        let (least, holds) = match why {
            Why::Report => (known.least(), REPORT_HOLDS),
            Why::Claim => (LEAST_CLAIM, CLAIM_HOLDS),
            Why::Silence => (LEAST_CLAIM, REPORT_HOLDS),
        };
        let mtu = match mtu {
            0 => LEAST_CLAIM,
            mtu => u16::try_from(mtu).unwrap_or(u16::MAX).max(least),
        };
        if mtu >= known.mtu() {
            return None;
        }
        let former = known.lowered.as_ref().and_then(|all| all[why as usize]);
        // A claim that follows a claim does not make it last.
        let until = match (why, former) {
            (Why::Claim, Some(former)) => former.until,
            _ => now + holds,
        };
        self.change(child, |known| {
            *known.lowered_by(why) = Some(Lowered { mtu, until });
        })
    }

    /// A report was wrong. Returns what the path carries without it.
    pub(crate) fn take_back(&mut self, child: ChildId, why: Why) -> Option<u16> {
        self.change(child, |known| *known.lowered_by(why) = None)
    }

    /// Changes what is known of a child's path. Returns what the path carries.
    fn change(&mut self, child: ChildId, change: impl FnOnce(&mut Known)) -> Option<u16> {
        let known = self.children.get_mut(&child)?;
        let (asked_at, grew_at) = (known.ask_at, known.grows_at);
        change(known);
        let ends = known.lowered().map(|lowered| lowered.until);
        known.grows_at = ends.min();
        renew(&mut self.to_ask, child, asked_at, known.ask_at);
        renew(&mut self.to_grow, child, grew_at, known.grows_at);
        Some(known.mtu())
    }

    /// Takes in a child that is in none of the tables.
    fn keep(&mut self, child: ChildId, known: Known) -> u16 {
        let (remote, ask_at) = (known.path.remote, known.ask_at);
        let places = known.spis.iter().map(|spi| (remote, *spi, child));
        self.by_spi.extend(places);
        let out_of_tables = Known {
            ask_at: None,
            grows_at: None,
            ..known
        };
        self.children.insert(child, Box::new(out_of_tables));
        let mtu = self.change(child, |known| known.ask_at = ask_at);
        mtu.unwrap_or(u16::MAX)
    }

    fn forget(&mut self, child: ChildId) -> Option<Known> {
        let known = self.children.remove(&child)?;
        for spi in &known.spis {
            self.by_spi.remove(&(known.path.remote, *spi, child));
        }
        renew(&mut self.to_ask, child, known.ask_at, None);
        renew(&mut self.to_grow, child, known.grows_at, None);
        Some(*known)
    }
}

/// Whether there is one link towards the other end, whose size the owner can tell.
fn has_link(path: &Path, is_nested: bool) -> bool {
    !is_nested && !path.remote.ip().is_unspecified()
}

/// Gives a child another place in a table.
fn renew(
    table: &mut BTreeSet<(Instant, ChildId)>,
    child: ChildId,
    from: Option<Instant>,
    to: Option<Instant>,
) {
    if from != to {
        if let Some(from) = from {
            table.remove(&(from, child));
        }
        table.extend(to.map(|to| (to, child)));
    }
}

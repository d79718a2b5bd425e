//! Agent Advertisement and Solicitation: ICMP router discovery (RFC 1256 §3) with the extensions
//! of RFC 5944 §2.1.

use std::net::Ipv4Addr;

use crate::codec::{Malformed, Reader, Writer};
use crate::ip::checksum::checksum;

/// Router addresses that one advertisement may hold: its counter has one octet.
pub const MAX_ROUTERS: usize = 255;

/// Care-of addresses that one advertisement may hold: the extension's length has one octet.
pub const MAX_CARE_OF_ADDRESSES: usize = 62;

/// A router and how much it is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its address on this link.
    pub address: Ipv4Addr,
    /// Higher is better.
    pub preference: i32,
    /// The prefix of its network, from the Prefix-Lengths extension.
    pub prefix_len: Option<u8>,
}

/// Flags of a mobility agent. Reserved bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AgentFlags(pub u16);

impl AgentFlags {
    /// R: registration through a foreign agent is required.
    pub const REGISTRATION_REQUIRED: u16 = 0x8000;
    /// B: no new visitors.
    pub const BUSY: u16 = 0x4000;
    /// H: home agent on this link.
    pub const HOME_AGENT: u16 = 0x2000;
    /// F: foreign agent on this link.
    pub const FOREIGN_AGENT: u16 = 0x1000;
    /// M: minimal encapsulation.
    pub const MINIMAL: u16 = 0x0800;
    /// G: GRE.
    pub const GRE: u16 = 0x0400;
    /// T: reverse tunnels.
    pub const REVERSE_TUNNEL: u16 = 0x0100;
    /// U: tunnels in UDP.
    pub const UDP_TUNNEL: u16 = 0x0080;
    /// X: revocation.
    pub const REVOCATION: u16 = 0x0040;

    /// Those of these flags that are set.
    pub fn of(flags: &[(bool, u16)]) -> Self {
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        Self(set.fold(0, |all, (_, flag)| all | flag))
    }

    /// Whether all bits of `mask` are set.
    pub const fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }
}

/// The Mobility Agent Advertisement extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MobilityAgent {
    /// Counts advertisements since the agent started; 256 follows 65535.
    pub sequence: u16,
    /// The longest lifetime of a registration, in seconds.
    pub registration_lifetime: u16,
    /// What the agent offers.
    pub flags: AgentFlags,
    /// Care-of addresses of a foreign agent.
    pub care_of_addresses: Vec<Ipv4Addr>,
}

/// An Agent Advertisement, the ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAdvertisement {
    /// Whether the agent routes other traffic too (code 0, otherwise 16).
    pub routes_common_traffic: bool,
    /// Seconds that the advertisement is valid.
    pub lifetime: u16,
    /// Routers on this link.
    pub routers: Vec<Router>,
    /// The agent itself.
    pub agent: MobilityAgent,
    /// A challenge to answer (RFC 4721 §2).
    pub challenge: Option<Vec<u8>>,
}

impl AgentAdvertisement {
    /// Reads an ICMP message. None if it is another ICMP message, or a router that is not a
    /// mobility agent.
    pub fn parse(icmp: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut r = Reader::new(icmp);
        if r.u8("ICMP type")? != ADVERTISEMENT {
            return Ok(None);
        }
        let code = r.u8("ICMP code")?;
        if !matches!(code, COMMON | AGENT_ONLY) {
            return Err(Malformed::Value("router advertisement code"));
        }
        r.u16("ICMP checksum")?;
        if checksum(icmp) != 0 {
            return Err(Malformed::Value("ICMP checksum"));
        }
        let count = r.u8("router count")?;
        let words = usize::from(r.u8("router entry size")?);
        if words < 2 {
            return Err(Malformed::Length("router entry"));
        }
        let lifetime = r.u16("advertisement lifetime")?;
        let mut routers = Vec::with_capacity(count.into());
        for _ in 0..count {
            let mut entry = r.sub(words * 4, "router entry")?;
            routers.push(Router {
                address: entry.array("router address")?.into(),
                preference: entry.u32("router preference")?.cast_signed(),
                prefix_len: None,
            });
        }
        let (agent, challenge) = read_extensions(&mut r, &mut routers)?;
        Ok(agent.map(|agent| Self {
            routes_common_traffic: code == COMMON,
            lifetime,
            routers,
            agent,
            challenge,
        }))
    }

    /// The ICMP message. Panics above [`MAX_ROUTERS`], [`MAX_CARE_OF_ADDRESSES`] or a challenge of
    /// 255 octets.
    pub fn to_icmp(&self) -> Vec<u8> {
        let agent = &self.agent;
        assert!(agent.care_of_addresses.len() <= MAX_CARE_OF_ADDRESSES);
        let mut w = Writer::new();
        w.u8(ADVERTISEMENT);
        w.u8(if self.routes_common_traffic {
            COMMON
        } else {
            AGENT_ONLY
        });
        w.u16(0);
        w.u8(u8::try_from(self.routers.len()).expect("routers below 256"));
        w.u8(2);
        w.u16(self.lifetime);
        for router in &self.routers {
            w.bytes(&router.address.octets());
            w.u32(router.preference.cast_unsigned());
        }
        w.u8(MOBILITY_AGENT);
        w.u8((6 + 4 * agent.care_of_addresses.len()) as u8);
        w.u16(agent.sequence);
        w.u16(agent.registration_lifetime);
        w.u16(agent.flags.0);
        for address in &agent.care_of_addresses {
            w.bytes(&address.octets());
        }
        let lengths: Option<Vec<u8>> = self.routers.iter().map(|it| it.prefix_len).collect();
        if let Some(lengths) = lengths.filter(|lengths| !lengths.is_empty()) {
            w.u8(PREFIX_LENGTHS);
            w.u8(lengths.len() as u8);
            w.bytes(&lengths);
        }
        if let Some(challenge) = &self.challenge {
            w.u8(CHALLENGE);
            w.u8(u8::try_from(challenge.len()).expect("challenge below 256 octets"));
            w.bytes(challenge);
        }
        if w.len() % 2 == 1 {
            w.u8(PADDING);
        }
        finish_icmp(w)
    }
}

/// An Agent Solicitation, the ICMP message (RFC 1256 §3).
pub const SOLICITATION: [u8; 8] = [SOLICITATION_TYPE, 0, 0xf5, 0xff, 0, 0, 0, 0];

/// Whether an ICMP message is a valid solicitation.
pub fn is_solicitation(icmp: &[u8]) -> bool {
    icmp.len() >= SOLICITATION.len() && icmp[..2] == SOLICITATION[..2] && checksum(icmp) == 0
}

/// The extensions after the routers, which get their prefix lengths.
fn read_extensions(
    r: &mut Reader<'_>,
    routers: &mut [Router],
) -> Result<(Option<MobilityAgent>, Option<Vec<u8>>), Malformed> {
    let mut agent = None;
    let mut challenge = None;
    while !r.is_empty() {
        let kind = r.u8("extension type")?;
        if kind == PADDING {
            continue;
        }
        let len = r.u8("extension length")?;
        let mut body = r.sub(len.into(), "extension")?;
        match kind {
            MOBILITY_AGENT if agent.is_none() => agent = Some(MobilityAgent::read(&mut body)?),
            MOBILITY_AGENT => return Err(Malformed::TooMany("mobility agent extensions")),
            PREFIX_LENGTHS => {
                if body.len() != routers.len() {
                    return Err(Malformed::Length("prefix lengths"));
                }
                for router in routers.iter_mut() {
                    let bits = body.u8("prefix length")?;
                    if bits > 32 {
                        return Err(Malformed::Value("prefix length"));
                    }
                    router.prefix_len = Some(bits);
                }
            }
            CHALLENGE => challenge = Some(body.rest().to_vec()),
            _ if kind < FIRST_SKIPPABLE => return Err(Malformed::Value("extension type")),
            _ => {}
        }
    }
    Ok((agent, challenge))
}

impl MobilityAgent {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let sequence = r.u16("sequence number")?;
        let registration_lifetime = r.u16("registration lifetime")?;
        let flags = AgentFlags(r.u16("agent flags")?);
        let mut care_of_addresses = Vec::new();
        while !r.is_empty() {
            care_of_addresses.push(r.array("care-of address")?.into());
        }
        let is_foreign = flags.has(AgentFlags::FOREIGN_AGENT);
        if is_foreign && care_of_addresses.is_empty() {
            return Err(Malformed::Value("foreign agent without a care-of address"));
        }
        Ok(Self {
            sequence,
            registration_lifetime,
            flags,
            care_of_addresses,
        })
    }
}

fn finish_icmp(w: Writer) -> Vec<u8> {
    let mut icmp = w.into_vec();
    let checksum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    icmp
}

const ADVERTISEMENT: u8 = 9;
const SOLICITATION_TYPE: u8 = 10;
const COMMON: u8 = 0;
const AGENT_ONLY: u8 = 16;
const PADDING: u8 = 0;
const MOBILITY_AGENT: u8 = 16;
const PREFIX_LENGTHS: u8 = 19;
const CHALLENGE: u8 = 24;
const FIRST_SKIPPABLE: u8 = 128;

//! Tunneling Info: all that Client needs to build its end of the tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{KEY_LEN, long, text, write_long, write_text};
use crate::codec::{Malformed, Reader, Writer};

/// Addresses of Target.
const ADDRESSES_MAX: usize = 4;
/// Networks behind Target.
const NETWORKS_MAX: usize = 16;
/// Proposals, in the house's words.
const PROPOSALS_MAX: usize = 8;
/// Certificates of a chain.
const CHAIN_MAX: usize = 4;
/// Octets of a certificate.
const CERTIFICATE_MAX: usize = 2_048;
/// Octets of an IKE identity.
const IDENTITY_MAX: usize = 128;
/// Octets of a proposal.
const PROPOSAL_MAX: usize = 64;

/// A network behind Target: a traffic selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    pub address: IpAddr,
    /// Bits of its prefix.
    pub prefix_len: u8,
}

/// Tunneling Info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunneling {
    /// Target's public value for sealing.
    pub sealing_key: [u8; KEY_LEN],
    /// Target's public key for signatures.
    pub signing_key: [u8; KEY_LEN],
    /// The option of the tunnel, 1 to 4.
    pub option: u8,
    /// The version of IKE, 1 or 2.
    pub ike_version: u8,
    /// Whether IKE mixes the tunnel's PPK into its keys.
    pub has_ppk: bool,
    /// When the tunnel ends, seconds since 1970.
    pub until: u64,
    /// Where Target is.
    pub addresses: Vec<IpAddr>,
    /// What is behind it.
    pub networks: Vec<Network>,
    /// Algorithms, the best first.
    pub proposals: Vec<String>,
    /// Target's IKE identity.
    pub target_identity: String,
    /// Client's IKE identity.
    pub client_identity: String,
    /// Target's certificates, its own first. Empty in the paper's own form.
    pub target_chain: Vec<Vec<u8>>,
    /// Client's certificates, the one of minutes first. Empty in the paper's own form.
    pub client_chain: Vec<Vec<u8>>,
}

impl Tunneling {
    /// Reads a whole Tunneling Info.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let tunneling = Self {
            sealing_key: r.array("target's sealing key")?,
            signing_key: r.array("target's signing key")?,
            option: r.u8("option")?,
            ike_version: r.u8("version of IKE")?,
            has_ppk: match r.u8("whether there is a PPK")? {
                0 => false,
                1 => true,
                _ => return Err(Malformed::Value("whether there is a PPK")),
            },
            until: r.u64("end of the tunnel")?,
            addresses: list(&mut r, ADDRESSES_MAX, "addresses", address)?,
            networks: list(&mut r, NETWORKS_MAX, "networks", Network::read)?,
            proposals: list(&mut r, PROPOSALS_MAX, "proposals", |r| {
                text(r, PROPOSAL_MAX, "proposal")
            })?,
            target_identity: text(&mut r, IDENTITY_MAX, "target's identity")?,
            client_identity: text(&mut r, IDENTITY_MAX, "client's identity")?,
            target_chain: list(&mut r, CHAIN_MAX, "target's certificates", certificate)?,
            client_chain: list(&mut r, CHAIN_MAX, "client's certificates", certificate)?,
        };
        r.finish("tunneling information")?;
        Ok(tunneling)
    }

    /// Its octets, if everything is within its limit and can be read again.
    pub fn to_vec(&self) -> Result<Vec<u8>, Malformed> {
        let texts = self.proposals.iter();
        let texts = texts.chain([&self.target_identity, &self.client_identity]);
        let mut chains = self.target_chain.iter().chain(&self.client_chain);
        if texts.map(String::len).any(|len| len > IDENTITY_MAX)
            || chains.any(|one| one.len() > CERTIFICATE_MAX)
        {
            return Err(Malformed::TooMany("octets of tunneling information"));
        }
        let mut w = Writer::new();
        w.bytes(&self.sealing_key);
        w.bytes(&self.signing_key);
        w.u8(self.option);
        w.u8(self.ike_version);
        w.u8(self.has_ppk.into());
        w.u64(self.until);
        write_list(&mut w, &self.addresses, |w, it| write_address(w, *it));
        write_list(&mut w, &self.networks, |w, it| it.write(w));
        write_list(&mut w, &self.proposals, |w, it| write_text(w, it));
        write_text(&mut w, &self.target_identity);
        write_text(&mut w, &self.client_identity);
        write_list(&mut w, &self.target_chain, |w, it| write_long(w, it));
        write_list(&mut w, &self.client_chain, |w, it| write_long(w, it));
        let octets = w.into_vec();
        Self::parse(&octets)?;
        Ok(octets)
    }
}

impl Network {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let address = address(r)?;
        let prefix_len = r.u8("prefix of a network")?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        if prefix_len > max {
            return Err(Malformed::Value("prefix of a network"));
        }
        Ok(Self {
            address,
            prefix_len,
        })
    }

    fn write(&self, w: &mut Writer) {
        write_address(w, self.address);
        w.u8(self.prefix_len);
    }
}

fn address(r: &mut Reader<'_>) -> Result<IpAddr, Malformed> {
    match r.u8("family of an address")? {
        4 => Ok(Ipv4Addr::from(r.array::<4>("address")?).into()),
        6 => Ok(Ipv6Addr::from(r.array::<16>("address")?).into()),
        _ => Err(Malformed::Value("family of an address")),
    }
}

fn write_address(w: &mut Writer, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            w.u8(4);
            w.bytes(&address.octets());
        }
        IpAddr::V6(address) => {
            w.u8(6);
            w.bytes(&address.octets());
        }
    }
}

fn certificate(r: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    Ok(long(r, CERTIFICATE_MAX, "certificate")?.to_vec())
}

fn list<'a, T>(
    r: &mut Reader<'a>,
    max: usize,
    what: &'static str,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = usize::from(r.u8(what)?);
    if count > max {
        return Err(Malformed::TooMany(what));
    }
    (0..count).map(|_| read(r)).collect()
}

fn write_list<T>(w: &mut Writer, list: &[T], mut write: impl FnMut(&mut Writer, &T)) {
    w.u8(u8::try_from(list.len()).unwrap_or(u8::MAX));
    list.iter().for_each(|one| write(w, one));
}

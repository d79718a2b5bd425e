//! One end of one tunnel, in words of no implementation: what [`super::writers`] turn into the text
//! of each, and what a back-end builds.
//!
//! Names and proposals come from the other end. They are parsed here, and what is in a description
//! has only letters, digits and a few signs; so no text of it can leave its place, whatever quotes
//! an implementation knows.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::agent::{Network, Tunneling};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::TunnelId;
use super::client::Tunnel;
use super::ike::IkeVersion;
use super::objectives::{Protocol, SecurityOption};
use super::ppk::{TunnelPpk, hex};
use super::target::{Build, Credential as Asked, SessionKey};
use crate::suite::{EspSuite, IkeSuite, Ikev2Suite, Standing, SuiteFault};
use crate::time::Duration;

/// Octets of a name.
pub const NAME_MAX: usize = 128;
/// In front of a proposal of IKE. AH's have `ah-`, those of ESP have nothing.
const IKE_PREFIX: &str = "ike-";
/// What an end offers whose configuration names none of a kind: every implementation has them.
const USUAL_IKE: &str = "aes128-sha256-modp2048";
const USUAL_IKEV2: [&str; 3] = [
    "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
    "aes256gcm16-prfsha384-curve25519",
    "aes128-sha256-modp2048",
];
const USUAL_ESP: [&str; 2] = ["aes128gcm16-modp2048", "aes128-sha256-modp2048"];
const USUAL_AH: &str = "ah-sha256-modp2048";

/// One end of one tunnel.
#[derive(Clone)]
pub struct Description {
    /// Its name at Target.
    pub tunnel: TunnelId,
    /// Which end.
    pub side: Side,
    /// Its option.
    pub option: SecurityOption,
    /// This end.
    pub local: End,
    /// The other one.
    pub remote: End,
    /// How both ends prove who they are.
    pub credential: Credential,
    /// The version of IKE.
    pub ike: IkeVersion,
    /// The key that IKE mixes into its keys (RFC 8784). Without it there is no tunnel.
    pub ppk: Option<Ppk>,
    /// Algorithms.
    pub proposals: Proposals,
    /// What is behind Target.
    pub networks: Vec<Network>,
    /// Client's address inside.
    pub inner: Inner,
    /// How long it lives from now on, in whole seconds.
    pub lifetime: Duration,
    /// Whether weak algorithms are allowed.
    pub legacy: bool,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Initiates.
    Client,
    /// Responds.
    Target,
}

/// A post-quantum pre-shared key.
#[derive(Clone)]
pub struct Ppk {
    /// Its name, which both ends send.
    pub id: Name,
    /// The key.
    pub key: TunnelPpk,
}

/// An end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Where it is. Empty: anywhere.
    pub addresses: Vec<IpAddr>,
    /// Its IKE identity.
    pub identity: Name,
}

/// An IKE identity: an address, a DNS name, or user@name. It has letters, digits and `.-_+@`, and
/// begins with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// What kind of name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// ID_IPV4_ADDR or ID_IPV6_ADDR.
    Address,
    /// ID_FQDN.
    Fqdn,
    /// ID_USER_FQDN.
    UserFqdn,
}

/// How both ends prove who they are.
#[derive(Clone)]
pub enum Credential {
    /// By certificates, which are trusted for this tunnel alone.
    Certificates {
        /// Ours, our own first, DER.
        chain: Vec<Vec<u8>>,
        /// Its private key.
        key: Key,
        /// The other end's, its own first, DER.
        peer: Vec<Vec<u8>>,
    },
    /// By a pre-shared key ([`super::legacy`]).
    PresharedKey(SessionKey),
}

/// A private key, PKCS #8 in DER. Wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Key(pub Vec<u8>);

/// Algorithms, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposals {
    /// Of phase 1 of IKEv1. Empty with IKEv2.
    pub ike: Vec<IkeSuite>,
    /// Of the IKE SA of IKEv2. Empty with IKEv1.
    pub ikev2: Vec<Ikev2Suite>,
    /// Of ESP.
    pub esp: Vec<EspSuite>,
    /// Of AH.
    pub ah: Vec<EspSuite>,
}

/// Client's address inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Client asks Target for one.
    Asked,
    /// Target lends this one.
    Lent(IpAddr),
    /// There is none: Client's own address is inside, too.
    Outer,
}

/// What Target's owner knows of its own end.
pub struct OwnEnd {
    /// Where it is.
    pub addresses: Vec<IpAddr>,
    /// Its IKE identity.
    pub identity: String,
    /// Its certificates, its own first, DER.
    pub chain: Vec<Vec<u8>>,
    /// Its private key.
    pub key: Key,
    /// Its proposals, as Tunneling Info has them.
    pub proposals: Vec<String>,
    /// Whether weak algorithms are allowed.
    pub legacy: bool,
}

/// Why an end cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionFault {
    /// A name that some implementation could take for something else.
    #[error(
        "{0:?} cannot be an IKE identity of an agent's tunnel: it has 1 to {NAME_MAX} letters, \
         digits and signs of .-_+@, one @ at most, and begins with a letter or digit"
    )]
    Name(String),
    /// A proposal that cannot be read.
    #[error(transparent)]
    Proposal(#[from] SuiteFault),
    /// A weak proposal.
    #[error("the proposal {0} is weak: it needs legacy = true")]
    Weak(String),
    /// Proposals of IKE, and none that the version has.
    #[error(
        "proposals: none is of {0}: add one of it, such as \"{IKE_PREFIX}{USUAL_IKE}\", or name \
         none of IKE, which gives the usual ones"
    )]
    NoneOfVersion(IkeVersion),
    /// Target says nothing about where it is.
    #[error("target has named no address")]
    NoAddress,
    /// There is nothing behind Target.
    #[error("target has named no network")]
    NoNetwork,
    /// A certificate is missing.
    #[error("a certificate of {0} is missing")]
    NoCertificate(&'static str),
    /// An option that no document has.
    #[error("{0} is no option")]
    NoOption(u8),
}

impl Description {
    /// The end that Target is asked to build. `inner`: the address that it lends.
    pub fn of_target(
        build: &Build,
        own: &OwnEnd,
        inner: Option<IpAddr>,
    ) -> Result<Self, DescriptionFault> {
        let credential = match &build.credential {
            Asked::SessionKey(key) => Credential::PresharedKey(key.clone()),
            Asked::Certificate(_) if own.chain.is_empty() => {
                return Err(DescriptionFault::NoCertificate("ours"));
            }
            Asked::Certificate(leaf) => Credential::Certificates {
                chain: own.chain.clone(),
                key: own.key.clone(),
                peer: vec![leaf.clone()],
            },
        };
        let local = End {
            addresses: own.addresses.clone(),
            identity: Name::parse(&own.identity)?,
        };
        let remote = End {
            addresses: Vec::new(),
            identity: Name::parse(&build.client_identity)?,
        };
        Self {
            tunnel: build.tunnel,
            side: Side::Target,
            option: build.option,
            local,
            remote,
            credential,
            ike: build.ike,
            ppk: build
                .ppk
                .clone()
                .map(|key| Ppk::of_tunnel(build.tunnel, key)),
            proposals: Proposals::read(&own.proposals, build.ike, own.legacy)?,
            networks: build.networks.clone(),
            inner: inner.map_or(Inner::Outer, Inner::Lent),
            lifetime: whole_seconds(build.lifetime),
            legacy: own.legacy,
        }
        .checked()
    }

    /// The end that Client builds. `key`: the private half of the tunnel's key. `legacy`: weak
    /// algorithms are allowed, if Target names them.
    pub fn of_client(tunnel: &Tunnel, key: &Key, legacy: bool) -> Result<Self, DescriptionFault> {
        let Tunneling {
            target_chain,
            client_chain,
            ..
        } = &tunnel.tunneling;
        let credential = match &tunnel.session_key {
            Some(key) => Credential::PresharedKey(key.clone()),
            None if client_chain.is_empty() => {
                return Err(DescriptionFault::NoCertificate("ours"));
            }
            None if target_chain.is_empty() => {
                return Err(DescriptionFault::NoCertificate("target's"));
            }
            None => Credential::Certificates {
                chain: client_chain.clone(),
                key: key.clone(),
                peer: target_chain.clone(),
            },
        };
        let local = End {
            addresses: Vec::new(),
            identity: Name::parse(&tunnel.tunneling.client_identity)?,
        };
        let remote = End {
            addresses: tunnel.tunneling.addresses.clone(),
            identity: Name::parse(&tunnel.tunneling.target_identity)?,
        };
        if remote.addresses.is_empty() {
            return Err(DescriptionFault::NoAddress);
        }
        Self {
            tunnel: tunnel.id,
            side: Side::Client,
            option: tunnel.option,
            local,
            remote,
            credential,
            ike: tunnel.ike,
            ppk: tunnel.ppk.clone().map(|key| Ppk::of_tunnel(tunnel.id, key)),
            proposals: Proposals::read(&tunnel.tunneling.proposals, tunnel.ike, legacy)?,
            networks: tunnel.tunneling.networks.clone(),
            inner: Inner::Asked,
            lifetime: whole_seconds(tunnel.lifetime),
            legacy,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, DescriptionFault> {
        match self.networks.is_empty() {
            true => Err(DescriptionFault::NoNetwork),
            false => Ok(self),
        }
    }

    /// The name of the tunnel's parts in every implementation.
    pub fn name(&self) -> String {
        name_of(self.tunnel)
    }

    /// What this end protects: suites of ESP, if its option has it.
    pub fn esp(&self) -> &[EspSuite] {
        match self.option.protocols().contains(&Protocol::Esp) {
            true => &self.proposals.esp,
            false => &[],
        }
    }

    /// Suites of AH, if its option has it.
    pub fn ah(&self) -> &[EspSuite] {
        match self.option.protocols().contains(&Protocol::Ah) {
            true => &self.proposals.ah,
            false => &[],
        }
    }

    /// The unspecified address of the networks' family: what Client asks for.
    pub fn any_address(&self) -> IpAddr {
        match self.networks.first().is_some_and(is_v6) {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        }
    }
}

impl Ppk {
    /// The PPK of a tunnel. Its name is the tunnel's: both ends know it, and no other has it.
    pub fn of_tunnel(tunnel: TunnelId, key: TunnelPpk) -> Self {
        let id = Name(name_of(tunnel));
        Self { id, key }
    }
}

/// Not less: a tunnel has all of its time.
fn whole_seconds(span: Duration) -> Duration {
    let begun = u64::from(span.subsec_nanos() > 0);
    Duration::from_secs(span.as_secs().saturating_add(begun))
}

fn is_v6(network: &Network) -> bool {
    network.address.is_ipv6()
}

/// The name of a tunnel's parts in every implementation.
pub fn name_of(tunnel: TunnelId) -> String {
    format!("cta-{tunnel}")
}

/// The tunnel that has this name.
pub fn tunnel_of(name: &str) -> Option<TunnelId> {
    let digits = name.strip_prefix("cta-")?;
    if digits.len() != 32 || !digits.bytes().all(|octet| octet.is_ascii_hexdigit()) {
        return None;
    }
    let mut octets = [0; 16];
    for (at, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(TunnelId(octets))
}

impl Name {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, DescriptionFault> {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || ".-_+@".contains(c);
        let is_address = text.parse::<IpAddr>().is_ok();
        let is_good = text.len() <= NAME_MAX
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !text.ends_with('@')
            && text.matches('@').count() <= 1
            && text.chars().all(is_sign);
        match is_good || is_address {
            true => Ok(Self(text.to_owned())),
            false => Err(DescriptionFault::Name(text.to_owned())),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What kind of name it is.
    pub fn kind(&self) -> NameKind {
        match &self.0 {
            text if text.parse::<IpAddr>().is_ok() => NameKind::Address,
            text if text.contains('@') => NameKind::UserFqdn,
            _ => NameKind::Fqdn,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Proposals {
    /// Reads the proposals of Tunneling Info: `ike-aes128-sha256-modp2048`, `ah-sha256-modp2048`,
    /// and those of ESP without a prefix. A kind that is not named gets its usual ones. Suites that
    /// only the other version of IKE has are passed over, unless there are no others.
    pub fn read(words: &[String], ike: IkeVersion, legacy: bool) -> Result<Self, DescriptionFault> {
        let mut all = Self {
            ike: Vec::new(),
            ikev2: Vec::new(),
            esp: Vec::new(),
            ah: Vec::new(),
        };
        for word in words {
            let weak = |standing: Standing| match standing {
                Standing::Current => Ok(()),
                Standing::Legacy if legacy => Ok(()),
                Standing::Legacy => Err(DescriptionFault::Weak(word.clone())),
            };
            if let Some(rest) = word.strip_prefix(IKE_PREFIX) {
                match (ike, rest.parse::<IkeSuite>(), rest.parse::<Ikev2Suite>()) {
                    (IkeVersion::V1, Ok(suite), _) => {
                        weak(suite.standing())?;
                        all.ike.push(suite);
                    }
                    (IkeVersion::V2, _, Ok(suite)) => {
                        weak(suite.standing())?;
                        all.ikev2.push(suite);
                    }
                    (_, Err(_), Err(fault)) => return Err(fault.into()),
                    _ => {}
                }
                continue;
            }
            let suite: EspSuite = word.parse()?;
            weak(suite.standing())?;
            match suite.protocol {
                crate::sa::Protocol::Esp => all.esp.push(suite),
                crate::sa::Protocol::Ah => all.ah.push(suite),
            }
        }
        let is_named = words.iter().any(|word| word.starts_with(IKE_PREFIX));
        match ike {
            // Others than those that are named would be a surprise.
            _ if is_named && all.ike.is_empty() && all.ikev2.is_empty() => {
                return Err(DescriptionFault::NoneOfVersion(ike));
            }
            IkeVersion::V1 if all.ike.is_empty() => all.ike.push(USUAL_IKE.parse()?),
            IkeVersion::V2 if all.ikev2.is_empty() => {
                for word in USUAL_IKEV2 {
                    all.ikev2.push(word.parse()?);
                }
            }
            _ => {}
        }
        if all.esp.is_empty() {
            for word in USUAL_ESP {
                all.esp.push(word.parse()?);
            }
        }
        if all.ah.is_empty() {
            all.ah.push(USUAL_AH.parse()?);
        }
        Ok(all)
    }
}

/// The words of proposals that a version of IKE has: Client is told no others.
pub(super) fn words_of(words: &[String], ike: IkeVersion) -> Vec<String> {
    let is_of = |word: &&String| match (ike, word.strip_prefix(IKE_PREFIX)) {
        (_, None) => true,
        (IkeVersion::V1, Some(rest)) => rest.parse::<IkeSuite>().is_ok(),
        (IkeVersion::V2, Some(rest)) => rest.parse::<Ikev2Suite>().is_ok(),
    };
    words.iter().filter(is_of).cloned().collect()
}

impl SessionKey {
    /// The pre-shared key as every implementation gets it: 64 hexadecimal digits, as text. Both
    /// ends take the same octets for the key, whatever they know of hexadecimal.
    pub fn text(&self) -> Zeroizing<String> {
        hex(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_sign_that_any_implementation_reads() {
        for good in [
            "alice@host.example",
            "target.example",
            "192.0.2.1",
            "2001:db8::1",
            "a_b+c",
        ] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "", "a b", "a'b", "a\"b", "a;b", "a\nb", "$(x)", "`x`", "%any", "*", "-x", "@x", "a@",
            "a@b@c", "a,b", "a=b", "a#b", "a\\b", "a/b", "a{b", "ä", "[::1]",
        ] {
            assert_eq!(
                Name::parse(bad),
                Err(DescriptionFault::Name(bad.into())),
                "{bad}"
            );
        }
        assert!(Name::parse(&"x".repeat(NAME_MAX + 1)).is_err());
        let kinds = ["192.0.2.1", "::1", "a.b", "a@b"].map(|it| Name::parse(it).unwrap().kind());
        let [v4, v6, fqdn, user] = kinds;
        assert_eq!((v4, v6), (NameKind::Address, NameKind::Address));
        assert_eq!((fqdn, user), (NameKind::Fqdn, NameKind::UserFqdn));
    }

    #[test]
    fn proposals_are_read_by_their_prefix_and_weak_ones_need_a_word() {
        let of = |words: &[&str], ike, legacy| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Proposals::read(&words, ike, legacy)
        };
        let read = |words: &[&str], legacy| of(words, IkeVersion::V1, legacy);
        let usual = read(&[], false).unwrap();
        assert_eq!(
            (usual.ike.len(), usual.esp.len(), usual.ah.len()),
            (1, 2, 1)
        );
        let some = read(
            &["ike-aes256-sha256-modp3072", "aes256gcm16", "ah-sha1"],
            false,
        )
        .unwrap();
        assert_eq!(some.ike[0].to_string(), "aes256-sha256-modp3072");
        assert_eq!(some.esp[0].to_string(), "aes256gcm16");
        assert_eq!(some.ah[0].to_string(), "ah-sha1");
        let weak = DescriptionFault::Weak("3des-md5".into());
        assert_eq!(read(&["3des-md5"], false), Err(weak));
        assert!(read(&["3des-md5", "ike-3des-md5-modp1024"], true).is_ok());
        for bad in ["aes128gcm16; rm", "ike-", "none", "$(x)", "ike-aes128gcm16"] {
            let read = read(&[bad], true);
            assert!(matches!(read, Err(DescriptionFault::Proposal(_))), "{bad}");
        }
        let today = |words: &[&str]| of(words, IkeVersion::V2, false).unwrap();
        assert!(today(&[]).ikev2[0].is_post_quantum() && today(&[]).ike.is_empty());
        let both = [
            "ike-aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
            "ike-aes128-sha256-modp2048",
        ];
        assert_eq!(today(&both).ikev2.len(), 2);
        assert_eq!(read(&both, false).unwrap().ike.len(), 1);
        let words = both.map(str::to_owned);
        assert_eq!(words_of(&words, IkeVersion::V1), words[1..]);
        assert_eq!(words_of(&words, IkeVersion::V2), words);
        // One that the other version has alone.
        let words = ["ike-aes256gcm16-prfsha384-curve25519", "aes128gcm16"];
        let said = read(&words, false).unwrap_err();
        assert_eq!(said, DescriptionFault::NoneOfVersion(IkeVersion::V1));
        let said = said.to_string();
        assert!(said.starts_with("proposals: none is of IKEv1: "), "{said}");
        assert!(said.contains("\"ike-aes128-sha256-modp2048\""), "{said}");
        assert_eq!(today(&words).ikev2.len(), 1);
        assert_eq!(today(&words[1..]).ikev2.len(), USUAL_IKEV2.len());
        let weak = of(&["ike-aes128-md5-modp2048"], IkeVersion::V2, false);
        assert!(matches!(weak, Err(DescriptionFault::Weak(_))));
    }

    #[test]
    fn a_tunnel_is_found_by_its_name() {
        let tunnel = TunnelId([0xa5; 16]);
        assert_eq!(tunnel_of(&name_of(tunnel)), Some(tunnel));
        for other in [
            "road",
            "cta-",
            "cta-00",
            &format!("{}0", name_of(tunnel)),
            "cta-zz",
        ] {
            assert_eq!(tunnel_of(other), None);
        }
        assert_eq!(*SessionKey([0xab; 32]).text(), "ab".repeat(32));
    }
}

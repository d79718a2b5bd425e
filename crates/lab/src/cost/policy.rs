//! Policies: suite, mode, and the key exchange. A file of `policies/`, or the bare name of a suite.
//!
//! A policy here is for IPsec or SKIP. One that names several layers is read by
//! `scenario`.

use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;

use crypto::ml_dsa::MlDsa;
use crypto::packet::Protection;
use document::{Fault, Item, parse};
use engine::plane::shape::{Shape, wire_bytes};
use engine::sa::{Mode, Protocol};
use engine::suite::{EspSuite, IkeSuite, Ikev2Suite, Reason, SuiteFault};
use serde::{Serialize, Serializer};

use super::names::said;
use super::skip::SkipSuite;
use super::suite::{Standing, Suite};

/// How packets are protected, and the source of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// File's or suite's name.
    pub name: String,
    /// For people.
    pub title: String,
    /// Algorithms.
    pub suite: Suite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// ESP is in UDP (RFC 3948); without effect for AH.
    pub is_udp_encapsulated: bool,
    /// The outer header is IPv6.
    pub is_outer_v6: bool,
    /// AH around each packet of ESP, in a tunnel of its own: two layers.
    pub around: Option<EspSuite>,
    /// None: manual keys.
    pub keys: Option<Keys>,
}

/// The source of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The key exchange.
    pub exchange: Exchange,
    /// Its suite. PFS is in the words of the ESP suite.
    pub proposal: Proposal,
    /// How the ends authenticate.
    pub proof: Proof,
    /// IKEv2: the gateway answers the first message with a cookie (RFC 7296 §2.6), as under load.
    pub asks_cookie: bool,
    /// IKEv2: messages that are too large are split (RFC 7383). IKEv1 always splits them.
    pub fragments: bool,
    /// IKEv2: the station has a ticket of a session that was lost (RFC 5723), in which the ends
    /// authenticated so.
    pub is_resumed: bool,
}

/// The suite of a key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Of IKEv1.
    V1(IkeSuite),
    /// Of IKEv2.
    V2(Ikev2Suite),
}

/// Key exchanges of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Six messages and three (RFC 2409 §5).
    Main,
    /// Three messages and three (RFC 2409 §5), as in paper U.
    Aggressive,
    /// IKEv2: two messages and two, and more for EAP and further key exchanges (RFC 7296 §1.2).
    V2,
}

/// How ends authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// RSA signatures and certificates, modulus of 2048 bits.
    Rsa2048,
    /// RSA signatures and certificates, modulus of 3072 bits.
    Rsa3072,
    /// RSA signatures and certificates, modulus of 4096 bits.
    Rsa4096,
    /// A pre-shared key.
    Psk,
    /// IKEv2: ECDSA signatures and certificates on P-256.
    EcdsaP256,
    /// IKEv2: Ed25519 signatures and certificates.
    Ed25519,
    /// IKEv2: signatures and certificates of ML-DSA.
    MlDsa(MlDsa),
    /// IKEv2: the station has a password, the gateway a certificate of RSA, 2048 bits.
    EapMsChapV2,
    /// IKEv2: both have certificates of RSA, 2048 bits, the station within TLS.
    EapTls,
}

const MODES: [(&str, Mode); 2] = [("tunnel", Mode::Tunnel), ("transport", Mode::Transport)];
const EXCHANGES: [(&str, Exchange); 3] = [
    ("ikev2", Exchange::V2),
    ("ikev1-main", Exchange::Main),
    ("ikev1-aggressive", Exchange::Aggressive),
];
const PROOFS: [(&str, Proof); 11] = [
    ("rsa2048", Proof::Rsa2048),
    ("rsa3072", Proof::Rsa3072),
    ("rsa4096", Proof::Rsa4096),
    ("psk", Proof::Psk),
    ("ecdsa-p256", Proof::EcdsaP256),
    ("ed25519", Proof::Ed25519),
    ("ml-dsa-44", Proof::MlDsa(MlDsa::Set44)),
    ("ml-dsa-65", Proof::MlDsa(MlDsa::Set65)),
    ("ml-dsa-87", Proof::MlDsa(MlDsa::Set87)),
    ("eap-mschapv2", Proof::EapMsChapV2),
    ("eap-tls", Proof::EapTls),
];

impl Exchange {
    /// Why today's standards deprecate it whatever its algorithms; `None` if they do not.
    pub fn deprecated(self) -> Option<&'static str> {
        match self {
            Self::Main | Self::Aggressive => Some("IKEv1 deprecated, RFC 9395"),
            Self::V2 => None,
        }
    }
}

impl Proof {
    /// Whether IKEv1 has it.
    const fn is_of_ikev1(self) -> bool {
        matches!(
            self,
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 | Self::Psk
        )
    }

    /// Whether the station proves itself within EAP.
    pub const fn is_eap(self) -> bool {
        matches!(self, Self::EapMsChapV2 | Self::EapTls)
    }
}

impl Proposal {
    /// Why the suite is legacy; empty for a current suite.
    pub fn legacy_reasons(&self) -> Vec<Reason> {
        match self {
            Self::V1(suite) => suite.legacy_reasons(),
            Self::V2(suite) => suite.legacy_reasons(),
        }
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V1(suite) => suite.fmt(f),
            Self::V2(suite) => suite.fmt(f),
        }
    }
}

impl Policy {
    /// This suite in Caravan's default form: tunnel mode in UDP over IPv4.
    pub fn of(suite: Suite) -> Self {
        Self {
            name: suite.word().to_owned(),
            title: suite.word().to_owned(),
            suite,
            mode: Mode::Tunnel,
            is_udp_encapsulated: true,
            is_outer_v6: false,
            around: None,
            keys: None,
        }
    }

    /// Reads a file of `policies/`; `file` names it in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, Fault> {
        let document = parse(file, text)?;
        let table = document.table()?;
        let suite: Suite = match table.find("skip") {
            Some(item) => {
                for key in ["suite", "mode", "udp", "outer", "around", "keys"] {
                    table.refuse(
                        key,
                        "SKIP has neither a suite, a mode, UDP, IPv6, layers nor exchanges",
                    )?;
                }
                SkipSuite::read(item)?.into()
            }
            None => word(table.need("suite")?)?,
        };
        let keys = match table.find("keys") {
            None => None,
            Some(item) if suite.ipsec().is_none() => {
                return Err(item.fault("the suite \"none\" has no keys"));
            }
            Some(item) => Some(Keys::read(item)?),
        };
        // SKIP is never in UDP: its MAC covers the outer IP header.
        let is_in_udp = suite.skip().is_none();
        let policy = Self {
            name: table.need("name")?.text()?.to_owned(),
            title: table.need("title")?.text()?.to_owned(),
            suite,
            mode: table.or("mode", Mode::Tunnel, |item| item.choice("mode", &MODES))?,
            is_udp_encapsulated: table.or("udp", is_in_udp, Item::boolean)?,
            is_outer_v6: table.or("outer", false, |item| match item.whole(0, u64::MAX)? {
                4 => Ok(false),
                6 => Ok(true),
                other => Err(item.fault(format!("must be 4 or 6, found {other}"))),
            })?,
            around: table.or("around", None, |item| word(item).map(Some))?,
            keys,
        };
        if let Some(item) = table.find("around") {
            policy.check_layers(item)?;
        }
        table.finish()?;
        Ok(policy)
    }

    /// Refuses two layers that no end of Caravan has.
    fn check_layers(&self, item: &Item) -> Result<(), Fault> {
        let own = self.suite.ipsec().map(|suite| suite.protocol);
        let around = self.around.map(|suite| suite.protocol);
        let is_ah_around_esp = (around, own) == (Some(Protocol::Ah), Some(Protocol::Esp));
        if is_ah_around_esp && self.mode == Mode::Tunnel && !self.is_udp_encapsulated {
            return Ok(());
        }
        Err(item
            .fault("must be AH, such as \"ah-sha256\", around a tunnel of ESP with udp = false"))
    }

    /// Its suites in one line, the inner one first.
    pub fn word(&self) -> Cow<'_, str> {
        match self.around {
            Some(around) => format!("{} in {around}", self.suite.word()).into(),
            None => self.suite.word().into(),
        }
    }

    /// The policy of one SA, with its protocol and algorithms. A policy of one layer keeps its own
    /// name for its own.
    pub(super) fn with(&self, protocol: Protocol, protection: Protection) -> Cow<'_, Self> {
        let own = self.suite.ipsec();
        let is_own = |own: &EspSuite| (own.protocol, own.protection) == (protocol, protection);
        if own.is_some_and(is_own) && self.around.is_none() {
            return Cow::Borrowed(self);
        }
        let suite = Suite::from(EspSuite::new(protocol, protection));
        let policy = Self {
            suite,
            around: None,
            ..self.clone()
        };
        Cow::Owned(policy)
    }

    /// The parameters of its packets' size; `None` of SKIP, and without protection.
    pub fn shape(&self) -> Option<Shape> {
        let suite = self.suite.ipsec()?;
        Some(Shape {
            protection: suite.protection,
            protocol: suite.protocol,
            mode: self.mode,
            // AH covers the outer addresses, so it works neither through a NAT nor in UDP
            is_udp_encapsulated: self.is_udp_encapsulated && suite.protocol == Protocol::Esp,
            is_outer_v6: self.is_outer_v6,
        })
    }

    /// The same of the AH around ESP.
    pub fn around_shape(&self) -> Option<Shape> {
        let around = self.around?;
        Some(Shape {
            protection: around.protection,
            protocol: around.protocol,
            mode: Mode::Tunnel,
            is_udp_encapsulated: false,
            is_outer_v6: self.is_outer_v6,
        })
    }

    /// Octets on the wire of a clear IP packet under ESP or AH, or without protection.
    pub fn wire_bytes(&self, packet: usize) -> usize {
        let own = self.shape();
        let sealed = own.map_or(packet, |shape| wire_bytes(&shape, packet));
        let around = self.around_shape();
        around.map_or(sealed, |shape| wire_bytes(&shape, sealed))
    }

    /// The largest clear IP packet that a path carries under ESP or AH, or without protection.
    pub fn largest_packet(&self, path_mtu: usize) -> usize {
        let around = self.around_shape();
        let room = around.map_or(path_mtu, |shape| shape.largest_packet(path_mtu));
        self.shape()
            .map_or(room, |shape| shape.largest_packet(room))
    }

    /// The rating of the suite by RFC 8221 and of the exchange's suite by RFC 8247: the algorithms,
    /// not the exchange itself, which [`Exchange::deprecated`] rates.
    pub fn standing(&self) -> Standing {
        let mut reasons = match self.suite.standing() {
            standing @ (Standing::Clear | Standing::LegacySkip(_)) => return standing,
            Standing::Current => Vec::new(),
            Standing::Legacy(reasons) => reasons,
        };
        for reason in self.around.iter().flat_map(EspSuite::legacy_reasons) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        if let Some(keys) = &self.keys {
            for reason in keys.proposal.legacy_reasons() {
                // PFS may use the exchange's group.
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        if reasons.is_empty() {
            Standing::Current
        } else {
            Standing::Legacy(reasons)
        }
    }
}

/// The keys of a file of `policies/`, those with a default included.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    title: &'a str,
    suite: &'a str,
    mode: &'a str,
    udp: bool,
    outer: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    around: Option<String>,
    keys: Option<WrittenKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip: Option<&'a SkipSuite>,
}

#[derive(Serialize)]
struct WrittenKeys {
    exchange: &'static str,
    proposal: String,
    proof: &'static str,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    cookie: bool,
    #[serde(skip_serializing_if = "core::clone::Clone::clone")]
    fragments: bool,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    resumed: bool,
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            name: &self.name,
            title: &self.title,
            suite: self.suite.word(),
            mode: said(&MODES, &self.mode),
            udp: self.is_udp_encapsulated,
            outer: if self.is_outer_v6 { 6 } else { 4 },
            around: self.around.map(|suite| suite.to_string()),
            keys: self.keys.map(|keys| WrittenKeys {
                exchange: said(&EXCHANGES, &keys.exchange),
                proposal: keys.proposal.to_string(),
                proof: said(&PROOFS, &keys.proof),
                cookie: keys.asks_cookie,
                fragments: keys.fragments,
                resumed: keys.is_resumed,
            }),
            skip: self.suite.skip(),
        };
        written.serialize(serializer)
    }
}

impl Keys {
    fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let exchange = table.need("exchange")?.choice("exchange", &EXCHANGES)?;
        let proposal = table.need("proposal")?;
        let proof = table.need("proof")?;
        let keys = Self {
            exchange,
            proposal: match exchange {
                Exchange::V2 => Proposal::V2(word(proposal)?),
                Exchange::Main | Exchange::Aggressive => Proposal::V1(word(proposal)?),
            },
            proof: proof.choice("proof", &PROOFS)?,
            asks_cookie: table.or("cookie", false, Item::boolean)?,
            fragments: table.or("fragments", true, Item::boolean)?,
            is_resumed: table.or("resumed", false, Item::boolean)?,
        };
        if exchange != Exchange::V2 {
            for key in ["cookie", "fragments", "resumed"] {
                table.refuse(key, "only exchange = \"ikev2\" has it")?;
            }
            if !keys.proof.is_of_ikev1() {
                return Err(proof.fault("only exchange = \"ikev2\" has this proof"));
            }
        }
        table.finish()?;
        Ok(keys)
    }
}

/// Algorithms by their words.
fn word<T: FromStr<Err = SuiteFault>>(item: &Item) -> Result<T, Fault> {
    let read = item.text()?.parse();
    read.map_err(|fault: SuiteFault| item.fault(fault.to_string()))
}

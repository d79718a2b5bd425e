//! The clients of phones and laptops that are not Caravan, as far as their messages are public:
//! proposals, payloads and their order. What they send is in [`Brand`]; the rest of this file is a
//! client that sends it.
//!
//! Apple: the proposals of a system that is set up by hand (strongSwan issue 2861), the payloads of
//! its IKE_AUTH from the same log. Android: AOSP's `VpnIkev2Utils`. Windows: logs of strongSwan
//! with the proposals of our script. `published.rs` compares with octets that others have
//! published.

use std::sync::Arc;

use crypto::key_exchange::{Initiator, Method};
use crypto::rand::{Seed as Randomness, Stream};
use wire::ikev2::transform::{encryption, integrity, key_exchange as group, prf};
use wire::ikev2::{
    AddressSelector, ConfigAttribute, ConfigKind, ConfigType, Configuration, Exchange,
    HashAlgorithm, Notify, NotifyType, Payload, Proposal, Protocol, TrafficSelector, Transform,
    TransformType,
};

use super::world::{Flight, PASSWORD, Proof, Setup, Who, World};
use crate::config::{Connection, IdentityPattern, LocalMethod};
use crate::identity::Identity;
use crate::ike::nat::{NatFinding, float};
use crate::ike::{Outbox, Role, Sent, Spi, Spis};
use crate::ikev1::tests::pair::{JANUARY_2027, signatures};
use crate::ikev2::auth::{
    certificate_request, check, check_key, identification, identity_of, prove, prove_key,
};
use crate::ikev2::between::Between;
use crate::ikev2::clear::{Clear, clear};
use crate::ikev2::eap::{LoggingIn, Step, login_of};
use crate::ikev2::init::{Init, detection};
use crate::ikev2::keys::{Keys, Nonces, Seed, of_child};
use crate::ikev2::message::Message;
use crate::ikev2::parts::{Parts, notify};
use crate::ikev2::ppk::Agreed;
use crate::ikev2::tasks::Awaited;
use crate::ikev2::window::{At, IkeSa, Opened, Read};
use crate::ikev2::{Abilities, exchange, proposal};
use crate::sa::Path;
use crate::suite::Ikev2Suite;
use crate::time::Instant;
use crate::work::Work;

/// Whose client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brand {
    Apple,
    Android,
    Windows,
}

use Brand::{Android, Apple, Windows};

const BRANDS: [Brand; 3] = [Apple, Android, Windows];
/// What a gateway accepts that names no proposals (the daemon's defaults).
const GATEWAY: &str = "aes128gcm16-prfsha256-curve25519 aes256gcm16-prfsha384-ecp384 \
                       chacha20poly1305-prfsha256-curve25519 aes128gcm16-prfsha256-ecp256 \
                       aes128-sha256-curve25519 aes128-sha256-modp2048 aes256-sha256-modp3072 \
                       aes256gcm16-prfsha256-ecp256 aes256-sha256-ecp256 aes256-sha256-modp2048";
const GATEWAY_ESP: &str = "aes128gcm16-curve25519 aes128-sha256-curve25519 aes128gcm16-modp2048 \
                           aes128-sha256-modp2048 aes128gcm16 aes128-sha256 aes256gcm16-modp2048 \
                           aes256-sha256-modp2048 aes256gcm16 aes256-sha256";
/// MS NT5 ISAKMPOAKLEY 9, MS-Negotiation Discovery Capable, Vid-Initial-Contact, and one without a
/// public name.
pub(super) const VENDORS: [&str; 4] = [
    "1e2b516905991c7d7c96fcbfb587e46100000009",
    "fb1de3cdf341b7ea16b7e5be0855f120",
    "26244d38eddb61b3172a36e3d0cfb819",
    "01528bbbc00696121849ab9a1c5b2a5100000002",
];
/// Windows' attributes for servers of names (MS-IKEE §2.2.9).
const INTERNAL_IP4_SERVER: ConfigKind = ConfigKind::Other(23_456);
const INTERNAL_IP6_SERVER: ConfigKind = ConfigKind::Other(23_457);
const SPI: [u8; 4] = [0x0c, 0xaf, 0xe0, 0x01];

fn aes(id: u16, bits: u16) -> Transform {
    Transform::with_key_length(id, bits)
}

fn of(kind: TransformType, ids: &[u16]) -> Vec<Transform> {
    ids.iter().map(|id| Transform::new(kind, *id)).collect()
}

fn proposals(protocol: Protocol, spi: &[u8], all: Vec<Vec<Transform>>) -> Vec<Proposal> {
    let numbered = (1..).zip(all);
    let one = |(number, transforms)| Proposal {
        number,
        protocol,
        spi: spi.to_vec(),
        transforms,
    };
    numbered.map(one).collect()
}

impl Brand {
    pub(super) fn ike(self) -> Vec<Proposal> {
        let gcm = |ciphers: Vec<Transform>, hash, method| {
            let prf = of(TransformType::Prf, &[hash]);
            [ciphers, prf, of(TransformType::KeyExchange, &[method])].concat()
        };
        let cbc = |hash, mac, method| {
            let mut all = gcm(vec![aes(encryption::AES_CBC, 256)], hash, method);
            let integrity = Transform::new(TransformType::Integrity, mac);
            all.insert(if self == Windows { 1 } else { 2 }, integrity);
            all
        };
        let all = match self {
            Apple => [group::ECP_256, group::MODP_2048]
                .map(|it| {
                    gcm(
                        vec![aes(encryption::AES_GCM_16, 256)],
                        prf::HMAC_SHA2_256,
                        it,
                    )
                })
                .into_iter()
                .chain(
                    [group::ECP_256, group::MODP_2048]
                        .map(|it| cbc(prf::HMAC_SHA2_256, integrity::HMAC_SHA2_256_128, it)),
                )
                .collect(),
            Windows => vec![cbc(
                prf::HMAC_SHA2_256,
                integrity::HMAC_SHA2_256_128,
                group::MODP_2048,
            )],
            Android => {
                let common = [
                    of(
                        TransformType::KeyExchange,
                        &[
                            group::MODP_4096,
                            group::CURVE25519,
                            group::MODP_3072,
                            group::MODP_2048,
                        ],
                    ),
                    of(
                        TransformType::Prf,
                        &[
                            prf::HMAC_SHA2_512,
                            prf::HMAC_SHA2_384,
                            prf::HMAC_SHA2_256,
                            prf::AES128_XCBC,
                            prf::AES128_CMAC,
                            prf::HMAC_SHA1,
                        ],
                    ),
                ]
                .concat();
                let [normal, aead] = android_ciphers();
                vec![[normal, common.clone()].concat(), [aead, common].concat()]
            }
        };
        proposals(Protocol::Ike, &[], all)
    }

    /// `pfs`: a group, when a child is renewed.
    fn esp(self, pfs: Option<Method>) -> Vec<Proposal> {
        let all = match self {
            Apple => vec![vec![aes(encryption::AES_GCM_16, 256)]],
            Windows => vec![vec![aes(encryption::AES_GCM_16, 256)]],
            Android => android_ciphers().to_vec(),
        };
        let rest = |mut ciphers: Vec<Transform>| {
            let pfs = pfs.map(|it| Transform::new(TransformType::KeyExchange, it.number()));
            ciphers.extend(pfs);
            ciphers.push(Transform::new(TransformType::SequenceNumbers, 0));
            ciphers
        };
        proposals(Protocol::Esp, &SPI, all.into_iter().map(rest).collect())
    }

    /// The group of its first message.
    fn first_group(self) -> Method {
        match self {
            Apple => Method::Ecp256,
            Android => Method::Modp4096,
            Windows => Method::Modp2048,
        }
    }

    pub(super) fn init(
        self,
        sa: Payload,
        ke: Payload,
        nonce: Payload,
        nat: [Payload; 2],
    ) -> Vec<Payload> {
        let fragments = notify(NotifyType::Ikev2FragmentationSupported);
        let [source, destination] = nat;
        match self {
            Apple => {
                let redirect = notify(NotifyType::RedirectSupported);
                vec![sa, ke, nonce, redirect, source, destination, fragments]
            }
            Android => {
                let hashes = [
                    HashAlgorithm::Sha1,
                    HashAlgorithm::Sha2_256,
                    HashAlgorithm::Sha2_384,
                    HashAlgorithm::Sha2_512,
                ];
                let hashes = Payload::Notify(Notify::hash_algorithms(&hashes));
                vec![sa, ke, nonce, source, destination, fragments, hashes]
            }
            Windows => {
                let ids = VENDORS.map(|id| Payload::VendorId(octets(id)));
                let mut all = vec![sa, ke, nonce, fragments, source, destination];
                all.extend(ids);
                all
            }
        }
    }

    /// The first request of IKE_AUTH. `proof`: CERT and AUTH, or nothing with EAP.
    fn auth(self, own: &Wishes, proof: Vec<Payload>) -> Vec<Payload> {
        let has_certificate = !proof.is_empty();
        let mut proof = proof.into_iter();
        let certificate: Vec<Payload> = proof.by_ref().take(usize::from(has_certificate)).collect();
        let auth: Vec<Payload> = proof.collect();
        let one = |payload: &Payload| vec![payload.clone()];
        let notice = |kind| vec![notify(kind)];
        let child = [own.sa.clone(), own.tsi.clone(), own.tsr.clone()].to_vec();
        match self {
            Apple => [
                one(&own.idi),
                certificate,
                notice(NotifyType::InitialContact),
                if has_certificate {
                    one(&own.certreq)
                } else {
                    Vec::new()
                },
                one(&own.idr),
                auth,
                one(&own.cp),
                notice(NotifyType::EspTfcPaddingNotSupported),
                notice(NotifyType::NonFirstFragmentsAlso),
                child,
                notice(NotifyType::MobikeSupported),
                notice(NotifyType::EapOnlyAuthentication),
            ]
            .concat(),
            // No IDr.
            Windows => [
                one(&own.idi),
                certificate,
                one(&own.certreq),
                auth,
                notice(NotifyType::MobikeSupported),
                one(&own.cp),
                child,
            ]
            .concat(),
            Android => [
                one(&own.idi),
                one(&own.idr),
                certificate,
                auth,
                child,
                one(&own.cp),
                notice(NotifyType::InitialContact),
                notice(NotifyType::MobikeSupported),
            ]
            .concat(),
        }
    }

    fn asked(self) -> Vec<ConfigKind> {
        use ConfigKind::*;
        match self {
            Apple => vec![
                InternalIp4Address,
                InternalIp4Netmask,
                InternalIp4Dhcp,
                InternalIp4Dns,
                InternalIp6Address,
                InternalIp6Dhcp,
                InternalIp6Dns,
                InternalDnsDomain,
            ],
            Windows => vec![
                InternalIp4Address,
                InternalIp4Dns,
                InternalIp4Nbns,
                INTERNAL_IP4_SERVER,
                InternalIp6Address,
                InternalIp6Dns,
                INTERNAL_IP6_SERVER,
            ],
            Android => vec![
                InternalIp4Address,
                InternalIp6Address,
                InternalIp4Dns,
                InternalIp6Dns,
                ApplicationVersion,
            ],
        }
    }

    /// Who it says that it is, by certificate or as a user.
    fn identity(self, has_certificate: bool) -> Identity {
        match (self, has_certificate) {
            // The subject; with EAP its address.
            (Windows, true) => {
                let LocalMethod::Signature { chain, .. } = signatures("station", &["station"]).0
                else {
                    unreachable!("a certificate");
                };
                let names = chain[0].names();
                let all = names.iter().filter_map(Identity::of_certificate);
                let mut subjects = all.filter(|it| matches!(it, Identity::DistinguishedName(_)));
                subjects.next().expect("a subject")
            }
            (Windows, false) => Identity::parse("10.0.0.2").unwrap(),
            (_, true) => Identity::parse("station@example").unwrap(),
            (_, false) => Identity::parse("alice").unwrap(),
        }
    }
}

/// AOSP's two lists: with integrity of their own, and with a mac.
fn android_ciphers() -> [Vec<Transform>; 2] {
    let mut normal = Vec::new();
    let mut aead = of(TransformType::Encryption, &[encryption::CHACHA20_POLY1305]);
    for bits in [256, 192, 128] {
        normal.extend([encryption::AES_CTR, encryption::AES_CBC].map(|id| aes(id, bits)));
        let all = [
            encryption::AES_GCM_16,
            encryption::AES_GCM_12,
            encryption::AES_GCM_8,
        ];
        aead.extend(all.map(|id| aes(id, bits)));
    }
    normal.extend(of(
        TransformType::Integrity,
        &[
            integrity::HMAC_SHA2_512_256,
            integrity::HMAC_SHA2_384_192,
            integrity::HMAC_SHA2_256_128,
            integrity::AES_XCBC_96,
            INTEGRITY_AES_CMAC_96,
        ],
    ));
    [normal, aead]
}

/// AUTH_AES_CMAC_96 (RFC 4494).
const INTEGRITY_AES_CMAC_96: u16 = 8;

pub(super) fn octets(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// What a first request of IKE_AUTH has, before it is put in order.
struct Wishes {
    idi: Payload,
    idr: Payload,
    certreq: Payload,
    cp: Payload,
    sa: Payload,
    tsi: Payload,
    tsr: Payload,
}

/// A client with a brand's messages.
struct Phone {
    brand: Brand,
    /// Its credentials, and the gateway's authority.
    connection: Arc<Connection>,
    is_natted: bool,
    random: Stream,
    path: Path,
    spi: Spi,
    nonce: Vec<u8>,
    half: Initiator,
    request: Vec<u8>,
    agreed: Option<(IkeSa, Init)>,
}

impl Phone {
    fn new(brand: Brand, setup: &Setup, is_natted: bool) -> Self {
        let mut random = Randomness::new([9; 32]).stream("phone", 0);
        let mut connection = setup.connection(true);
        connection.takes_rsa_sha1 = brand != Android;
        connection.remote.identities = vec![IdentityPattern::parse("gateway.example").unwrap()];
        let half = Initiator::generate(brand.first_group(), &mut random);
        Self {
            brand,
            connection: Arc::new(connection),
            is_natted,
            random,
            path: Path::udp(([10, 0, 0, 2], 500), ([192, 0, 2, 1], 500)),
            spi: Spi([7; 8]),
            nonce: vec![5; 32],
            half,
            request: Vec::new(),
            agreed: None,
        }
    }

    /// The path as the gateway sees it.
    fn deliver(&self, world: &mut World, sent: Sent) {
        let mut path = sent.path.reversed();
        if self.is_natted {
            let port = if path.local.port() == 500 {
                40_500
            } else {
                44_500
            };
            path.remote = ([198, 51, 100, 7], port).into();
        }
        for octets in core::iter::once(sent.message).chain(sent.more) {
            let name = String::new();
            world.receive(Who::Gateway, &Flight { path, octets, name });
        }
    }

    /// IKE_SA_INIT, again with the group that the gateway wants. Returns the groups that were sent.
    fn init(&mut self, world: &mut World) -> Vec<Method> {
        let mut groups = Vec::new();
        loop {
            groups.push(self.half.method());
            assert!(groups.len() < 3, "{groups:?} {:?}", world.gateway.facts);
            self.ask_init(world);
            let answer = world.hold(Who::Station).remove(0).octets;
            let message = Message::parse(&answer).unwrap();
            let found = message.read().unwrap();
            let parts = Parts::sort(message.octets(), &found.clear).unwrap();
            if let Some(notice) = parts.notice(NotifyType::InvalidKePayload) {
                let method = Method::of_number(notice.to_method().unwrap()).unwrap();
                self.half = Initiator::generate(method, &mut self.random);
                continue;
            }
            self.agree(&message, &parts);
            return groups;
        }
    }

    fn ask_init(&mut self, world: &mut World) {
        let responder = Spi([0; 8]);
        let spis = Spis {
            initiator: self.spi,
            responder,
        };
        let chain = self.brand.init(
            Payload::SecurityAssociation(self.brand.ike()),
            exchange::payload(&self.half),
            Payload::Nonce(self.nonce.clone()),
            detection(spis, self.path),
        );
        let head = Clear::request(Exchange::IkeSaInit);
        let sent = clear(head, spis, &chain, self.path);
        self.request = sent.message.clone();
        self.deliver(world, sent);
    }

    fn agree(&mut self, message: &Message<'_>, parts: &Parts<'_>) {
        let [answer] = parts.sa.unwrap() else {
            panic!("one proposal")
        };
        let suite = GATEWAY.split_whitespace().map(|it| it.parse().unwrap());
        let fits =
            |it: &Ikev2Suite| proposal::choose(&[*it], core::slice::from_ref(answer)).is_some();
        let suite: Ikev2Suite = suite
            .into_iter()
            .find(fits)
            .expect("a suite of the gateway");
        let mut work = Work::default();
        let shared = exchange::finish(&self.half, parts.exchange.unwrap(), &mut work).unwrap();
        let nonces = Nonces {
            initiator: &self.nonce,
            responder: parts.nonce.unwrap(),
        };
        let seed = Seed::first(suite.prf, nonces, shared.as_ref(), &mut work);
        let keys = Keys::derive(suite, &seed, nonces, message.spis(), &mut work).unwrap();
        let sa = IkeSa::new(message.spis(), Role::Initiator, suite, &keys, true).after_init();
        let hashes = (self.brand == Android)
            .then(|| Abilities::announced(parts).hashes)
            .flatten();
        let init = Init {
            suite,
            request: self.request.clone(),
            answer: message.octets().to_vec(),
            // No phone has it.
            covers_both: false,
            nonces: (self.nonce.clone(), parts.nonce.unwrap().to_vec()),
            p: keys.p,
            between: Between::default(),
            ppk: Agreed::default(),
            nat: NatFinding::default(),
            peer: Abilities {
                hashes,
                ..Abilities::default()
            },
            has_sha1: false,
            resumed: None,
        };
        self.path = float(self.path);
        self.agreed = Some((sa, init));
    }

    /// Sends a request, and opens the answer.
    fn ask(&mut self, world: &mut World, exchange: Exchange, chain: &[Payload]) -> Opened {
        let (sa, _) = self.agreed.as_mut().unwrap();
        let mut out = Outbox::default();
        let mut at = At {
            path: self.path,
            random: &mut self.random,
            now: Instant(0),
            out: &mut out,
        };
        sa.ask(exchange, chain, Awaited::End, None, &mut at);
        for sent in core::mem::take(&mut out.messages) {
            self.deliver(world, sent);
        }
        let answers = world.hold(Who::Station);
        let (sa, _) = self.agreed.as_mut().unwrap();
        for flight in answers {
            let message = Message::parse(&flight.octets).unwrap();
            if let Read::New(opened) = sa.read(self.path, &message, world.now, &mut out).unwrap() {
                sa.answered(Instant(0), &mut out);
                return opened;
            }
        }
        panic!("no answer: {:?}", world.gateway.facts);
    }

    /// IKE_AUTH. Returns the last answer.
    fn authenticate(&mut self, world: &mut World, has_certificate: bool) -> Opened {
        let brand = self.brand;
        let own = self.wishes(has_certificate);
        let body = own.idi.body();
        let proof = match has_certificate {
            true => {
                let (_, init) = self.agreed.as_ref().unwrap();
                let signed = init.initiator(&body);
                let mut work = Work::default();
                let connection = &self.connection;
                prove(connection, signed, &init.peer, &mut self.random, &mut work).unwrap()
            }
            false => Vec::new(),
        };
        let chain = brand.auth(&own, proof);
        let answer = self.ask(world, Exchange::IkeAuth, &chain);
        let gateway = self.believe(&answer);
        if has_certificate {
            return answer;
        }
        let parts = answer.parts().unwrap();
        let id = parts.responder.unwrap().1.to_vec();
        let login = login_of(&self.connection).unwrap();
        let mut login = LoggingIn::begin(login, gateway, &id, JANUARY_2027).unwrap();
        let mut answer = answer;
        loop {
            let step = login
                .on_packet(
                    &answer.parts().unwrap(),
                    JANUARY_2027,
                    (&mut self.random, &mut Work::default()),
                )
                .unwrap();
            let Step::Prove(key) = step else {
                let Step::Answer(packet) = step else {
                    unreachable!()
                };
                answer = self.ask(world, Exchange::IkeAuth, &[packet]);
                continue;
            };
            let mut work = Work::default();
            let (_, init) = self.agreed.as_ref().unwrap();
            let auth = prove_key(init.initiator(&body), &key, &mut work);
            let last = self.ask(world, Exchange::IkeAuth, &[auth]);
            let (_, init) = self.agreed.as_ref().unwrap();
            check_key(init.responder(&id), &key, &last.parts().unwrap(), &mut work).unwrap();
            return last;
        }
    }

    /// The gateway has proven itself by a certificate, which it has sent.
    fn believe(&self, answer: &Opened) -> crate::ike::auth::Proven {
        let parts = answer.parts().unwrap();
        assert!(
            !parts.certificates.is_empty(),
            "CERT is sent whether it is asked for or not"
        );
        let (id, body) = parts.responder.unwrap();
        let (_, init) = self.agreed.as_ref().unwrap();
        check(
            core::slice::from_ref(&self.connection),
            (&identity_of(id).unwrap(), None),
            &parts,
            (init.responder(body), &init.peer),
            JANUARY_2027,
            &mut Work::default(),
        )
        .unwrap()
    }

    fn wishes(&self, has_certificate: bool) -> Wishes {
        let id = self.brand.identity(has_certificate);
        let gateway = Identity::parse("gateway.example").unwrap();
        let attributes = self.brand.asked().into_iter().map(ConfigAttribute::request);
        let [tsi, tsr] = [(); 2].map(|()| everything());
        Wishes {
            idi: Payload::IdentificationInitiator(identification(&id)),
            idr: Payload::IdentificationResponder(identification(&gateway)),
            certreq: certificate_request(core::slice::from_ref(&self.connection)).unwrap(),
            cp: Payload::Configuration(Configuration {
                kind: ConfigType::Request,
                attributes: attributes.collect(),
            }),
            sa: Payload::SecurityAssociation(self.brand.esp(None)),
            tsi: Payload::TrafficSelectorsInitiator(tsi),
            tsr: Payload::TrafficSelectorsResponder(tsr),
        }
    }

    /// Renews the child, with PFS or without.
    fn renew(&mut self, world: &mut World, pfs: Option<Method>) -> Opened {
        let half = pfs.map(|method| Initiator::generate(method, &mut self.random));
        let spi = u32::from_be_bytes(SPI);
        let notice = Notify::of_child(NotifyType::RekeySa, Protocol::Esp, spi);
        let mut chain = vec![
            Payload::Notify(notice),
            Payload::SecurityAssociation(self.brand.esp(pfs)),
            Payload::Nonce(vec![6; 32]),
        ];
        chain.extend(half.as_ref().map(exchange::payload));
        chain.push(Payload::TrafficSelectorsInitiator(everything()));
        chain.push(Payload::TrafficSelectorsResponder(everything()));
        self.ask(world, Exchange::CreateChildSa, &chain)
    }
}

/// Both families.
fn everything() -> Vec<TrafficSelector> {
    let all = [
        ("0.0.0.0", "255.255.255.255"),
        ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];
    let range = |(first, last): (&str, &str)| {
        AddressSelector::of_addresses(first.parse().unwrap(), last.parse().unwrap())
    };
    all.map(|ends| TrafficSelector::Addresses(range(ends)))
        .to_vec()
}

fn setup(has_certificate: bool) -> Setup {
    Setup {
        station: match has_certificate {
            true => Proof::Certificate,
            false => Proof::Password(PASSWORD),
        },
        gateway: Proof::Certificate,
        gateway_suites: GATEWAY,
        esp: GATEWAY_ESP,
        mobike: [true; 2],
        ..Setup::default()
    }
}

/// A gateway that waits for phones.
fn gateway(setup: &Setup, takes_rsa_sha1: bool) -> World {
    let mut world = setup.world();
    world.to_gateway.clear();
    let connection = Arc::get_mut(&mut world.gateway.connection).unwrap();
    connection.remote.identities = vec![IdentityPattern::Any];
    connection.takes_rsa_sha1 = takes_rsa_sha1;
    world
}

/// A phone that is connected, and its gateway.
fn connected(brand: Brand, has_certificate: bool, is_natted: bool) -> (Phone, World, Opened) {
    let setup = setup(has_certificate);
    let mut world = gateway(&setup, brand != Android);
    let mut phone = Phone::new(brand, &setup, is_natted);
    phone.init(&mut world);
    let answer = phone.authenticate(&mut world, has_certificate);
    (phone, world, answer)
}

#[test]
fn each_brand_comes_up_by_certificate_and_by_password() {
    for brand in BRANDS {
        for (has_certificate, is_natted) in [(true, true), (true, false), (false, true)] {
            let case = format!("{brand:?} {has_certificate} {is_natted}");
            let (phone, world, answer) = connected(brand, has_certificate, is_natted);
            let session = world.gateway.session.as_ref().expect(&case);
            assert!(session.is_established(), "{case}");
            assert!(session.has_mobike(), "{case}");
            assert_eq!(session.nat().is_remote, is_natted, "{case}");
            assert_eq!(session.is_initial_contact(), brand != Windows, "{case}");
            let peer = session.identity().unwrap().to_string();
            let named = match (has_certificate, brand) {
                (true, Windows) => peer.contains("CN="),
                (true, _) => peer == "station@example",
                (false, _) => peer == "alice",
            };
            assert!(named, "{case}: {peer}");
            // The address, and the child narrowed to it and to the gateway's network.
            let parts = answer.parts().unwrap();
            let lent = parts.configuration.expect(&case);
            let kinds: Vec<ConfigKind> = lent.attributes.iter().map(|it| it.kind).collect();
            let wanted = [ConfigKind::InternalIp4Address, ConfigKind::InternalIp4Dns];
            assert_eq!(kinds, wanted, "{case}");
            assert_eq!(parts.traffic_i.unwrap().len(), 1, "{case}");
            let pair = &world.gateway.pairs[0].negotiated;
            assert_eq!(pair.local[0].to_string(), "10.1.0.0/16", "{case}");
            assert_eq!(
                pair.remote[0].to_string(),
                "10.9.0.7/32".trim_end_matches("/32"),
                "{case}"
            );
            let suite = match brand {
                Android => "aes128gcm16",
                Apple | Windows => "aes256gcm16",
            };
            assert_eq!(pair.suite.to_string(), suite, "{case}");
            // Both ends have the same keys.
            let (sa, init) = phone.agreed.as_ref().unwrap();
            let nonces = Nonces {
                initiator: &init.nonces.0,
                responder: &init.nonces.1,
            };
            let keys = of_child(
                (sa.suite.prf, &sa.d),
                pair.suite.protection,
                &[],
                nonces,
                &mut Work::default(),
            )
            .unwrap();
            assert!(
                keys[0].0.0 == pair.keys_in.0.0 && keys[1].0.0 == pair.keys_out.0.0,
                "{case}"
            );
        }
    }
}

#[test]
fn android_begins_with_a_group_of_4096_bits_and_is_told_a_better_one() {
    let setup = setup(true);
    let mut world = gateway(&setup, false);
    let groups = Phone::new(Android, &setup, true).init(&mut world);
    assert_eq!(groups, [Method::Modp4096, Method::Curve25519]);
    for (brand, group) in [(Apple, Method::Ecp256), (Windows, Method::Modp2048)] {
        let mut world = gateway(&setup, false);
        let groups = Phone::new(brand, &setup, true).init(&mut world);
        assert_eq!(groups, [group]);
    }
}

#[test]
fn who_announces_no_hashes_needs_a_gateway_that_signs_with_sha_1() {
    let setup = setup(true);
    for brand in BRANDS {
        let mut world = gateway(&setup, false);
        let mut phone = Phone::new(brand, &setup, true);
        phone.init(&mut world);
        let (is_refused, own) = (brand != Android, phone.wishes(true));
        let (_, init) = phone.agreed.as_ref().unwrap();
        let body = own.idi.body();
        let signed = init.initiator(&body);
        let connection = &phone.connection;
        let mut work = Work::default();
        let proof = prove(connection, signed, &init.peer, &mut phone.random, &mut work);
        let chain = brand.auth(&own, proof.unwrap());
        let answer = phone.ask(&mut world, Exchange::IkeAuth, &chain);
        let parts = answer.parts().unwrap();
        assert_eq!(
            parts.has(NotifyType::AuthenticationFailed),
            is_refused,
            "{brand:?}"
        );
        if is_refused {
            let why = world.gateway.fault.take().unwrap().to_string();
            assert!(why.contains("rsa_sha1 = true"), "{why}");
        }
    }
}

#[test]
fn a_child_is_renewed_with_pfs_and_without() {
    for (brand, pfs) in [
        (Apple, None),
        (Apple, Some(Method::Modp2048)),
        (Windows, None),
        (Windows, Some(Method::Modp2048)),
        (Android, None),
    ] {
        let (mut phone, mut world, _) = connected(brand, true, true);
        let answer = phone.renew(&mut world, pfs);
        let parts = answer.parts().unwrap();
        assert!(
            parts.error().is_none(),
            "{brand:?} {pfs:?}: {:?}",
            parts.error()
        );
        assert_eq!(parts.exchange.is_some(), pfs.is_some(), "{brand:?}");
        assert_eq!(world.gateway.pairs.len(), 2);
        let new = &world.gateway.pairs[1].negotiated;
        assert_eq!(new.suite.pfs.is_some(), pfs.is_some(), "{brand:?}");
    }
}

#[test]
fn windows_behind_a_nat_renews_its_children_alone() {
    for brand in BRANDS {
        for is_natted in [true, false] {
            let (_, world, _) = connected(brand, true, is_natted);
            let session = world.gateway.session.as_ref().unwrap();
            let is_left = brand == Windows && is_natted;
            assert_eq!(
                session.leaves_children_to_peer(),
                is_left,
                "{brand:?} {is_natted}"
            );
        }
    }
}

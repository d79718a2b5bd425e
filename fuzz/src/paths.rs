//! A small world of authorities built from an input, and two verdicts on its paths: ours, and that
//! of `rustls-webpki`, which serves TLS.
//!
//! If the rules of both agree, so must the verdicts. [`World::is_stricter_here`] and
//! [`World::is_laxer_here`] describe the intended differences. Name constraints, policies and
//! anyExtendedKeyUsage are never generated.

use std::sync::LazyLock;

use crypto::cert::{CertFault, Certificate, RevocationList, RevocationRule, TrustStore};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, SubjectPublicKeyInfo,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use time::OffsetDateTime;
use webpki::{
    BorrowedCertRevocationList, CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy,
};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
/// Certificates that the peer sends. Path search among more is not tested here.
const INTERMEDIATES: usize = 6;
/// Names and keys of authorities. The first name is the anchor's.
const NAMES: u8 = 4;
const KEYS: usize = 3;
const END_PUBLIC: &str = include_str!("../../crates/crypto/src/cert/keys/end.pub");
/// Content octets of ipsecIKE, serverAuth and clientAuth.
const PURPOSES: [&[u8]; 3] = [
    &[43, 6, 1, 5, 5, 7, 3, 17],
    &[43, 6, 1, 5, 5, 7, 3, 1],
    &[43, 6, 1, 5, 5, 7, 3, 2],
];

static AUTHORITY_KEYS: LazyLock<Vec<KeyPair>> = LazyLock::new(|| {
    let key = |_| KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    (0..KEYS).map(key).collect()
});

/// Reads an input. After its end every value is 0, which is the plain case.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// True one time in eight.
    fn seldom(&mut self) -> bool {
        self.next() % 8 == 7
    }
}

/// Certificates and lists, as both sides parse them.
pub struct World {
    anchor: Vec<u8>,
    others: Vec<Vec<u8>>,
    end: Vec<u8>,
    lists: Vec<Vec<u8>>,
    rule: RevocationRule,
    /// An authority may not sign certificates, by a key usage that webpki ignores.
    has_odd_usage: bool,
    /// An authority issued a certificate to itself. Here it does not count for path lengths, if
    /// there is a limit.
    has_self_issued: bool,
    has_length: bool,
    /// Authorities with one name have two keys. webpki refuses a certificate without its own
    /// issuer's list if the other one's is there; here the rule decides.
    has_two_keys: bool,
}

/// Name and key of an authority.
type Who = (u8, usize);

impl World {
    /// Builds a world from any input.
    pub fn new(input: &[u8]) -> Self {
        let mut script = Script(input);
        let root = (0, 0);
        let mut world = Self {
            anchor: signed(&mut Script(&[]), plain(root), root, Some(root.1)),
            others: Vec::new(),
            end: Vec::new(),
            lists: Vec::new(),
            rule: [
                RevocationRule::IfListed,
                RevocationRule::Strict,
                RevocationRule::Relaxed,
            ][usize::from(script.next()) % 3],
            has_odd_usage: false,
            has_self_issued: false,
            has_length: false,
            has_two_keys: false,
        };
        let mut known = vec![root];
        for at in 0..usize::from(script.next()) % (INTERMEDIATES + 1) {
            let who = (script.next() % NAMES, usize::from(script.next()) % KEYS);
            let by = known[usize::from(script.next()) % known.len()];
            let der = world.intermediate(&mut script, who, by, at);
            world.has_two_keys |= known.iter().any(|it| it.0 == who.0 && it.1 != who.1);
            known.push(who);
            world.others.push(der);
        }
        // Usually the last one.
        let back = usize::from(script.next()) % known.len();
        let by = known[known.len() - 1 - back];
        let mut params = params(&mut script, "end", 100);
        params.is_ca = IsCa::NoCa;
        world.end = signed(&mut script, params, by, None);
        let number = usize::from(script.next()) % 4;
        let mut listed: Vec<u8> = Vec::new();
        for _ in 0..number {
            let by = known[usize::from(script.next()) % known.len()];
            // Of several lists with one name webpki takes the first, we take the newest.
            if !listed.contains(&by.0) {
                listed.push(by.0);
                let list = world.list(&mut script, by);
                world.lists.push(list);
            }
        }
        world
    }

    fn intermediate(&mut self, script: &mut Script<'_>, who: Who, by: Who, at: usize) -> Vec<u8> {
        self.has_self_issued |= who.0 == by.0;
        let mut params = params(script, &name(who), at as u8 + 1);
        params.is_ca = match script.next() % 16 {
            13 => IsCa::NoCa,
            14 => IsCa::ExplicitNoCa,
            most @ (10..=12) => {
                self.has_length = true;
                IsCa::Ca(BasicConstraints::Constrained(most - 10))
            }
            _ => IsCa::Ca(BasicConstraints::Unconstrained),
        };
        params.key_usages = match script.next() % 16 {
            14 => {
                self.has_odd_usage = true;
                vec![KeyUsagePurpose::CrlSign]
            }
            15 => Vec::new(),
            _ => vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign],
        };
        signed(script, params, by, Some(who.1))
    }

    fn list(&mut self, script: &mut Script<'_>, by: Who) -> Vec<u8> {
        let first = u64::from(script.next() % 8);
        let serials = match script.next() % 4 {
            0 => vec![],
            1 => vec![first],
            _ => vec![100],
        };
        let is_over = script.seldom();
        // A forged list is harmless if lists are not required.
        let is_forged = script.seldom() && self.rule != RevocationRule::Relaxed;
        let entry = |serial: u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: moment(NOW - DAY),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: moment(NOW - 9 * DAY),
            next_update: moment(if is_over { NOW - DAY } else { NOW + DAY }),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.into_iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let key = match is_forged {
            true => (by.1 + 1) % KEYS,
            false => by.1,
        };
        let issuer = plain(by);
        let issuer = Issuer::from_params(&issuer, &AUTHORITY_KEYS[key]);
        list.signed_by(&issuer).expect("a list").der().to_vec()
    }

    /// Compares both verdicts.
    pub fn check(&self) {
        let ours = self.ours(false);
        let backwards = self.ours(true);
        if is_too_much(&ours) || is_too_much(&backwards) {
            return;
        }
        assert_eq!(
            ours.is_ok(),
            backwards.is_ok(),
            "the order of certificates decides: {ours:?}, {backwards:?}"
        );
        let theirs = self.theirs();
        match (&ours, &theirs) {
            (Ok(()), Err(fault)) => {
                assert!(
                    self.is_laxer_here(),
                    "accepted, which the web refuses: {fault:?}"
                );
            }
            (Err(fault), Ok(())) => {
                assert!(
                    self.is_stricter_here(),
                    "refused, which the web accepts: {fault}"
                );
            }
            _ => {}
        }
    }

    fn is_stricter_here(&self) -> bool {
        self.has_odd_usage
    }

    fn is_laxer_here(&self) -> bool {
        let is_relaxed = self.rule == RevocationRule::Relaxed && !self.lists.is_empty();
        (self.has_self_issued && self.has_length) || (is_relaxed && self.has_two_keys)
    }

    fn ours(&self, is_backwards: bool) -> Result<(), CertFault> {
        let read = |der: &Vec<u8>| Certificate::from_der(der).expect("rcgen's certificates read");
        let list = |der: &Vec<u8>| RevocationList::parse(der).expect("rcgen's lists read");
        let store = TrustStore {
            authorities: vec![read(&self.anchor)],
            revocations: self.lists.iter().map(list).collect(),
            revocation: self.rule,
            ..TrustStore::default()
        };
        let mut others: Vec<_> = self.others.iter().map(read).collect();
        if is_backwards {
            others.reverse();
        }
        let verified = store.verify(&read(&self.end), &others, NOW)?;
        assert_eq!(store.disbelieved_since(&verified.path, NOW), None);
        Ok(())
    }

    /// Whether webpki finds a path for one of the purposes that serve IKE.
    fn theirs(&self) -> Result<(), webpki::Error> {
        let mut found = Err(webpki::Error::UnknownIssuer);
        for purpose in PURPOSES {
            found = self.theirs_for(KeyUsage::required_if_present(purpose));
            if found.is_ok() {
                break;
            }
        }
        found
    }

    fn theirs_for(&self, purpose: KeyUsage) -> Result<(), webpki::Error> {
        let anchor = CertificateDer::from(&self.anchor[..]);
        let anchors = [webpki::anchor_from_trusted_cert(&anchor)?];
        let others: Vec<_> = self
            .others
            .iter()
            .map(|der| CertificateDer::from(&der[..]))
            .collect();
        let end = CertificateDer::from(&self.end[..]);
        let end = EndEntityCert::try_from(&end)?;
        let lists = self.lists.iter().map(|der| {
            let list = BorrowedCertRevocationList::from_der(der).expect("rcgen's lists read");
            CertRevocationList::from(list)
        });
        let lists: Vec<CertRevocationList<'_>> = lists.collect();
        let lists: Vec<&CertRevocationList<'_>> = lists.iter().collect();
        let (unknown, over) = match self.rule {
            RevocationRule::Strict => (UnknownStatusPolicy::Deny, ExpirationPolicy::Enforce),
            RevocationRule::IfListed => (UnknownStatusPolicy::Allow, ExpirationPolicy::Enforce),
            RevocationRule::Relaxed => (UnknownStatusPolicy::Allow, ExpirationPolicy::Ignore),
        };
        let options = match RevocationOptionsBuilder::new(&lists) {
            Ok(options) => Some(
                options
                    .with_depth(RevocationCheckDepth::Chain)
                    .with_status_policy(unknown)
                    .with_expiration_policy(over)
                    .build(),
            ),
            // webpki's strict rule applies from the first list on.
            Err(_) if self.rule == RevocationRule::Strict => {
                return Err(webpki::Error::UnknownRevocationStatus);
            }
            Err(_) => None,
        };
        let at = UnixTime::since_unix_epoch(core::time::Duration::from_secs(NOW as u64));
        end.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &others,
            at,
            purpose,
            options,
            None,
        )
        .map(|_| ())
    }
}

/// Our limit on signatures is lower.
fn is_too_much(found: &Result<(), CertFault>) -> bool {
    matches!(found, Err(CertFault::TooMany))
}

fn name((name, _): Who) -> String {
    format!("authority {name}")
}

/// An authority without limits.
fn plain(who: Who) -> CertificateParams {
    let mut params = params(&mut Script(&[]), &name(who), 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The common parameters of end entities and authorities.
fn params(script: &mut Script<'_>, name: &str, serial: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from(u64::from(serial)));
    (params.not_before, params.not_after) = match script.next() % 16 {
        13 => (moment(NOW + 1), moment(NOW + DAY)),
        14 => (moment(NOW - DAY), moment(NOW - 1)),
        15 => (moment(NOW), moment(NOW)),
        _ => (moment(NOW - DAY), moment(NOW + DAY)),
    };
    let bits = script.next();
    let purposes = [
        (
            0x11,
            ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 17]),
        ),
        (0x22, ExtendedKeyUsagePurpose::ServerAuth),
        (0x44, ExtendedKeyUsagePurpose::ClientAuth),
        (0x88, ExtendedKeyUsagePurpose::CodeSigning),
    ];
    let chosen = purposes
        .into_iter()
        .filter(|(both, _)| bits & both == *both);
    params.extended_key_usages = chosen.map(|(_, purpose)| purpose).collect();
    if script.seldom() {
        let mut odd = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        odd.set_criticality(script.next() % 2 == 1);
        params.custom_extensions = vec![odd];
    }
    params
}

/// Signs for one of the authorities' keys, or for the fixed RSA key of the end entity; sometimes
/// with another key than the issuer's.
fn signed(
    script: &mut Script<'_>,
    params: CertificateParams,
    by: Who,
    key: Option<usize>,
) -> Vec<u8> {
    let is_forged = script.next() % 16 == 15;
    let signer = match is_forged {
        true => (by.1 + 1) % KEYS,
        false => by.1,
    };
    let issuer = plain(by);
    let issuer = Issuer::from_params(&issuer, &AUTHORITY_KEYS[signer]);
    let made = match key {
        Some(key) => params.signed_by(&AUTHORITY_KEYS[key], &issuer),
        None => {
            let public = SubjectPublicKeyInfo::from_pem(END_PUBLIC).expect("a key");
            params.signed_by(&public, &issuer)
        }
    };
    made.expect("a certificate").der().to_vec()
}

fn moment(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).expect("a moment of the calendar")
}

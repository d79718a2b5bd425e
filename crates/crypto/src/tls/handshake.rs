//! A handshake of TLS in which both ends have certificates, without sockets: octets in, octets out.
//!
//! It is rustls with its provider of aws-lc, versions 1.2 and 1.3. Ours are: which certificates are
//! trusted ([`TrustStore`], with its lists), the calendar, the private key, and the salts of its
//! signatures. The randoms of the handshake and its ephemeral keys come from aws-lc, which asks the
//! system. Left out: tickets and resumption, and certificates' names, which the caller compares.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error,
    ProtocolVersion, ServerConfig, ServerConnection, SignatureAlgorithm, SignatureScheme,
};
use zeroize::Zeroizing;

use super::TlsFault;
use crate::cert::{Certificate, LeafKeys, TrustStore};
use crate::curve::Curve;
use crate::hash::Hash;
use crate::ml_dsa::MlDsa;
use crate::rand::Stream;
use crate::sign::{KeyKind, PrivateKey, Scheme};

/// Octets of the exported key.
pub const KEY_LEN: usize = 64;
/// Octets of the exported material, whose first half is the key (RFC 9190 §2.3). With TLS 1.3 their
/// number counts in each of them.
const MATERIAL_LEN: usize = 2 * KEY_LEN;

/// What one end of a handshake has.
pub struct End {
    /// Its private key.
    pub key: Arc<PrivateKey>,
    /// Its certificate, then intermediates.
    pub chain: Vec<Certificate>,
    /// Whom it trusts.
    pub trusted: Arc<TrustStore>,
}

/// A handshake, and the connection that it makes.
pub struct Handshake(Connection);

/// Why a handshake ended, and what the peer is told.
pub struct Broken {
    /// rustls's words.
    pub fault: TlsFault,
    /// Octets with the alert.
    pub alert: Vec<u8>,
}

impl Handshake {
    /// The client's side at calendar time `now`, seconds since 1970.
    pub fn client(end: &End, now: i64, random: Stream) -> Result<Self, TlsFault> {
        let (provider, trust, time) = details(end, now);
        let mut config = ClientConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .dangerous()
            .with_custom_certificate_verifier(trust)
            .with_client_cert_resolver(Arc::new(certified(end, random)));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        // Nobody sends or compares it.
        let name = ServerName::try_from("gateway").map_err(|_| TlsFault::NoAuthority)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(refused)?;
        Ok(Self(connection.into()))
    }

    /// The server's side.
    pub fn server(end: &End, now: i64, random: Stream) -> Result<Self, TlsFault> {
        let (provider, trust, time) = details(end, now);
        let mut config = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_client_cert_verifier(trust)
            .with_cert_resolver(Arc::new(certified(end, random)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let connection = ServerConnection::new(Arc::new(config)).map_err(refused)?;
        Ok(Self(connection.into()))
    }

    /// Takes octets of the peer. Gives ours.
    pub fn take(&mut self, mut octets: &[u8]) -> Result<Vec<u8>, Broken> {
        while !octets.is_empty() {
            let read = self.0.read_tls(&mut octets);
            let went = match read {
                Ok(0) => break,
                Ok(_) => self.0.process_new_packets().map(drop),
                Err(fault) => Err(Error::General(fault.to_string())),
            };
            if let Err(fault) = went {
                let alert = self.ours();
                let fault = refused(fault);
                return Err(Broken { fault, alert });
            }
        }
        Ok(self.ours())
    }

    /// What we have to send.
    pub fn ours(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        while self.0.wants_write() {
            if self.0.write_tls(&mut octets).is_err() {
                break;
            }
        }
        octets
    }

    /// Whether both ends have proven themselves.
    pub fn is_done(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// Whether it is TLS 1.3.
    pub fn is_of_version_13(&self) -> bool {
        self.0.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// The peer's certificates in DER, its own first.
    pub fn peer(&self) -> Vec<Vec<u8>> {
        let chain = self.0.peer_certificates().unwrap_or_default();
        chain.iter().map(|it| it.as_ref().to_vec()).collect()
    }

    /// A key that only both ends have (RFC 5705, RFC 8446 §7.5).
    pub fn export(
        &self,
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<Zeroizing<[u8; KEY_LEN]>, TlsFault> {
        let mut material = Zeroizing::new([0_u8; MATERIAL_LEN]);
        let whole = &mut material[..];
        let export = self.0.export_keying_material(whole, label, context);
        export.map_err(refused)?;
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(&material[..KEY_LEN]);
        Ok(key)
    }

    /// Sends octets under the keys of the connection.
    pub fn say(&mut self, octets: &[u8]) -> bool {
        self.0.writer().write_all(octets).is_ok()
    }

    /// Octets of the peer under these keys, up to as many as fit.
    pub fn heard(&mut self, most: usize) -> Vec<u8> {
        let mut octets = vec![0; most];
        let read = self.0.reader().read(&mut octets).unwrap_or(0);
        octets.truncate(read);
        octets
    }
}

fn refused(fault: Error) -> TlsFault {
    TlsFault::Refused(fault.to_string())
}

fn details(end: &End, now: i64) -> (Arc<CryptoProvider>, Arc<Trust>, Arc<Date>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let authorities = end.trusted.authorities.iter();
    let trust = Trust {
        hints: authorities.map(|it| it.subject_der().into()).collect(),
        store: Arc::clone(&end.trusted),
        provider: Arc::clone(&provider),
        now,
    };
    (provider, Arc::new(trust), Arc::new(Date(now)))
}

/// The calendar.
#[derive(Debug)]
struct Date(i64);

impl TimeProvider for Date {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Trusts certificates as IKE does.
struct Trust {
    store: Arc<TrustStore>,
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
    now: i64,
}

impl core::fmt::Debug for Trust {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    fn check(&self, leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        let read = |der: &CertificateDer<'_>| {
            Certificate::from_der(der).map_err(|fault| Error::General(fault.to_string()))
        };
        let leaf = read(leaf)?;
        let others = others.iter().take(MAX_CHAIN).map(read);
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let verified = self
            .store
            .verify_with(LeafKeys::Any, &leaf, &others, self.now);
        match verified {
            Ok(_) => Ok(()),
            Err(fault) => Err(Error::General(fault.to_string())),
        }
    }

    fn is_signed(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        is_13: bool,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match is_13 {
            true => verify_tls13_signature(message, leaf, signed, algorithms),
            false => verify_tls12_signature(message, leaf, signed, algorithms),
        }
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.is_signed(message, cert, dss, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.is_signed(message, cert, dss, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Trust {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.is_signed(message, cert, dss, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.is_signed(message, cert, dss, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

/// Intermediate certificates that are read at most.
const MAX_CHAIN: usize = 8;

fn certified(end: &End, random: Stream) -> SingleCertAndKey {
    let chain = end.chain.iter();
    let chain = chain.map(|it| CertificateDer::from(it.der().to_vec()));
    let own = Own {
        key: Arc::clone(&end.key),
        random: Arc::new(Mutex::new(random)),
        scheme: SignatureScheme::ED25519,
    };
    CertifiedKey::new(chain.collect(), Arc::new(own)).into()
}

/// Our key. Its salts come from our stream.
#[derive(Clone)]
struct Own {
    key: Arc<PrivateKey>,
    random: Arc<Mutex<Stream>>,
    /// The chosen one.
    scheme: SignatureScheme,
}

impl core::fmt::Debug for Own {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Own")
    }
}

impl SigningKey for Own {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let mut fitting = schemes(self.key.kind()).iter();
        let scheme = *fitting.find(|it| offered.contains(it))?;
        Some(Box::new(Self {
            scheme,
            ..self.clone()
        }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.key.kind() {
            KeyKind::Rsa { .. } => SignatureAlgorithm::RSA,
            KeyKind::Ecdsa(_) => SignatureAlgorithm::ECDSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
            // TLS 1.2 has no number for it.
            KeyKind::MlDsa(_) => SignatureAlgorithm::Unknown(0),
        }
    }
}

impl Signer for Own {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let general = |text: String| Error::General(text);
        let scheme = scheme_of(self.scheme).ok_or_else(|| general("no such scheme".into()))?;
        let random = self.random.lock();
        let mut random = random.map_err(|fault| general(fault.to_string()))?;
        let signature = self.key.sign(scheme, &[message], &mut random);
        signature.map_err(|fault| general(fault.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// The schemes of a key, the best first.
fn schemes(kind: KeyKind) -> &'static [SignatureScheme] {
    match kind {
        KeyKind::Rsa { .. } => &[
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
        ],
        KeyKind::Ecdsa(Curve::P256) => &[SignatureScheme::ECDSA_NISTP256_SHA256],
        KeyKind::Ecdsa(Curve::P384) => &[SignatureScheme::ECDSA_NISTP384_SHA384],
        KeyKind::Ecdsa(Curve::P521) => &[SignatureScheme::ECDSA_NISTP521_SHA512],
        KeyKind::Ed25519 => &[SignatureScheme::ED25519],
        KeyKind::MlDsa(MlDsa::Set44) => &[SignatureScheme::ML_DSA_44],
        KeyKind::MlDsa(MlDsa::Set65) => &[SignatureScheme::ML_DSA_65],
        KeyKind::MlDsa(MlDsa::Set87) => &[SignatureScheme::ML_DSA_87],
    }
}

fn scheme_of(scheme: SignatureScheme) -> Option<Scheme> {
    Some(match scheme {
        SignatureScheme::RSA_PSS_SHA256 => Scheme::RsaPss(Hash::Sha256),
        SignatureScheme::RSA_PSS_SHA384 => Scheme::RsaPss(Hash::Sha384),
        SignatureScheme::RSA_PSS_SHA512 => Scheme::RsaPss(Hash::Sha512),
        SignatureScheme::RSA_PKCS1_SHA256 => Scheme::RsaPkcs1(Hash::Sha256),
        SignatureScheme::RSA_PKCS1_SHA384 => Scheme::RsaPkcs1(Hash::Sha384),
        SignatureScheme::RSA_PKCS1_SHA512 => Scheme::RsaPkcs1(Hash::Sha512),
        SignatureScheme::ECDSA_NISTP256_SHA256 => Scheme::Ecdsa(Hash::Sha256),
        SignatureScheme::ECDSA_NISTP384_SHA384 => Scheme::Ecdsa(Hash::Sha384),
        SignatureScheme::ECDSA_NISTP521_SHA512 => Scheme::Ecdsa(Hash::Sha512),
        SignatureScheme::ED25519 => Scheme::Ed25519,
        SignatureScheme::ML_DSA_44 => Scheme::MlDsa(MlDsa::Set44),
        SignatureScheme::ML_DSA_65 => Scheme::MlDsa(MlDsa::Set65),
        SignatureScheme::ML_DSA_87 => Scheme::MlDsa(MlDsa::Set87),
        _ => return None,
    })
}

//! PKCS #12 (RFC 7292): a private key with its certificates in one file, under a password.
//!
//! Salts are of the operating system, through the library. Left out: reading, files without a key,
//! and wiping the copies of the key that the library makes: a process that writes such a file ends
//! soon.

use p12_keystore::{
    Certificate, EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm, PrivateKey,
    PrivateKeyChain,
};

use crate::hash::Hash;

/// How often a password is hashed. It is random and needs no more.
const ITERATIONS: u32 = 10_000;

/// How a file is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// AES-256 in CBC mode, its key by PBKDF2 with HMAC-SHA-256, and a mac of HMAC-SHA-256.
    Aes256,
    /// Triple DES, its key by the KDF of RFC 7292 appendix B with SHA-1, and a mac of HMAC-SHA-1.
    /// Apple's systems read nothing better in a profile. It is legacy; only the password, which is
    /// random, keeps it safe.
    TripleDes,
}

/// Why no file is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write PKCS #12: {0}")]
pub struct Pkcs12Fault(String);

/// A file with a key (PKCS #8, DER) and certificates (DER): the key's own first, authorities after
/// it. `name` is what people see.
pub fn write(
    name: &str,
    key: &[u8],
    chain: &[&[u8]],
    password: &str,
    encryption: Encryption,
) -> Result<Vec<u8>, Pkcs12Fault> {
    let fault = |error: p12_keystore::error::Error| Pkcs12Fault(error.to_string());
    let certificates: Vec<Certificate> = chain
        .iter()
        .map(|der| Certificate::from_der(der).map_err(fault))
        .collect::<Result<_, _>>()?;
    // Programs find the key's certificate by this number; any is fine.
    let own = chain.first().copied().unwrap_or_default();
    let number = Hash::Sha1.digest(&[own]);
    let key = PrivateKey::from_der(key).map_err(fault)?;
    let entry = PrivateKeyChain::new(number.as_ref(), key, certificates);
    let mut store = KeyStore::new();
    store.add_entry(name, KeyStoreEntry::PrivateKeyChain(entry));
    let (cipher, mac) = match encryption {
        Encryption::Aes256 => (
            EncryptionAlgorithm::PbeWithHmacSha256AndAes256,
            MacAlgorithm::HmacSha256,
        ),
        Encryption::TripleDes => (
            EncryptionAlgorithm::PbeWithShaAnd3KeyTripleDesCbc,
            MacAlgorithm::HmacSha1,
        ),
    };
    store
        .writer(password)
        .encryption_algorithm(cipher)
        .encryption_iterations(ITERATIONS)
        .mac_algorithm(mac)
        .mac_iterations(ITERATIONS)
        .write()
        .map_err(fault)
}

#[cfg(test)]
mod tests {
    use p12_keystore::Pkcs12ImportPolicy;

    use super::*;
    use crate::cert::{Authority, Certificate as Read, KeyMaterial, Request, SigningKey};

    const NOW: i64 = 1_800_000_000;

    fn made(encryption: Encryption) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let own = SigningKey::generate(2048).unwrap();
        let authority = SigningKey::generate(2048).unwrap();
        let authority = Authority::create("CN=ca", authority, &[1], NOW, 9).unwrap();
        let request = Request {
            subject: "CN=phone",
            alternative_names: &[],
            key: KeyMaterial::Pair(&own),
            serial: &[2],
            now: NOW,
            days: 9,
        };
        let text = authority.issue(&request).unwrap();
        let certificate = Read::all_from_pem(&text).unwrap().remove(0).der().to_vec();
        let chain = [&certificate[..], &authority.certificate_der().unwrap()];
        let file = write("phone", &own.to_der(), &chain, "a password", encryption).unwrap();
        (file, own.to_der().to_vec(), certificate)
    }

    #[test]
    fn a_file_has_the_key_and_its_chain_for_the_password_alone() {
        for encryption in [Encryption::Aes256, Encryption::TripleDes] {
            let (file, key, certificate) = made(encryption);
            let open =
                |password: &str| KeyStore::from_pkcs12(&file, password, Pkcs12ImportPolicy::Strict);
            let store = open("a password").unwrap();
            let (name, chain) = store.private_key_chain().unwrap();
            assert_eq!(name, "phone");
            assert_eq!(chain.key().as_der(), key);
            assert_eq!(chain.certs().len(), 2);
            assert_eq!(chain.certs()[0].as_der(), certificate);
            assert!(open("another password").is_err());
            // The certificate is not in clear, either.
            let part = &certificate[40..72];
            assert!(!file.windows(part.len()).any(|window| window == part));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let (_, key, certificate) = made(Encryption::Aes256);
        let write = |key: &[u8], own: &[u8]| write("x", key, &[own], "y", Encryption::Aes256);
        assert!(write(&key, &certificate).is_ok());
        assert!(write(b"no key", &certificate).is_err());
        assert!(write(&key, b"no certificate").is_err());
    }
}

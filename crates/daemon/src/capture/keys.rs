//! The folder of keys beside a capture: a Wireshark configuration folder (mode 0700, files 0600).
//!
//! Wireshark 4 cannot read ChaCha20-Poly1305 keys, so these lines are written as comments.

use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use engine::ike::{DirectionKeys, MessageKeys, Spis};
use engine::sa::{Ipsec, Layer, Protocol, Sa, Secret};
use nix::unistd::Uid;
use zeroize::Zeroizing;

use crate::files;

/// The folder, open for more keys.
pub struct Keys {
    folder: PathBuf,
    esp: File,
    ikev1: File,
    ikev2: File,
}

impl Keys {
    /// Creates `capture` + `.keys` with preferences that enable decryption.
    pub fn create(capture: &Path) -> io::Result<Self> {
        let mut folder = capture.as_os_str().to_owned();
        folder.push(".keys");
        let folder = PathBuf::from(folder);
        let opened = files::make_folder(&folder, 0o700)?;
        let found = opened.metadata()?;
        if found.uid() != Uid::effective().as_raw() {
            let text = format!("user {} owns {}", found.uid(), folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        // An older folder may be accessible to others.
        opened.set_permissions(Permissions::from_mode(0o700))?;
        let preferences =
            b"esp.enable_encryption_decode: TRUE\nesp.enable_authentication_check: TRUE\n";
        files::replace(&opened, "preferences", preferences)?;
        Ok(Self {
            esp: files::replace(&opened, "esp_sa", b"")?,
            ikev1: files::replace(&opened, "ikev1_decryption_table", b"")?,
            ikev2: files::replace(&opened, "ikev2_decryption_table", b"")?,
            folder,
        })
    }

    /// The folder's path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds the keys of one direction of a child. AH and tunnels have nothing to decrypt. Returns
    /// `false` if Wireshark cannot read keys of this suite; its packets stay encrypted there.
    pub fn add_sa(&mut self, sa: &Sa) -> io::Result<bool> {
        let Layer::Ipsec(ipsec) = &sa.layer else {
            return Ok(true);
        };
        if ipsec.protocol == Protocol::Ah {
            return Ok(true);
        }
        let line = Zeroizing::new(esp_line(sa.path.remote.is_ipv4(), ipsec));
        self.esp.write_all(line.as_bytes())?;
        self.esp.flush()?;
        Ok(encryption_name(ipsec.protection).is_some())
    }

    /// Adds the keys of an IKE SA. Returns `false` if Wireshark cannot read keys of this suite.
    pub fn add_ike(&mut self, spis: Spis, keys: &MessageKeys) -> io::Result<bool> {
        let (file, line, is_read) = match keys {
            MessageKeys::V1(key) => (&mut self.ikev1, ikev1_line(spis, key), true),
            MessageKeys::V2(keys) => {
                let is_read = ikev2_encryption_name(keys.protection).is_some();
                (&mut self.ikev2, ikev2_line(spis, keys), is_read)
            }
        };
        file.write_all(line.as_bytes())?;
        file.flush()?;
        Ok(is_read)
    }
}

/// IKEv1's SA is named by its initiator's cookie.
fn ikev1_line(spis: Spis, key: &Secret) -> Zeroizing<String> {
    Zeroizing::new(format!("{},{}\n", &*hex(&spis.initiator.0), &*hex(&key.0)))
}

/// SPIs of initiator and responder, SK_ei, SK_er, the cipher, SK_ai, SK_ar, the integrity.
fn ikev2_line(spis: Spis, keys: &DirectionKeys) -> Zeroizing<String> {
    let known = ikev2_encryption_name(keys.protection);
    let comment = if known.is_some() { "" } else { "# " };
    Zeroizing::new(format!(
        "{comment}{},{},{},{},\"{}\",{},{},\"{}\"\n",
        &*hex(&spis.initiator.0),
        &*hex(&spis.responder.0),
        &*hex(&keys.initiator.0.0),
        &*hex(&keys.responder.0.0),
        known.unwrap_or("a cipher that Wireshark cannot read"),
        &*hex(&keys.initiator.1.0),
        &*hex(&keys.responder.1.0),
        ikev2_integrity_name(keys.protection),
    ))
}

fn ikev2_encryption_name(protection: Protection) -> Option<&'static str> {
    Some(match protection.encryption {
        Encryption::Cbc(Cipher::TripleDes) => "3DES [RFC2451]",
        Encryption::Cbc(Cipher::Aes128) => "AES-CBC-128 [RFC3602]",
        Encryption::Cbc(Cipher::Aes192) => "AES-CBC-192 [RFC3602]",
        Encryption::Cbc(Cipher::Aes256) => "AES-CBC-256 [RFC3602]",
        Encryption::AesGcm { key_len: 16 } => "AES-GCM-128 with 16 octet ICV [RFC5282]",
        Encryption::AesGcm { key_len: 24 } => "AES-GCM-192 with 16 octet ICV [RFC5282]",
        Encryption::AesGcm { .. } => "AES-GCM-256 with 16 octet ICV [RFC5282]",
        Encryption::Null | Encryption::Cbc(Cipher::Des) | Encryption::ChaCha20Poly1305 => {
            return None;
        }
    })
}

fn ikev2_integrity_name(protection: Protection) -> &'static str {
    match protection.integrity {
        Integrity::None => "NONE [RFC4306]",
        Integrity::Hmac(Hash::Md5) => "HMAC_MD5_96 [RFC2403]",
        Integrity::Hmac(Hash::Sha1) => "HMAC_SHA1_96 [RFC2404]",
        Integrity::Hmac(Hash::Sha256) => "HMAC_SHA2_256_128 [RFC4868]",
        Integrity::Hmac(Hash::Sha384) => "HMAC_SHA2_384_192 [RFC4868]",
        Integrity::Hmac(Hash::Sha512) => "HMAC_SHA2_512_256 [RFC4868]",
    }
}

fn esp_line(is_v4: bool, ipsec: &Ipsec) -> String {
    let family = if is_v4 { "IPv4" } else { "IPv6" };
    let protection = ipsec.protection;
    let known = encryption_name(protection);
    let comment = if known.is_some() { "" } else { "# " };
    format!(
        "{comment}\"{family}\",\"*\",\"*\",\"0x{:08x}\",\"{}\",\"{}\",\"{}\",\"{}\"\n",
        ipsec.spi,
        known.unwrap_or("ChaCha20 with Poly1305 [RFC7634]"),
        &*key(&ipsec.keys.encryption.0),
        integrity_name(protection),
        &*key(&ipsec.keys.integrity.0),
    )
}

fn encryption_name(protection: Protection) -> Option<&'static str> {
    Some(match protection.encryption {
        Encryption::Null => "NULL",
        Encryption::Cbc(Cipher::Des) => "DES-CBC [RFC2405]",
        Encryption::Cbc(Cipher::TripleDes) => "TripleDES-CBC [RFC2451]",
        Encryption::Cbc(Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256) => "AES-CBC [RFC3602]",
        Encryption::AesGcm { .. } => "AES-GCM with 16 octet ICV [RFC4106]",
        Encryption::ChaCha20Poly1305 => return None,
    })
}

fn integrity_name(protection: Protection) -> &'static str {
    match protection.integrity {
        Integrity::None => "NULL",
        Integrity::Hmac(Hash::Md5) => "HMAC-MD5-96 [RFC2403]",
        Integrity::Hmac(Hash::Sha1) => "HMAC-SHA-1-96 [RFC2404]",
        Integrity::Hmac(Hash::Sha256) => "HMAC-SHA-256-128 [RFC4868]",
        Integrity::Hmac(Hash::Sha384) => "HMAC-SHA-384-192 [RFC4868]",
        Integrity::Hmac(Hash::Sha512) => "HMAC-SHA-512-256 [RFC4868]",
    }
}

/// The form in which Wireshark reads a key: empty, or hexadecimal behind 0x.
fn key(octets: &[u8]) -> Zeroizing<String> {
    if octets.is_empty() {
        return Zeroizing::default();
    }
    Zeroizing::new(format!("0x{}", &*hex(octets)))
}

fn hex(octets: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * octets.len()));
    for octet in octets {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

//! DER as PEM, for programs that read files.

use pem::Pem;
use zeroize::Zeroizing;

/// A certificate in PEM, as its DER is.
pub fn certificate_pem(der: &[u8]) -> String {
    pem::encode(&Pem::new("CERTIFICATE", der))
}

/// A private key in PEM, from PKCS #8.
pub fn private_key_pem(pkcs8: &[u8]) -> Zeroizing<String> {
    let object = Pem::new("PRIVATE KEY", pkcs8);
    let text = Zeroizing::new(pem::encode(&object));
    drop(Zeroizing::new(object.into_contents()));
    text
}

/// The first private key of a PEM text, PKCS #8.
pub fn private_key_der(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let objects = pem::parse_many(text).ok()?;
    let mut found = None;
    for object in objects {
        let is_key = object.tag() == "PRIVATE KEY";
        let octets = Zeroizing::new(object.into_contents());
        if is_key && found.is_none() {
            found = Some(octets);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cert::SigningKey;

    #[test]
    fn a_key_in_pem_is_the_one_that_it_was_made_of() {
        let key = SigningKey::generate(2048).expect("a key");
        let der = private_key_der(&key.to_pem()).expect("PKCS #8");
        let again = private_key_pem(&der);
        assert!(private_key_der(&again).is_some_and(|read| *read == *der));
        let both = certificate_pem(b"x") + &again;
        assert!(private_key_der(&both).is_some_and(|read| *read == *der));
        assert!(private_key_der(&certificate_pem(b"x")).is_none());
        assert!(private_key_der("no PEM").is_none());
    }
}

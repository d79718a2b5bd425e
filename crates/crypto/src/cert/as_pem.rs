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

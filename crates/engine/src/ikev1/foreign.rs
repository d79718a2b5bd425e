//! Names of algorithms and methods that peers offer and Caravan does not support, from IANA's
//! registries of IKEv1, in the style of proposal words. An unassigned one appears as its number.

/// A cipher of phase 1 (RFC 2409 appendix A, RFC 3602, RFC 4312).
pub(super) fn ike_cipher(number: u64, key_bits: Option<u64>) -> String {
    let name = match number {
        1 => "des",
        2 => "idea",
        3 => "blowfish",
        4 => "rc5",
        5 => "3des",
        6 => "cast",
        7 => "aes",
        8 => "camellia",
        other => return format!("cipher {other}"),
    };
    keyed(name, key_bits, "")
}

/// A hash of phase 1.
pub(super) fn ike_hash(number: u64) -> String {
    let name = match number {
        1 => "md5",
        2 => "sha1",
        3 => "tiger",
        4 => "sha256",
        5 => "sha384",
        6 => "sha512",
        other => return format!("hash {other}"),
    };
    name.to_owned()
}

/// A Diffie-Hellman group (RFC 3526, RFC 5114, RFC 5903, RFC 6954, RFC 8031).
pub(super) fn group(number: u64) -> String {
    let name = match number {
        1 => "modp768",
        2 => "modp1024",
        3 => "ec2n155",
        4 => "ec2n185",
        5 => "modp1536",
        14 => "modp2048",
        15 => "modp3072",
        16 => "modp4096",
        17 => "modp6144",
        18 => "modp8192",
        19 => "ecp256",
        20 => "ecp384",
        21 => "ecp521",
        22 => "modp1024s160",
        23 => "modp2048s224",
        24 => "modp2048s256",
        25 => "ecp192",
        26 => "ecp224",
        27 => "ecp224bp",
        28 => "ecp256bp",
        29 => "ecp384bp",
        30 => "ecp512bp",
        31 => "curve25519",
        32 => "curve448",
        other => return format!("group {other}"),
    };
    name.to_owned()
}

/// The authentication method that a phase 1 peer wants.
pub(super) fn method(number: u64) -> String {
    let name = match number {
        1 => "a pre-shared key",
        2 => "DSS signatures",
        3 => "RSA signatures",
        4 => "RSA encryption",
        5 => "revised RSA encryption",
        9 => "ECDSA with P-256",
        10 => "ECDSA with P-384",
        11 => "ECDSA with P-521",
        64_221 | 64_222 => "hybrid RSA (XAUTH)",
        65_001 | 65_002 => "a pre-shared key with XAUTH",
        65_005 | 65_006 => "RSA signatures with XAUTH",
        other => return format!("method {other}"),
    };
    name.to_owned()
}

/// A transform of ESP.
pub(super) fn esp(id: u8, key_bits: Option<u64>) -> String {
    let (name, end) = match id {
        1 => ("des-iv64", ""),
        2 => ("des", ""),
        3 => ("3des", ""),
        4 => ("rc5", ""),
        5 => ("idea", ""),
        6 => ("cast", ""),
        7 => ("blowfish", ""),
        8 => ("3idea", ""),
        9 => ("des-iv32", ""),
        10 => ("rc4", ""),
        11 => ("null", ""),
        12 => ("aes", ""),
        13 => ("aes", "ctr"),
        14 => ("aes", "ccm8"),
        15 => ("aes", "ccm12"),
        16 => ("aes", "ccm16"),
        18 => ("aes", "gcm8"),
        19 => ("aes", "gcm12"),
        20 => ("aes", "gcm16"),
        21 => ("seed", ""),
        22 => ("camellia", ""),
        23 => ("aes", "gmac"),
        other => return format!("ESP transform {other}"),
    };
    keyed(name, key_bits, end)
}

/// A transform of AH.
pub(super) fn ah(id: u8) -> String {
    let name = match id {
        2 => "md5",
        3 => "sha1",
        4 => "des-mac",
        5 => "sha256",
        6 => "sha384",
        7 => "sha512",
        8 => "ripemd",
        9 => "aesxcbc",
        11..=13 => "aesgmac",
        other => return format!("AH transform {other}"),
    };
    format!("ah-{name}")
}

/// An authentication algorithm of ESP and AH.
pub(super) fn integrity(number: u64) -> String {
    let name = match number {
        1 => "md5",
        2 => "sha1",
        3 => "desmac",
        4 => "kpdk",
        5 => "sha256",
        6 => "sha384",
        7 => "sha512",
        8 => "ripemd",
        9 => "aesxcbc",
        other => return format!("authentication {other}"),
    };
    name.to_owned()
}

fn keyed(name: &str, key_bits: Option<u64>, end: &str) -> String {
    match key_bits {
        Some(bits) => format!("{name}{bits}{end}"),
        None => format!("{name}{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_name_is_called_by_it_and_the_rest_by_its_number() {
        assert_eq!(ike_cipher(8, Some(256)), "camellia256");
        assert_eq!(ike_cipher(5, None), "3des");
        assert_eq!(ike_cipher(99, Some(256)), "cipher 99");
        assert_eq!(group(18), "modp8192");
        assert_eq!(group(77), "group 77");
        assert_eq!(method(65_001), "a pre-shared key with XAUTH");
        assert_eq!(method(4_711), "method 4711");
        assert_eq!(esp(13, Some(256)), "aes256ctr");
        assert_eq!(esp(16, Some(128)), "aes128ccm16");
        assert_eq!(esp(253, None), "ESP transform 253");
        assert_eq!(ah(9), "ah-aesxcbc");
        assert_eq!(integrity(9), "aesxcbc");
        assert_eq!(ike_hash(3), "tiger");
    }
}

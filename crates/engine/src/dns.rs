//! Domains that come with resolvers, and keys of DNSSEC for them (RFC 8598).
//!
//! Left out: questions and answers. Nothing here asks a resolver or validates what one says.

use core::fmt;
use core::str::FromStr;

use wire::ikev2::DelegationSigner;

/// Domains of a lease at most. With more, the resolvers are asked for all names.
pub const MAX_DOMAINS: usize = 32;
/// Keys of DNSSEC of a lease at most. Further ones are ignored.
pub const MAX_TRUST_ANCHORS: usize = 32;

/// A domain in one form: lower case, no dot at its end. `None`: a label is empty, too long, or
/// begins with a hyphen (RFC 1035 §2.3.4, RFC 8598 §4.1), or it is longer than a name may be.
pub fn domain(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_of_labels = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(is_of_labels)
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    is_name.then(|| name.to_ascii_lowercase())
}

/// Whether a name is one of these domains or below one. All are in the form of [`domain`].
pub fn is_within(name: &str, domains: &[String]) -> bool {
    domains.iter().any(|domain| {
        let above = name.strip_suffix(domain.as_str());
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    })
}

/// A key of DNSSEC that the names of a domain are signed with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustAnchor {
    /// In the form of [`domain`].
    pub domain: String,
    /// Its key.
    pub signer: DelegationSigner,
}

/// The DS record as a zone file has it.
impl fmt::Display for TrustAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. IN DS {}", self.domain, self.signer)
    }
}

/// Why a text is no DS record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustAnchorFault {
    /// Something is missing, too large, or no number.
    #[error(
        "{0:?} is no DS record: write domain, key tag, algorithm, digest type and digest, such as \
         \"corp.example 43547 13 2 0123..EF\""
    )]
    Form(String),
    /// Its first word is no name.
    #[error("{0:?} is no domain, such as corp.example")]
    Domain(String),
    /// A digest that we do not know.
    #[error("digest type {0} is unknown: write 1 (SHA-1), 2 (SHA-256) or 4 (SHA-384)")]
    DigestType(u8),
    /// A digest of another type.
    #[error("a digest of type {digest_type} has {wanted} octets, not {found}")]
    DigestLength {
        /// Its type.
        digest_type: u8,
        /// The octets of such a digest.
        wanted: usize,
        /// The octets that it has.
        found: usize,
    },
}

impl FromStr for TrustAnchor {
    type Err = TrustAnchorFault;

    /// With or without a time to live and "IN DS". The digest may have blanks (RFC 4034 §5.3).
    fn from_str(text: &str) -> Result<Self, TrustAnchorFault> {
        let form = || TrustAnchorFault::Form(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, rest @ ..] = &words[..] else {
            return Err(form());
        };
        let is_ds = |class: &str, kind: &str| {
            class.eq_ignore_ascii_case("IN") && kind.eq_ignore_ascii_case("DS")
        };
        let rest = match rest {
            [ttl, class, kind, rest @ ..] if ttl.parse::<u32>().is_ok() && is_ds(class, kind) => {
                rest
            }
            [class, kind, rest @ ..] if is_ds(class, kind) => rest,
            rest => rest,
        };
        let [key_tag, algorithm, digest_type, digest @ ..] = rest else {
            return Err(form());
        };
        let number = |word: &str| word.parse::<u8>().map_err(|_| form());
        let key_tag = key_tag.parse().map_err(|_| form())?;
        let (algorithm, digest_type) = (number(algorithm)?, number(digest_type)?);
        let digest = octets(&digest.concat()).ok_or_else(form)?;
        let wanted = DelegationSigner::digest_len(digest_type)
            .ok_or(TrustAnchorFault::DigestType(digest_type))?;
        let found = digest.len();
        let signer = DelegationSigner::new(key_tag, algorithm, digest_type, digest);
        let length = |_| TrustAnchorFault::DigestLength {
            digest_type,
            wanted,
            found,
        };
        Ok(Self {
            domain: domain(name).ok_or_else(|| TrustAnchorFault::Domain((*name).to_owned()))?,
            signer: signer.map_err(length)?,
        })
    }
}

/// Octets in hexadecimal.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = digits.chars().map(|it| it.to_digit(16)).collect();
    let digits = digits.filter(|it| it.len().is_multiple_of(2))?;
    let octet = |pair: &[u32; 2]| (pair[0] * 16 + pair[1]) as u8;
    Some(digits.as_chunks::<2>().0.iter().map(octet).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4509 §2.3.
    const DIGEST: &str = "D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A";

    fn read(text: &str) -> Result<String, TrustAnchorFault> {
        text.parse().map(|it: TrustAnchor| it.to_string())
    }

    #[test]
    fn a_ds_record_is_read_as_people_and_zone_files_write_it() {
        let record = format!("corp.example. IN DS 60485 5 2 {DIGEST}");
        let (front, back) = DIGEST.split_at(40);
        for text in [
            record.clone(),
            format!("corp.example 60485 5 2 {DIGEST}"),
            format!("Corp.Example.\tIN\tDS\t60485 5 2 {}", DIGEST.to_lowercase()),
            format!("corp.example in ds 60485 5 2 {front} {back}"),
            format!("corp.example.\t3600\tIN\tDS\t60485 5 2 {DIGEST}"),
        ] {
            assert_eq!(read(&text).as_deref(), Ok(&record[..]), "{text}");
        }
    }

    #[test]
    fn what_is_no_ds_record_is_refused_for_its_reason() {
        for text in [
            "",
            "corp.example",
            "corp.example IN DS",
            "corp.example 60485 5 2",
            "corp.example 65536 5 1 00",
            "corp.example 1 256 1 00",
            "corp.example 1 5 -1 00",
            "corp.example 1 5 1 0",
            "corp.example 1 5 1 +1",
            "corp.example 1 5 1 \u{e4}\u{e4}",
        ] {
            let form = match text {
                "corp.example 60485 5 2" => TrustAnchorFault::DigestLength {
                    digest_type: 2,
                    wanted: 32,
                    found: 0,
                },
                _ => TrustAnchorFault::Form(text.to_owned()),
            };
            assert_eq!(read(text), Err(form));
        }
        let length = TrustAnchorFault::DigestLength {
            digest_type: 1,
            wanted: 20,
            found: 32,
        };
        assert_eq!(read(&format!("a.example 1 5 1 {DIGEST}")), Err(length));
        let kind = TrustAnchorFault::DigestType(3);
        assert_eq!(read(&format!("a.example 1 5 3 {DIGEST}")), Err(kind));
        for name in [".", "a..example", "-a.example"] {
            let fault = TrustAnchorFault::Domain(name.to_owned());
            assert_eq!(read(&format!("{name} 1 5 2 {DIGEST}")), Err(fault));
        }
    }

    #[test]
    fn a_domain_is_within_itself_and_those_above_it() {
        let listed = ["corp.example".to_owned(), "lab.example".to_owned()];
        for (name, is_so) in [
            ("corp.example", true),
            ("a.b.corp.example", true),
            ("lab.example", true),
            ("acorp.example", false),
            ("example", false),
            ("corp.example.org", false),
        ] {
            assert_eq!(is_within(name, &listed), is_so, "{name}");
        }
        assert!(!is_within("corp.example", &[]));
    }
}

//! A connection's post-quantum pre-shared key (RFC 8784, RFC 9867).

use std::sync::Arc;

use engine::config::Ppk;
use engine::sa::Secret;
use zeroize::Zeroizing;

use super::super::ConfigError;
use super::super::file::ConnectionTable;
use super::Builder;

/// Random octets of a key at least (RFC 8784 §6 wants 256 bits of entropy).
const MIN_KEY: usize = 32;
/// Octets of its name at most.
const MAX_ID: usize = 128;

impl Builder<'_> {
    /// The key, if the table names one.
    pub(super) fn ppk(
        &self,
        key: &str,
        table: &ConnectionTable,
    ) -> Result<Option<Arc<Ppk>>, ConfigError> {
        let at = |last: &str| format!("{key}.{last}");
        let (id, file) = match (&table.ppk_id, &table.ppk_file) {
            (None, None) => return Ok(None),
            (Some(id), Some(file)) => (id, file),
            (None, Some(_)) => {
                let text = "name the key, the same at both ends, such as ppk_id = \"fleet\"";
                return Err(self.value(&at("ppk_id"), text));
            }
            (Some(_), None) => {
                let text = "name the file with the key, such as ppk_file = \"fleet.ppk\"";
                return Err(self.value(&at("ppk_file"), text));
            }
        };
        if table.version == 1 {
            let text = "a post-quantum pre-shared key is IKEv2's: version = 2";
            return Err(self.value(&at("ppk_id"), text));
        }
        if id.is_empty() || id.len() > MAX_ID {
            let text = format!("a name of 1 to {MAX_ID} octets");
            return Err(self.value(&at("ppk_id"), &text));
        }
        let path = self.folder.join(file);
        let read = self.origin.private(&path).map(Zeroizing::new);
        let octets = read.map_err(|fault| self.unreadable(&at("ppk_file"), &path, &fault))?;
        let octets = octets.trim_ascii_end();
        let (random, form) = random_octets(octets);
        if random < MIN_KEY {
            let text = format!(
                "{} has {random} octets{form}: a key has 32 random octets or more, as `openssl \
                 rand -hex 32` writes them",
                path.display()
            );
            return Err(self.value(&at("ppk_file"), &text));
        }
        Ok(Some(Arc::new(Ppk {
            id: id.clone(),
            key: Secret(octets.to_vec()),
            is_required: table.ppk_required,
            is_early: table.ppk_intermediate,
        })))
    }
}

/// How many random octets a file can hold, and in which form. The key is the file's text itself, of
/// which each digit of hexadecimal has 4 bits, and each of base64 has 6.
fn random_octets(text: &[u8]) -> (usize, &'static str) {
    let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"="));
    let digits = digits.unwrap_or(text);
    let is_base64 = |it: &u8| it.is_ascii_alphanumeric() || b"+/".contains(it);
    match () {
        () if text.iter().all(u8::is_ascii_hexdigit) => (text.len() / 2, " in hexadecimal"),
        () if digits.iter().all(is_base64) => (digits.len() * 3 / 4, " in base64"),
        () => (text.len(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_what_its_text_can_hold() {
        for (text, octets) in [
            (&[b'f'; 64][..], 32),
            (&[b'0'; 32][..], 16),
            (&b"4rT0/0RvCJCq3v1zS2mN8mW5lq0pN1gk1yZr5Zl3bqE="[..], 32),
            (&b"MDEyMzQ1Njc4OWFiY2RlZg=="[..], 16),
            (&b"MDEyMzQ1Njc4OWFiY2RlZjAx"[..], 18),
            (&[0xff; 32][..], 32),
            (&b""[..], 0),
        ] {
            assert_eq!(random_octets(text).0, octets, "{text:?}");
        }
    }
}

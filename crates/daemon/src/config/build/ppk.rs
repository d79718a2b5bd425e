//! A connection's post-quantum pre-shared key (RFC 8784, RFC 9867).

use std::sync::Arc;

use engine::config::Ppk;
use engine::sa::Secret;
use zeroize::Zeroizing;

use super::super::ConfigError;
use super::super::file::ConnectionTable;
use super::Builder;

/// Octets of a key at least: as many as its file has when it is written as 32 random octets in
/// hexadecimal or base64 (RFC 8784 §6 wants 256 bits of entropy).
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
        if octets.len() < MIN_KEY {
            let text = format!(
                "{} has {} octets: a key has 32 random octets or more, as `openssl rand -hex 32` \
                 writes them",
                path.display(),
                octets.len()
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

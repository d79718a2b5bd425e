//! The keys of a connection and their values: which of them existing tunnels depend on, and which
//! changes a reload reports.

use std::collections::{BTreeMap, BTreeSet};

use crypto::hash::Hash;
use serde_json::Value;

use super::file::ConnectionTable;

/// Keys that only concern the next peer or the host. Changing them ends no tunnel.
const WITHOUT_TUNNELS: [&str; 3] = ["lan", "max_peers", "other_family"];

/// The values of one connection by key, including defaults. Certificates, keys, secrets and
/// revocation lists are left out ([`super::Credentials`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValues(BTreeMap<String, String>);

impl KeyValues {
    /// Never panics: a table consists of words, numbers, lists and tables of them.
    pub(super) fn of(table: &ConnectionTable) -> Self {
        let value = serde_json::to_value(table).expect("words, numbers, lists and tables");
        let mut keys = BTreeMap::new();
        collect(String::new(), value, &mut keys);
        Self(keys)
    }

    /// A hash of all values that an existing tunnel depends on.
    pub(super) fn revision(&self) -> u64 {
        let mut keys = self.0.clone();
        keys.retain(|key, _| !WITHOUT_TUNNELS.contains(&key.as_str()));
        let digest = Hash::Sha256.digest(&[format!("{keys:?}").as_bytes()]);
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_ref()[..8]);
        u64::from_be_bytes(first)
    }

    /// The keys whose values differ. Of an added or removed child only its name.
    pub fn changed(&self, before: &Self) -> BTreeSet<String> {
        let all = self.0.keys().chain(before.0.keys());
        let changed = all.filter(|key| self.0.get(*key) != before.0.get(*key));
        let named = changed.map(|key| {
            let is_in_both = self.0.contains_key(key) && before.0.contains_key(key);
            match key.rsplit_once('.').filter(|_| !is_in_both) {
                Some((child, _)) => child.to_owned(),
                None => key.clone(),
            }
        });
        named.collect()
    }
}

fn collect(place: String, value: Value, keys: &mut BTreeMap<String, String>) {
    let Value::Object(table) = value else {
        keys.insert(place, value.to_string());
        return;
    };
    for (key, value) in table {
        let key = match place.is_empty() {
            true => key,
            false => format!("{place}.{key}"),
        };
        collect(key, value, keys);
    }
}

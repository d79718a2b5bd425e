//! Checks of certificates and revocation lists against the calendar.

use std::collections::BTreeSet;

use crypto::cert::{CertFault, Certificate, LeafKeys, ListFault, RevocationRule, TrustStore};
use engine::config::{Connection, LocalMethod};

use super::super::Loaded;

/// A list that ends within this time is told.
const SOON_S: i64 = 7 * 86_400;

/// One problem.
pub(in super::super) struct Found {
    pub(in super::super) connection: String,
    /// The key below the connection, such as `local.certs`.
    pub(in super::super) key: &'static str,
    pub(in super::super) text: String,
    /// Every peer is refused, and no peer can change that.
    pub(in super::super) is_fault: bool,
}

/// Certificates that nobody can accept at calendar time `now`, and lists that do not count.
pub(in super::super) fn credentials(loaded: &Loaded, now: i64) -> Vec<Found> {
    let connections = loaded.engine.connections.iter();
    connections
        .flat_map(|connection| of_one(connection, now))
        .collect()
}

fn of_one(connection: &Connection, now: i64) -> Vec<Found> {
    let mut all = Vec::new();
    let mut say = |key, is_fault, text| {
        all.push(Found {
            connection: connection.name.clone(),
            key,
            text,
            is_fault,
        });
    };
    if let LocalMethod::Signature { chain, .. } = &connection.local.method {
        for fault in own_chain(chain, connection, now) {
            let text = format!("no peer will accept this certificate: {fault}");
            say("local.certs", true, text);
        }
    }
    let Some(store) = connection.remote.method.trust_store() else {
        return all;
    };
    let pinned = store.pinned.iter();
    let keys = kinds(connection);
    let pinned = pinned.map(|one| one.check_as_own_with(keys, now, connection.is_legacy).err());
    let authorities = store
        .authorities
        .iter()
        .map(|one| one.check_in_force(now).err());
    for (key, faults) in [
        ("remote.certs", pinned.collect::<Vec<_>>()),
        ("remote.cacerts", authorities.collect()),
    ] {
        // An expired authority beside a valid one does no harm.
        let is_fault = faults.iter().all(Option::is_some);
        for fault in faults.into_iter().flatten() {
            say(key, is_fault, format!("it does not count: {fault}"));
        }
    }
    for (is_fault, text) in lists(store, now) {
        say("remote.crls", is_fault, text);
    }
    for text in ending(store, now) {
        say("remote.crls", false, text);
    }
    all
}

/// Lists that count now, and soon will not.
fn ending(store: &TrustStore, now: i64) -> Vec<String> {
    let today = store.list_faults(now);
    let soon = store.list_faults(now.saturating_add(SOON_S)).into_iter();
    let text = |fault| match &fault {
        ListFault::Over { issuer, at } if !today.contains(&fault) => Some(format!(
            "the list of {issuer} ends at {at}, and from then on nobody whom it is about gets in: \
             make a new one (`caravan pki crl`), copy it here, and run `caravan reload`"
        )),
        _ => None,
    };
    soon.filter_map(text).collect()
}

/// Why no peer will accept our own certificate at calendar time `now`.
pub fn own_fault(connection: &Connection, now: i64) -> Option<CertFault> {
    let LocalMethod::Signature { chain, .. } = &connection.local.method else {
        return None;
    };
    let faults = own_chain(chain, connection, now);
    faults.into_iter().next()
}

/// The kinds of keys that the version of a connection signs with.
fn kinds(connection: &Connection) -> LeafKeys {
    match connection.version.has_v1() {
        true => LeafKeys::RsaOnly,
        false => LeafKeys::Any,
    }
}

fn own_chain(chain: &[Certificate], connection: &Connection, now: i64) -> Vec<CertFault> {
    let Some((leaf, others)) = chain.split_first() else {
        return Vec::new();
    };
    let others = others.iter().map(|one| one.check_in_force(now));
    let all =
        core::iter::once(leaf.check_as_own_with(kinds(connection), now, connection.is_legacy))
            .chain(others);
    all.filter_map(Result::err).collect()
}

/// The problems of the lists, or that one is missing, and whether the rule therefore refuses
/// everybody.
fn lists(store: &TrustStore, now: i64) -> Vec<(bool, String)> {
    let uncovered = store.uncovered(now);
    let listed = store.list_faults(now);
    let others = listed.iter().filter(|fault| !uncovered.contains(fault));
    let others = others.map(|fault| {
        let why = match fault {
            ListFault::Unmatched { .. } => {
                "it counts only if a peer sends the authority's certificate; otherwise name that \
                 certificate in remote cacerts"
            }
            ListFault::Over { .. } => "its revocations still count",
            _ => "it is ignored",
        };
        (false, format!("{fault}: {why}"))
    });
    let is_strict = store.revocation == RevocationRule::Strict;
    let refusing = uncovered.iter().map(|fault| {
        let text = format!(
            "{fault}: all peers of this authority are refused until `caravan reload` reads a \
             valid list"
        );
        (is_strict, text)
    });
    let all: BTreeSet<_> = refusing.chain(others).collect();
    all.into_iter().collect()
}

//! Digests of the files and secrets of a connection. A reload uses them to tell which changed.

use std::path::{Path, PathBuf};

use crypto::hash::Hash;
use zeroize::Zeroize;

use super::Origin;
use super::file::{AuthTable, ConnectionTable};

/// Digests of one connection's credentials, including secrets: it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials([(&'static str, [u8; 32]); 6]);

impl Credentials {
    /// Reads the files that `table` names below `folder`. An unreadable file counts as empty.
    pub(super) fn of(table: &ConnectionTable, folder: &Path, origin: Origin<'_>) -> Self {
        let digest = |files: Vec<&PathBuf>, texts: Vec<Vec<u8>>| {
            let mut parts: Vec<Vec<u8>> = files
                .into_iter()
                .map(|name| origin.octets(&folder.join(name)).unwrap_or_default())
                .chain(texts)
                .collect();
            let lengths: Vec<[u8; 8]> = parts.iter().map(|it| it.len().to_be_bytes()).collect();
            let framed = lengths.iter().zip(&parts);
            let framed: Vec<&[u8]> = framed.flat_map(|(len, it)| [&len[..], it]).collect();
            let mut all = [0; 32];
            all.copy_from_slice(Hash::Sha256.digest(&framed).as_ref());
            parts.iter_mut().for_each(Zeroize::zeroize);
            all
        };
        let (local, remote) = (&table.local, &table.remote);
        let secret = |end: &AuthTable| match &end.secret {
            Some(secret) => secret.as_bytes().to_vec(),
            None => Vec::new(),
        };
        let own = local.certs.iter().chain(&local.key).collect();
        let trusted = remote.certs.iter().chain(&remote.cacerts).collect();
        let kept = local.secret_file.iter().chain(&remote.secret_file);
        let revocation = format!("{:?}", remote.revocation);
        Self([
            ("certificate or key of ours", digest(own, Vec::new())),
            ("trusted certificates", digest(trusted, Vec::new())),
            (
                "revocation lists",
                digest(remote.crls.iter().collect(), vec![revocation.into_bytes()]),
            ),
            ("users", digest(remote.users.iter().collect(), Vec::new())),
            (
                "pre-shared key or password",
                digest(kept.collect(), vec![secret(local), secret(remote)]),
            ),
            (
                "post-quantum pre-shared key",
                digest(table.ppk_file.iter().collect(), Vec::new()),
            ),
        ])
    }

    /// What has changed, in words.
    pub fn changed(&self, before: &Self) -> Vec<&'static str> {
        let both = self.0.iter().zip(&before.0);
        both.filter(|(new, old)| new != old)
            .map(|(new, _)| new.0)
            .collect()
    }
}

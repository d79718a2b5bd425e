//! Authentication of both sides: certificates, keys, secrets, identities.

use std::path::PathBuf;
use std::sync::Arc;

use crypto::cert::{Certificate, RevocationList, RevocationRule, TrustStore, no_rsa_key};
use crypto::rsa;
use crypto::sign::PrivateKey;
use engine::config::{IdentityPattern, LocalAuth, LocalMethod, RemoteAuth, RemoteMethod};
use engine::identity::Identity;
use engine::sa::Secret;

use super::super::ConfigError;
use super::super::file::{self, Auth, AuthTable, ConnectionTable};
use super::Builder;

impl Builder<'_> {
    /// Builds both sides and reports the errors of both at once. A pre-shared key is a single key,
    /// so one side alone may have it.
    pub(super) fn sides(
        &self,
        name: &str,
        table: &ConnectionTable,
    ) -> Result<(LocalAuth, RemoteAuth), ConfigError> {
        let (mut local, mut remote) = (table.local.clone(), table.remote.clone());
        let has_secret = |auth: &AuthTable| auth.secret.is_some() || auth.secret_file.is_some();
        let share = |from: &AuthTable, to: &mut AuthTable| {
            if from.auth == Auth::Psk && to.auth == Auth::Psk && !has_secret(to) {
                to.secret.clone_from(&from.secret);
                to.secret_file.clone_from(&from.secret_file);
            }
        };
        share(&local, &mut remote);
        share(&remote, &mut local);
        let key = format!("connections.{name}");
        let is_rsa_only = table.version != 2;
        let local = self.local(&format!("{key}.local"), &local, is_rsa_only);
        let remote = self.remote(&format!("{key}.remote"), &remote, table.legacy);
        match (local, remote) {
            (Ok(local), Ok(remote)) => Ok((local, remote)),
            (local, remote) => {
                let faults: Vec<ConfigError> =
                    local.err().into_iter().chain(remote.err()).collect();
                Err(ConfigError::of(faults).expect("one of them failed"))
            }
        }
    }

    fn local(
        &self,
        key: &str,
        table: &AuthTable,
        is_rsa_only: bool,
    ) -> Result<LocalAuth, ConfigError> {
        let identity = table
            .id
            .as_ref()
            .map(|id| self.identity(key, id))
            .transpose()?;
        if table.auth == Auth::Psk {
            let identity =
                identity.ok_or_else(|| self.value(key, "with auth = \"psk\" give an id"))?;
            let method = LocalMethod::PresharedKey(Arc::new(self.secret(key, table)?));
            return Ok(LocalAuth { identity, method });
        }
        let chain = self.certificates(&format!("{key}.certs"), &table.certs)?;
        let Some(leaf) = chain.first() else {
            return Err(self.value(&format!("{key}.certs"), "name our certificate's PEM file"));
        };
        let Some(file) = &table.key else {
            return Err(self.value(&format!("{key}.key"), "name our private key's PEM file"));
        };
        let text = Secret(self.read(&format!("{key}.key"), file)?.into_bytes());
        let pem = String::from_utf8_lossy(&text.0);
        let private = match is_rsa_only {
            true => rsa::PrivateKey::from_pem(&pem)
                .map(PrivateKey::Rsa)
                .map_err(|fault| {
                    let why = no_rsa_key(&pem).map_or_else(|| fault.to_string(), str::to_owned);
                    format!("{}: not an RSA key in PEM: {why}", file.display())
                }),
            false => {
                PrivateKey::from_pem(&pem).map_err(|fault| format!("{}: {fault}", file.display()))
            }
        };
        let private = private.map_err(|text| self.value(&format!("{key}.key"), &text))?;
        let public = leaf.signature_key();
        if public.is_ok_and(|public| public != private.public()) {
            let text = format!("{} is not the key of {}", file.display(), leaf.subject());
            return Err(self.value(&format!("{key}.key"), &text));
        }
        let names = leaf.names();
        // The subject, or the first alternative name if the subject is empty.
        let own = || names.iter().find_map(Identity::of_certificate);
        let Some(identity) = identity.or_else(own) else {
            let text = "our certificate has neither a subject nor an alternative name";
            return Err(self.value(&format!("{key}.certs"), text));
        };
        if identity.proven_by(&names).is_none() {
            let text = format!(
                "{identity} is neither subject nor SAN of {}",
                leaf.subject()
            );
            return Err(self.value(&format!("{key}.id"), &text));
        }
        let method = LocalMethod::Signature {
            key: Arc::new(private),
            chain,
        };
        Ok(LocalAuth { identity, method })
    }

    fn remote(
        &self,
        key: &str,
        table: &AuthTable,
        accepts_legacy: bool,
    ) -> Result<RemoteAuth, ConfigError> {
        let identities = match table.id.as_deref() {
            None => {
                let text = "say which peer you accept: id = \"sg.example\", a subject, or \"*\" \
                            for any";
                return Err(self.value(&format!("{key}.id"), text));
            }
            Some("*" | "%any") => vec![IdentityPattern::Any],
            Some(id) => vec![IdentityPattern::Is(self.identity(key, id)?)],
        };
        if table.auth == Auth::Psk {
            let method = RemoteMethod::PresharedKey(Arc::new(self.secret(key, table)?));
            return Ok(RemoteAuth { identities, method });
        }
        let authorities = self.certificates(&format!("{key}.cacerts"), &table.cacerts)?;
        let pinned = self.certificates(&format!("{key}.certs"), &table.certs)?;
        if let Some(other) = authorities.iter().find(|it| !it.is_authority()) {
            let text = format!(
                "{} is not an authority and issued no certificate; a peer's own certificate \
                 belongs in certs",
                other.subject()
            );
            return Err(self.value(&format!("{key}.cacerts"), &text));
        }
        let revocation = match table.revocation {
            file::Revocation::Strict => RevocationRule::Strict,
            file::Revocation::Ifcrl => RevocationRule::IfListed,
            file::Revocation::Relaxed => RevocationRule::Relaxed,
        };
        if revocation == RevocationRule::Strict && table.crls.is_empty() {
            let text = "\"strict\" without crls refuses everybody: name the authority's list";
            return Err(self.value(&format!("{key}.revocation"), text));
        }
        if authorities.is_empty() && pinned.is_empty() {
            let text = "name the PEM file of the authority that issues the peer's certificate";
            return Err(self.value(&format!("{key}.cacerts"), text));
        }
        let revocations = table
            .crls
            .iter()
            .map(|file| {
                let path = self.folder.join(file);
                let octets = self.origin.octets(&path);
                let bytes = octets
                    .map_err(|fault| self.unreadable(&format!("{key}.crls"), &path, &fault))?;
                RevocationList::parse(&bytes).map_err(|fault| {
                    self.value(
                        &format!("{key}.crls"),
                        &format!("{}: {fault}", file.display()),
                    )
                })
            })
            .collect::<Result<_, _>>()?;
        let store = TrustStore {
            authorities,
            pinned,
            revocations,
            revocation,
            accepts_legacy,
        };
        Ok(RemoteAuth {
            identities,
            method: RemoteMethod::Signature(Arc::new(store)),
        })
    }

    fn certificates(&self, key: &str, files: &[PathBuf]) -> Result<Vec<Certificate>, ConfigError> {
        let mut all = Vec::new();
        for file in files {
            let read = Certificate::all_from_pem(&self.read(key, file)?)
                .map_err(|fault| self.value(key, &format!("{}: {fault}", file.display())))?;
            if read.is_empty() {
                let text = format!("{} holds no certificate in PEM", file.display());
                return Err(self.value(key, &text));
            }
            all.extend(read);
        }
        Ok(all)
    }

    fn secret(&self, key: &str, table: &AuthTable) -> Result<Secret, ConfigError> {
        match (&table.secret, &table.secret_file) {
            (Some(secret), None) if !secret.as_bytes().is_empty() => {
                Ok(Secret(secret.as_bytes().to_vec()))
            }
            (None, Some(file)) => {
                let text = Secret(self.read(&format!("{key}.secret_file"), file)?.into_bytes());
                let secret = text.0.trim_ascii_end();
                match secret.is_empty() {
                    true => Err(self.value(&format!("{key}.secret_file"), "the file is empty")),
                    false => Ok(Secret(secret.to_vec())),
                }
            }
            _ => Err(self.value(key, "give the pre-shared key as secret or as secret_file")),
        }
    }

    fn identity(&self, key: &str, text: &str) -> Result<Identity, ConfigError> {
        Identity::parse(text).map_err(|error| self.value(&format!("{key}.id"), &error.to_string()))
    }
}

//! Authentication of both sides: certificates, keys, secrets, identities.

use std::path::PathBuf;
use std::sync::Arc;

use crypto::cert::{Certificate, RevocationList, RevocationRule, TrustStore, no_rsa_key};
use crypto::mschapv2::{MAX_PASSWORD_CHARS, NtHash};
use crypto::rsa;
use crypto::sign::PrivateKey;
use engine::config::{IdentityPattern, LocalAuth, LocalMethod, RemoteAuth, RemoteMethod};
use engine::eap::{Examiner, Login, LoginMethod, Users};
use engine::identity::Identity;
use engine::sa::Secret;
use zeroize::Zeroizing;

use super::super::ConfigError;
use super::super::file::{self, Auth, AuthTable, ConnectionTable};
use super::Builder;
use crate::user_file::UserFile;

/// Octets of a user's name in EAP at most (RFC 2759 §4).
const MAX_USER: usize = 256;

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
        // With EAP alone a gateway and whom it trusts are those of a certificate.
        match table.is_eap_only() {
            true if table.remote_addrs.is_empty() => local.auth = Auth::Pubkey,
            true => remote.auth = Auth::Pubkey,
            false => {}
        }
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
        match table.auth {
            Auth::Psk => {
                let identity =
                    identity.ok_or_else(|| self.value(key, "with auth = \"psk\" give an id"))?;
                let method = LocalMethod::PresharedKey(Arc::new(self.secret(key, table)?));
                Ok(LocalAuth { identity, method })
            }
            Auth::Pubkey => {
                let (key, chain, identity) = self.certified(key, table, identity, is_rsa_only)?;
                let method = LocalMethod::Signature { key, chain };
                Ok(LocalAuth { identity, method })
            }
            Auth::EapTls => {
                let server = table.aaa_id.as_ref();
                let server = server.map(|id| {
                    let read = IdentityPattern::parse(id);
                    read.map_err(|error| self.value(&format!("{key}.aaa_id"), &error.to_string()))
                });
                let server = server.transpose()?;
                let (key, chain, identity) = self.certified(key, table, identity, is_rsa_only)?;
                let user = table.eap_id.clone();
                let login = Login {
                    user: user.unwrap_or_else(|| identity.to_string()),
                    method: LoginMethod::Certificate(key, chain),
                    server,
                };
                let method = LocalMethod::Eap(Arc::new(login));
                Ok(LocalAuth { identity, method })
            }
            Auth::EapMschapv2 => self.password(key, table, identity),
            Auth::Eap | Auth::EapRadius => {
                let text = "say which: \"eap-mschapv2\" or \"eap-tls\"";
                Err(self.value(&format!("{key}.auth"), text))
            }
        }
    }

    /// A user and a password. Without an id, the user's name is the identity in IKE.
    fn password(
        &self,
        key: &str,
        table: &AuthTable,
        identity: Option<Identity>,
    ) -> Result<LocalAuth, ConfigError> {
        let Some(user) = table.eap_id.clone().filter(|user| !user.is_empty()) else {
            let text = "name the user, such as eap_id = \"alice\"";
            return Err(self.value(&format!("{key}.eap_id"), text));
        };
        if user.len() > MAX_USER {
            let text = format!("a user's name has at most {MAX_USER} octets");
            return Err(self.value(&format!("{key}.eap_id"), &text));
        }
        let identity = match identity {
            Some(identity) => identity,
            None => Identity::parse(&user).map_err(|fault| {
                let text = format!("give an id: the user's name is none: {fault}");
                self.value(key, &text)
            })?,
        };
        let secret = self.secret(key, table)?;
        let hash = core::str::from_utf8(&secret.0)
            .ok()
            .filter(|text| text.chars().count() <= MAX_PASSWORD_CHARS)
            .map(NtHash::of_password);
        let hash = hash.ok_or_else(|| {
            let text = format!("a password is text of at most {MAX_PASSWORD_CHARS} characters");
            self.value(key, &text)
        })?;
        let login = Login {
            user,
            method: LoginMethod::Password(hash),
            server: None,
        };
        let method = LocalMethod::Eap(Arc::new(login));
        Ok(LocalAuth { identity, method })
    }

    /// Our key, our certificate with intermediates, and the name that we use.
    fn certified(
        &self,
        key: &str,
        table: &AuthTable,
        identity: Option<Identity>,
        is_rsa_only: bool,
    ) -> Result<(Arc<PrivateKey>, Vec<Certificate>, Identity), ConfigError> {
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
        Ok((Arc::new(private), chain, identity))
    }

    fn remote(
        &self,
        key: &str,
        table: &AuthTable,
        accepts_legacy: bool,
    ) -> Result<RemoteAuth, ConfigError> {
        let identities = match table.id.as_deref() {
            None if table.auth.is_eap() => vec![IdentityPattern::Any],
            None => {
                let text = "say which peer you accept: id = \"sg.example\", a subject, or \"*\" \
                            for any";
                return Err(self.value(&format!("{key}.id"), text));
            }
            Some("*" | "%any") => vec![IdentityPattern::Any],
            Some(id) => vec![IdentityPattern::Is(self.identity(key, id)?)],
        };
        let method = match table.auth {
            Auth::Psk => RemoteMethod::PresharedKey(Arc::new(self.secret(key, table)?)),
            Auth::Pubkey => RemoteMethod::Signature(self.trusted(key, table, accepts_legacy)?),
            Auth::EapMschapv2 | Auth::EapTls | Auth::Eap => {
                let mut examiner = Examiner::default();
                if table.auth != Auth::EapTls {
                    examiner.users = Some(Arc::new(self.users(key, table)?));
                }
                if table.auth != Auth::EapMschapv2 {
                    examiner.trusted = Some(self.trusted(key, table, accepts_legacy)?);
                }
                RemoteMethod::Eap(Arc::new(examiner))
            }
            Auth::EapRadius => RemoteMethod::Eap(Arc::new(Examiner {
                asks_servers: true,
                ..Examiner::default()
            })),
        };
        Ok(RemoteAuth { identities, method })
    }

    /// The users of a gateway.
    fn users(&self, key: &str, table: &AuthTable) -> Result<Users, ConfigError> {
        let key = format!("{key}.users");
        let Some(file) = &table.users else {
            let text =
                "name the file of the users, which `caravan user add NAME --file FILE` writes";
            return Err(self.value(&key, text));
        };
        let path = self.folder.join(file);
        let read = self.origin.private(&path).map(Zeroizing::new);
        let octets = read.map_err(|fault| self.unreadable(&key, &path, &fault))?;
        let parsed = UserFile::parse(&octets).and_then(|users| users.to_users());
        parsed.map_err(|text| self.value(&key, &format!("{}: {text}", path.display())))
    }

    /// Whose certificates we trust.
    fn trusted(
        &self,
        key: &str,
        table: &AuthTable,
        accepts_legacy: bool,
    ) -> Result<Arc<TrustStore>, ConfigError> {
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
        Ok(Arc::new(TrustStore {
            authorities,
            pinned,
            revocations,
            revocation,
            accepts_legacy,
        }))
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
            _ if table.auth.is_eap() => {
                Err(self.value(key, "give the password as secret or as secret_file"))
            }
            _ => Err(self.value(key, "give the pre-shared key as secret or as secret_file")),
        }
    }

    fn identity(&self, key: &str, text: &str) -> Result<Identity, ConfigError> {
        Identity::parse(text).map_err(|error| self.value(&format!("{key}.id"), &error.to_string()))
    }
}

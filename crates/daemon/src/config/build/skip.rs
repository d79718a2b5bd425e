//! Long-term keys of SKIP: from the tables of a file to the secret of each pair.

use std::path::Path;

use crypto::cert::long_term::{read_private, read_public};
use crypto::dh::long_term::{Group, LongTermKey};
use engine::skip::profile::LOSSES;
use engine::skip::{Association, IvLen, MasterKey, Parts, Profile, Renewal};
use engine::work::Work;
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};
use zeroize::Zeroizing;

use super::{Builder, ConfigError, Loaded};
use crate::config::file::ConfigFile;
use crate::config::skip::{SkipPeerTable, TokenTable};
use crate::token::{Place, Token};

/// Where our long-term key is.
pub(super) enum OwnKey<'a> {
    File(LongTermKey),
    Token(Token, &'a TokenTable),
}

/// The public value of the other end.
struct Peer {
    group: Group,
    value: Vec<u8>,
}

impl Builder<'_> {
    /// Our key, which `key` needs.
    pub(super) fn own_key<'f>(
        &self,
        key: &str,
        file: &'f ConfigFile,
    ) -> Result<OwnKey<'f>, ConfigError> {
        let Some(own) = &file.skip else {
            let text = "it needs our own key: add [skip] with key = \"NAME.skip.key\", which \
                        `caravan pki skip` makes";
            return Err(self.value(key, text));
        };
        match (&own.key, &own.token) {
            (Some(path), None) => {
                let text = Zeroizing::new(self.read("skip.key", path)?);
                let read = read_private(&text);
                let read = read.map_err(|fault| self.value("skip.key", &fault.to_string()))?;
                Ok(OwnKey::File(read))
            }
            (None, Some(token)) => self.open_token(token).map(|it| OwnKey::Token(it, token)),
            _ => Err(self.value("skip", "write either key or token")),
        }
    }

    fn open_token(&self, table: &TokenTable) -> Result<Token, ConfigError> {
        let pin = Zeroizing::new(self.read("skip.token.pin_file", &table.pin_file)?);
        let place = Place {
            module: &self.folder.join(&table.module),
            label: &table.label,
            pin: &pin,
        };
        let opened = Token::open(place);
        opened.map_err(|error| self.value("skip.token", &format!("{error:#}")))
    }

    /// What we share with a peer. `names`: ours and the peer's, if the table has none. Adds to
    /// `loaded` what a reader should know about its algorithms.
    pub(super) fn skip_association(
        &self,
        (key, table): (&str, &SkipPeerTable),
        own: &OwnKey<'_>,
        names: (Name, Name),
        loaded: &mut Loaded,
    ) -> Result<Association, ConfigError> {
        let profile = table.profile;
        if profile.is_legacy() && !table.legacy {
            let text = format!(
                "\"{profile}\" has the algorithms of 1998: it needs legacy = true, or use \
                 profile = \"{}\"",
                Profile::X25519
            );
            return Err(self.value(&format!("{key}.profile"), &text));
        }
        let algorithms = self.algorithms(key, table)?;
        let peer = self.peer(key, &table.public)?;
        let parts = Parts {
            profile,
            algorithms,
            local: table.local.unwrap_or(names.0),
            remote: table.remote.unwrap_or(names.1),
            iv_len: IvLen::default(),
            renewal: match (table.key_per_packet, profile) {
                (true, _) => Renewal::EVERY_PACKET,
                (false, Profile::Paper) => Renewal::PAPER,
                (false, Profile::Draft | Profile::X25519) => Renewal::DRAFT,
            },
            master: self.master(key, own, &peer)?,
        };
        let made = Association::new(parts);
        let made = made.map_err(|fault| self.value(key, &fault.to_string()))?;
        note(key, &made, loaded);
        Ok(made)
    }

    fn algorithms(&self, key: &str, table: &SkipPeerTable) -> Result<Algorithms, ConfigError> {
        if table.profile == Profile::X25519 {
            let others = [
                ("kij", table.kij.is_some()),
                ("crypt", table.crypt.is_some()),
                ("mac", table.mac.is_some()),
            ];
            let other = others.iter().find(|(_, is_there)| *is_there);
            return match other {
                None => Ok(Algorithms::HKDF_AES_GCM_SIV),
                Some((word, _)) => {
                    let text = format!("\"{}\" has its own algorithms: remove it", Profile::X25519);
                    Err(self.value(&format!("{key}.{word}"), &text))
                }
            };
        }
        let kij = table.kij.unwrap_or(KijAlg::TripleDes);
        let crypt = table.crypt.unwrap_or(CryptAlg::TripleDes);
        let mac = table.mac.unwrap_or(MacAlg::Md5);
        Algorithms::new(kij, crypt, mac).ok_or_else(|| {
            let text = "neither encryption nor authentication: one of crypt and mac is needed";
            self.value(key, text)
        })
    }

    fn peer(&self, key: &str, path: &Path) -> Result<Peer, ConfigError> {
        let key = format!("{key}.public");
        let read = read_public(&self.read(&key, path)?);
        let (group, value) = read.map_err(|fault| self.value(&key, &fault.to_string()))?;
        Ok(Peer { group, value })
    }

    fn master(&self, key: &str, own: &OwnKey<'_>, peer: &Peer) -> Result<MasterKey, ConfigError> {
        let key = format!("{key}.public");
        let group = match own {
            OwnKey::File(own) => own.group(),
            OwnKey::Token(..) => Group::Curve25519,
        };
        if peer.group != group {
            let text = "it is of another group than our own key: both ends make theirs with the \
                        same --group";
            return Err(self.value(&key, text));
        }
        let agreed = match own {
            OwnKey::File(own) => MasterKey::agree(own, &peer.value, &mut Work::default())
                .map_err(|fault| fault.to_string()),
            OwnKey::Token(token, table) => token
                .agree(&table.key, &peer.value)
                .map(|(own, shared)| MasterKey::of_shared(group, &shared, [&own, &peer.value]))
                .map_err(|error| format!("{error:#}")),
        };
        agreed.map_err(|text| self.value(&key, &text))
    }
}

/// Adds what a reader of the file should know about an association. What is the same for each of
/// the profile is a note once.
fn note(key: &str, association: &Association, loaded: &mut Loaded) {
    let profile = association.profile();
    let bits = association.strength().bits();
    if profile.is_legacy() {
        let text = format!("{key}: LEGACY: {profile} with {bits} effective bits of key");
        loaded.notes.push(text);
    } else if !loaded.notes.iter().any(|it| it.ends_with(LOSSES)) {
        loaded.notes.push(format!("{key}: {LOSSES}"));
    }
    let rules = profile.broken_rules(association.algorithms()).into_iter();
    let rules = rules.map(|rule| format!("{key}: {profile} breaks a rule of the draft: {rule}"));
    loaded.details.extend(rules);
    if !association.is_authenticated() {
        let text = "without a MAC anyone can change its packets, and no node is bound by them";
        loaded.notes.push(format!("{key}: {text}"));
    }
}

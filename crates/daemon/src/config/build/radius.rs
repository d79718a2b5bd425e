//! Servers of RADIUS: addresses, and the secret that they share with us.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::radius::{MAX_SERVERS, PORT, Server, Servers};
use engine::sa::Secret;
use wire::radius::MAX_VALUE_LEN;
use zeroize::Zeroizing;

use super::super::ConfigError;
use super::super::file::{Auth, ConfigFile};
use super::super::loaded::Loaded;
use super::super::radius::RadiusTable;
use super::Builder;

/// A secret of fewer octets can be guessed from one packet (RFC 2865 §3).
const SHORT_SECRET: usize = 16;

impl Builder<'_> {
    /// The servers, if the file names any. Warns of a secret that is short, and of servers that
    /// nobody asks.
    pub(super) fn radius(&self, loaded: &mut Loaded, file: &ConfigFile) -> Result<(), ConfigError> {
        let mut tables = file.connections.iter();
        let asking = tables.find(|(_, table)| table.remote.auth == Auth::EapRadius);
        let Some(table) = &file.radius else {
            return match asking {
                Some((name, _)) => {
                    let key = format!("connections.{name}.remote.auth");
                    let text = "\"eap-radius\" asks the servers of [radius], and there are none: \
                                add the table with servers and secret_file";
                    Err(self.value(&key, text))
                }
                None => Ok(()),
            };
        };
        let mut warn = |text: String| loaded.warnings.push(("radius".to_owned(), text));
        if asking.is_none() {
            warn("no connection asks these servers: remote auth = \"eap-radius\"".to_owned());
        }
        let secret = self.shared_secret(table)?;
        if secret.0.len() < SHORT_SECRET {
            warn(format!(
                "secret_file: the secret has {} octets and can be guessed: {SHORT_SECRET} or more \
                 random ones, such as `openssl rand -hex 16`",
                secret.0.len()
            ));
        }
        let all = self.radius_servers(table, &secret)?;
        if table.nas_id.is_empty() || table.nas_id.len() > MAX_VALUE_LEN {
            let text = format!("a name of 1 to {MAX_VALUE_LEN} octets, such as \"sg.example\"");
            return Err(self.value("radius.nas_id", &text));
        }
        let shown: Vec<String> = all.iter().map(|it| it.address.to_string()).collect();
        let order = shown.join(", then ");
        loaded.details.push(format!("RADIUS servers: {order}"));
        loaded.engine.radius = Some(Arc::new(Servers {
            all,
            nas_identifier: table.nas_id.clone(),
        }));
        Ok(())
    }

    fn shared_secret(&self, table: &RadiusTable) -> Result<Secret, ConfigError> {
        let key = "radius.secret_file";
        let path = self.folder.join(&table.secret_file);
        let read = self.origin.private(&path).map(Zeroizing::new);
        let octets = read.map_err(|fault| self.unreadable(key, &path, &fault))?;
        match octets.trim_ascii() {
            [] => Err(self.value(key, "the file is empty")),
            secret => Ok(Secret(secret.to_vec())),
        }
    }

    fn radius_servers(
        &self,
        table: &RadiusTable,
        secret: &Secret,
    ) -> Result<Vec<Arc<Server>>, ConfigError> {
        let key = "radius.servers";
        if table.servers.is_empty() || table.servers.len() > MAX_SERVERS {
            let text = format!("name 1 to {MAX_SERVERS} servers, such as [\"10.1.0.5\"]");
            return Err(self.value(key, &text));
        }
        let mut all: Vec<Arc<Server>> = Vec::new();
        for word in &table.servers {
            let address = server_address(word).ok_or_else(|| {
                let text = format!(
                    "{word:?} is neither an address nor ADDRESS:PORT, such as \"10.1.0.5\" or \
                     \"[fd00::5]:1812\"; names are not resolved"
                );
                self.value(key, &text)
            })?;
            if all.iter().any(|it| it.address == address) {
                return Err(self.value(key, &format!("{word} is named twice")));
            }
            all.push(Arc::new(Server {
                address,
                secret: secret.clone(),
            }));
        }
        Ok(all)
    }
}

/// An address, with the usual port if it has none.
fn server_address(word: &str) -> Option<SocketAddr> {
    let host = || {
        let host: IpAddr = word.parse().ok()?;
        Some(SocketAddr::new(host, PORT))
    };
    let address = word.parse().ok().or_else(host)?;
    let is_host = !address.ip().is_unspecified() && !address.ip().is_multicast();
    (is_host && address.port() != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_usual_port_or_its_own() {
        for (word, address) in [
            ("10.1.0.5", Some("10.1.0.5:1812")),
            ("10.1.0.5:1645", Some("10.1.0.5:1645")),
            ("fd00::5", Some("[fd00::5]:1812")),
            ("[fd00::5]:1", Some("[fd00::5]:1")),
            ("radius.example", None),
            ("10.1.0.5:0", None),
            ("0.0.0.0", None),
            ("ff02::1", None),
            ("", None),
        ] {
            let address = address.map(|it| it.parse().unwrap());
            assert_eq!(server_address(word), address, "{word}");
        }
    }
}

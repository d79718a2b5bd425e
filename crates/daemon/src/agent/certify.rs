//! Target's authority: it makes certificates of minutes, each for the key of one Client and one
//! tunnel. And Target's own certificates.

use std::path::Path;

use anyhow::{Context as _, ensure};
use crypto::cert::{Authority, Certificate, GuestRequest};
use crypto::sign::PrivateKey;
use engine::agent::TunnelId;
use engine::identity::Identity;
use engine::time::Calendar;

use super::key_file::random;
use crate::pki;

/// Octets of a serial number (RFC 5280 §4.1.2.2: positive, at most 20).
const SERIAL_LEN: usize = 16;

/// Octets of a private key's file.
pub(super) const KEY_MAX: u64 = 64 << 10;

/// An authority that only certifies guests.
pub(super) struct Guests {
    authority: Authority,
    own: Vec<u8>,
}

impl Guests {
    /// Loads the folder that `caravan pki ca` has made.
    pub(super) fn load(folder: &Path) -> anyhow::Result<Self> {
        let authority = pki::authority(folder)?;
        let own = authority.certificate_der()?;
        Ok(Self { authority, own })
    }

    /// Makes a certificate: itself first, then the authority's, DER.
    pub(super) fn certify(
        &self,
        tunnel: TunnelId,
        tunnel_key: &[u8],
        client_identity: &str,
        (now, until): (Calendar, Calendar),
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut serial = random::<SERIAL_LEN>()?;
        // Positive, and with all of its octets.
        serial[0] = serial[0] & 0x7f | 0x40;
        let made = self.authority.issue_to_guest(&GuestRequest {
            subject: &tunnel.to_string(),
            identity: client_identity,
            public_info: tunnel_key,
            serial: &serial[..],
            now: now.0,
            until: until.0,
        })?;
        // Its size too: Client chooses the key, and the message's limit is that of 8,192 bits.
        let checked = Certificate::from_der(&made)?.check_as_own(now.0, false);
        checked.context("the tunnel's key or name cannot be certified")?;
        Ok(vec![made, self.own.clone()])
    }

    /// Refuses certificates whose time has not come or is over: Target's, and the authority's.
    pub(super) fn check_in_force(&self, chain: &[Vec<u8>], now: Calendar) -> anyhow::Result<()> {
        let own = chain.first().into_iter().chain([&self.own]);
        for der in own {
            Certificate::from_der(der)?.check_in_force(now.0)?;
        }
        Ok(())
    }

    /// Target's own certificates, its own first, with this authority's if it has issued the last.
    pub(super) fn chain_of(&self, file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
        let context = || file.display().to_string();
        let all = Certificate::all_from_pem(&read(file)?).with_context(context)?;
        ensure!(!all.is_empty(), "{} has no certificate", file.display());
        let mut chain: Vec<Vec<u8>> = all.iter().map(|one| one.der().to_vec()).collect();
        let has_root = all.last().is_some_and(Certificate::is_authority);
        if !has_root {
            chain.push(self.own.clone());
        }
        Ok(chain)
    }
}

/// Refuses what every Client would refuse: another certificate's key, a name that it does not have.
pub(super) fn check_own(chain: &[Vec<u8>], key: &str, identity: &str) -> anyhow::Result<()> {
    let leaf = Certificate::from_der(chain.first().context("there is no certificate")?)?;
    let key = PrivateKey::from_pem(key)?;
    ensure!(
        leaf.signature_key()? == key.public(),
        "this private key is not that of {}",
        leaf.subject()
    );
    let names = leaf.names();
    let is_named = Identity::parse(identity)?.proven_by(&names).is_some();
    let list: Vec<String> = names.iter().map(ToString::to_string).collect();
    ensure!(
        is_named,
        "identity = {identity:?} is no name of the certificate, which has {}",
        list.join(", ")
    );
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    text.with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use crypto::cert::SigningKey;

    use super::*;
    use crate::config::wireless::octets_of;

    /// SubjectPublicKeyInfo of an RSA key of 1,024 bits.
    const SHORT_KEY: &str = "\
        30819f300d06092a864886f70d010101050003818d0030818902818100c2331f9c12c2f1\
        76659c019b4fbc7d00084cca6f1f3f2c2d2800d4be5a457a814383b4a7b7ed35918f1953\
        b3670ed6d9d164884aab47862420177d1681cd0526548a68d08e6df459febc568df2c9e1\
        3796a6a94c98b4552a3480cf4f705f2d1e694d6deb4218c8d60b63a95f0697b2d1a46b16\
        58673489746af1c950088ae0bb0203010001";

    #[test]
    fn a_guest_s_certificate_comes_with_its_authority() {
        let name = format!("caravan-agent-authority-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        assert!(Guests::load(&folder).is_err());
        let key = SigningKey::generate(2048).unwrap();
        let authority = Authority::create("CN=office", key, &[1], 1_800_000_000, 30).unwrap();
        fs::write(folder.join("ca.pem"), authority.certificate_pem()).unwrap();
        let key = folder.join("ca.key");
        fs::write(&key, &*authority.key_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let said = format!("{:#}", Guests::load(&folder).err().unwrap());
        assert!(said.contains("chmod 600"), "{said}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let guests = Guests::load(&folder).unwrap();
        let guest = SigningKey::generate(2048).unwrap();
        let times = (Calendar(1_800_000_000), Calendar(1_800_000_600));
        let id = TunnelId([7; 16]);
        let chain = guests
            .certify(id, &guest.public_info(), "alice@home", times)
            .unwrap();
        assert_eq!(chain[1], authority.certificate_der().unwrap());
        let made = Certificate::from_der(&chain[0]).unwrap();
        assert!(made.subject().contains(&id.to_string()));
        assert!(guests.certify(id, b"no key", "alice@home", times).is_err());
        let short = octets_of(SHORT_KEY).unwrap();
        assert!(guests.certify(id, &short, "alice@home", times).is_err());
        // Of an end's own certificate: its key, its name, its time.
        let name = |identity: &str| check_own(&chain, &guest.to_pem(), identity);
        name("alice@home").unwrap();
        let said = name("bob@home").unwrap_err().to_string();
        assert!(
            said.contains("which has") && said.contains("alice@home"),
            "{said}"
        );
        let other = SigningKey::generate(2048).unwrap();
        let said = check_own(&chain, &other.to_pem(), "alice@home").unwrap_err();
        assert!(
            said.to_string().contains("private key is not that of"),
            "{said}"
        );
        guests.check_in_force(&chain, times.0).unwrap();
        let late = Calendar(times.1.0 + 60);
        let said = guests.check_in_force(&chain, late).unwrap_err().to_string();
        assert!(said.contains("expired"), "{said}");
        let own = guests.chain_of(&folder.join("ca.pem")).unwrap();
        assert_eq!(own, chain[1..]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

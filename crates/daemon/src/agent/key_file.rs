//! The secret keys of Host and Target, in a file of mode 0600, and the seed of a process.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use crypto::ed25519::SigningKey;
use crypto::hpke::SecretKey;
use crypto::rand::Seed;
use engine::agent::identity::{Identity, Keys};
use zeroize::Zeroizing;

use crate::config::wireless::octets_of;
use crate::files;
pub(super) use crate::pki::random;

/// The first line of the file.
const START: &str = "caravan tunnel-agent keys 1";
/// Octets of the file at most: its two lines have 157.
const LEN_MAX: u64 = 512;
const SECRET_LEN: usize = 32;

/// Makes keys and writes them to a new file. Hosts that share a database share a copy of it.
pub(super) fn create(path: &Path) -> anyhow::Result<Identity> {
    let octets = random::<{ 2 * SECRET_LEN }>()?;
    let mut text = Zeroizing::new(String::with_capacity(LEN_MAX as usize));
    text.push_str(START);
    text.push('\n');
    for octet in octets.iter() {
        for digit in [octet >> 4, octet & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text.push('\n');
    write_new(path, text.as_bytes())?;
    Ok(keys_of(&octets).identity())
}

/// Writes a new file that nobody else may read. Refuses one that is there.
pub(super) fn write_new(path: &Path, octets: &[u8]) -> anyhow::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(octets)?;
        file.sync_all()
    });
    match written {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} already exists: remove it first", path.display())
        }
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Reads them. Refuses a file that is no secret.
pub(super) fn load(path: &Path) -> anyhow::Result<Keys> {
    let unreadable = || {
        format!(
            "cannot read {} (`caravan tunnel-agent init` makes it)",
            path.display()
        )
    };
    let file = files::open_plain(path).with_context(unreadable)?;
    files::check_secret(&file, path)?;
    let mut text = Zeroizing::new(String::with_capacity(LEN_MAX as usize + 1));
    let read = file.take(LEN_MAX + 1).read_to_string(&mut text);
    read.with_context(unreadable)?;
    let digits = text.strip_prefix(START).map(str::trim);
    let octets = digits.and_then(octets_of);
    let octets = octets.and_then(|it| it.first_chunk().copied().filter(|_| it.len() == 64));
    let Some(octets) = octets.map(Zeroizing::new) else {
        bail!("{} does not have the keys of an agent", path.display());
    };
    Ok(keys_of(&octets))
}

fn keys_of(octets: &[u8; 2 * SECRET_LEN]) -> Keys {
    let half = |from: usize| {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        secret.copy_from_slice(&octets[from..from + SECRET_LEN]);
        secret
    };
    Keys {
        sealing: SecretKey::of(&half(0)),
        signing: SigningKey::of(&half(SECRET_LEN)),
    }
}

/// The seed of this process.
pub(super) fn seed() -> anyhow::Result<Seed> {
    Ok(Seed::new(*random()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keys_read_back_and_only_from_a_file_of_our_own() {
        let name = format!("caravan-agent-keys-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("host.keys");
        let identity = create(&path).unwrap();
        assert_eq!(load(&path).unwrap().identity(), identity);
        let said = create(&path).unwrap_err().to_string();
        assert!(said.contains("already exists"), "{said}");
        let text = fs::read(&path).unwrap();
        for len in 0..text.len() - 1 {
            fs::write(&path, &text[..len]).unwrap();
            assert!(load(&path).is_err(), "{len}");
        }
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let said = load(&path).err().map(|it| it.to_string());
        assert!(said.is_some_and(|it| it.contains("chmod 600")));
        fs::remove_dir_all(&folder).unwrap();
    }
}

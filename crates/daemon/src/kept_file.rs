//! What the engine keeps over a restart: the secret of its tokens of quick crash detection, the
//! keys of its tickets, and which tickets were used (`engine::node::Output::Keep`).
//!
//! One file in the folder of the network process's user, which nobody else may read. Without it a
//! crash is found by a timeout, and every ticket is refused: nothing worse.

use std::fs::File;

use engine::sa::Secret;
use tracing::warn;

use crate::files;

const FILE: &str = "ike-secrets";
/// More than the engine keeps: 20 octets of each of 65,536 used tickets, and a few keys.
const BYTES_MAX: u64 = 2 << 20;

/// The file of one process.
pub struct KeptFile {
    /// `None`: nothing can be stored.
    folder: Option<File>,
}

impl KeptFile {
    /// Uses this folder, which stays open.
    pub const fn new(folder: Option<File>) -> Self {
        Self { folder }
    }

    /// What an earlier process has kept.
    pub fn read(&self) -> Option<Secret> {
        let (octets, _) = files::read_in(self.folder.as_ref()?, FILE, BYTES_MAX).ok()?;
        Some(Secret(octets))
    }

    /// Keeps secrets in place of the former ones, all or nothing.
    pub fn write(&self, secrets: &Secret) {
        let stored = match &self.folder {
            Some(folder) => files::replace(folder, FILE, &secrets.0).map(drop),
            None => Err(std::io::Error::other("there is no folder for it")),
        };
        if let Err(error) = stored {
            warn!("cannot store the secrets of quick crash detection and tickets: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_we_can_read_what_is_kept() {
        let path = std::env::temp_dir().join(format!("caravan-kept-{}", std::process::id()));
        let open = || Some(files::make_folder(&path, 0o700).expect("a folder"));
        let file = KeptFile::new(open());
        assert!(file.read().is_none());
        file.write(&Secret(vec![1, 2, 3]));
        file.write(&Secret(vec![4, 5]));
        let again = KeptFile::new(open());
        assert_eq!(again.read().expect("secrets").0, [4, 5]);
        let mode = std::fs::metadata(path.join(FILE))
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(&path).expect("removed");
        // Without a folder nothing is kept, and nothing fails.
        let nowhere = KeptFile::new(None);
        nowhere.write(&Secret(vec![1]));
        assert!(nowhere.read().is_none());
    }
}

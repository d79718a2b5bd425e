//! Files that other users of this machine can read although they hold a secret, or can change
//! although we do what they say. Whoever owns a file can do both, whatever its mode is.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::file::{Auth, ConfigFile};

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o022;

/// What to warn of: the table and the sentence. `path` is the file itself. The users in `trusted`
/// may own files.
pub(super) fn exposed(
    folder: &Path,
    path: &Path,
    file: &ConfigFile,
    trusted: [u32; 2],
) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    for (place, what, secret) in secrets(path, file) {
        let secret = place_of(folder, path, secret);
        if may(&secret, OTHERS_READ) {
            let text = format!(
                "{what}everybody on this machine can read {0}, which holds a secret: `chmod 600 \
                 {0}`",
                secret.display()
            );
            warnings.push((place, text));
        }
    }
    let own = path.to_owned();
    for named in file.files().chain([&own]) {
        let named = place_of(folder, path, named.clone());
        if may(&named, OTHERS_WRITE) {
            let text = format!(
                "other users can change {0}, and we do what it says: `chmod go-w {0}`",
                named.display()
            );
            warnings.push(("files".to_owned(), text));
        }
        let owner = std::fs::metadata(&named).map(|found| found.uid());
        if let Ok(owner) = owner
            && !trusted.contains(&owner)
        {
            let text = format!(
                "{0} belongs to user {owner}, who can read and change it: `chown root {0}`",
                named.display()
            );
            warnings.push(("files".to_owned(), text));
        }
    }
    warnings
}

/// Tables, what of them is meant, and the files in which they have secrets.
fn secrets(path: &Path, file: &ConfigFile) -> Vec<(String, String, PathBuf)> {
    let own = |is_here: bool| is_here.then(|| path.to_owned());
    let mut all = Vec::new();
    for (name, table) in &file.connections {
        for (auth, side) in [(&table.local, "local"), (&table.remote, "remote")] {
            let key = auth.key.clone().filter(|_| side == "local");
            let secret = auth.secret_file.clone();
            let secret = secret.filter(|_| matches!(auth.auth, Auth::Psk | Auth::EapMschapv2));
            let files = key.into_iter().chain(secret);
            let files = files.chain(own(auth.secret.is_some()));
            all.extend(files.map(|it| (name.clone(), format!("{side}: "), it)));
        }
    }
    let mut add = |place: &str, file: Option<PathBuf>| {
        all.extend(file.map(|it| (place.to_owned(), String::new(), it)));
    };
    for (place, it) in file.associations() {
        add(&place, it.key_file.clone().or(own(it.key.is_some())));
    }
    for (place, it) in file.aaa_keys() {
        add(&place, it.key_file.clone().or(own(it.key.is_some())));
    }
    if let Some(skip) = &file.skip {
        add("skip", skip.key.clone());
        add(
            "skip.token",
            skip.token.as_ref().map(|it| it.pin_file.clone()),
        );
    }
    all
}

/// Where a file is: a file that names others in its own folder.
fn place_of(folder: &Path, own: &Path, named: PathBuf) -> PathBuf {
    match named == own {
        true => named,
        false => folder.join(named),
    }
}

fn may(file: &Path, bits: u32) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & bits != 0)
}

#[cfg(test)]
mod tests {
    use nix::unistd::Uid;

    use super::*;
    use crate::config::file::parse;

    #[test]
    fn whoever_owns_a_file_is_root_or_we_or_named() {
        let folder = std::env::temp_dir().join(format!("caravan-owner-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.toml");
        let text = "[connections.a]\nremote_addrs = [\"192.0.2.1\"]\n\
                    local = { auth = \"psk\", secret_file = \"psk\", id = \"ms.example\" }\n\
                    remote = { auth = \"psk\", id = \"sg.example\" }\n\
                    [connections.a.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";
        for file in [&path, &folder.join("psk")] {
            std::fs::write(file, text).unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let file = parse(&path, text).unwrap();
        let us = Uid::effective().as_raw();
        let said = |trusted| exposed(&folder, &path, &file, trusted);
        assert_eq!(said([0, us]), []);
        // To another user these files would be a stranger's.
        let strange = said([us + 1, us + 2]);
        assert_eq!(strange.len(), 2, "{strange:?}");
        for (it, name) in strange.iter().zip(["psk", "x.toml"]) {
            let named = folder.join(name);
            let (belongs, remedy) = (
                format!("{} belongs to user {us}", named.display()),
                format!("`chown root {}`", named.display()),
            );
            assert!(it.1.contains(&belongs) && it.1.contains(&remedy), "{it:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

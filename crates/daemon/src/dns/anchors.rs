//! Keys of DNSSEC that a gateway gives (RFC 8598), in a file for a resolver that validates. The
//! file is there as long as the tunnel brings them.
//!
//! systemd-resolved is not told of them: it would believe a key whatever link an answer comes by,
//! and keep it after the tunnel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files;
use crate::footprint::{self, FootprintFile};

/// The first line. In a zone file a comment begins with a semicolon.
const HEADER: &str = "; written by caravan; goes with the tunnel";

/// The file of a process with this folder in the runtime directory.
fn path_of(folder: &Path) -> PathBuf {
    folder.with_extension("trust-anchors")
}

/// The file of a process of this name.
pub fn path(runtime_dir: &Path, name: &str) -> PathBuf {
    path_of(&footprint::folder(runtime_dir, name))
}

/// Writes these DS records, one a line, where every program can read them. Without any, removes the
/// file.
pub fn take(records: &[String], file: &mut FootprintFile) -> io::Result<()> {
    if records.is_empty() {
        return give_back(file);
    }
    file.update(|footprint| footprint.has_trust_anchors = true)?;
    let path = path_of(file.folder());
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let folder = files::open_folder(above)?;
    // Who can replace the file could speak for every domain.
    files::check_ours(&folder, above)?;
    let lines = [HEADER].into_iter().chain(records.iter().map(|it| &it[..]));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    files::publish(&folder, &name.to_string_lossy(), text.as_bytes())
}

/// Removes the file.
pub fn give_back(file: &mut FootprintFile) -> io::Result<()> {
    if !file.footprint.has_trust_anchors {
        return Ok(());
    }
    match fs::remove_file(path_of(file.folder())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    file.update(|footprint| footprint.has_trust_anchors = false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_readable_for_all_and_go_with_the_tunnel() {
        let runtime = std::env::temp_dir().join(format!("caravan-anchors-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "home.one").unwrap();
        let path = path(&runtime, "home.one");
        let record = "corp.example. IN DS 43547 13 2 07".to_owned();
        take(core::slice::from_ref(&record), &mut file).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{HEADER}\n{record}\n"));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(!file.footprint.is_empty());
        take(&[], &mut file).unwrap();
        assert!(!path.exists() && file.footprint.is_empty());
        // A killed process: the next one of its name removes the file.
        take(&[record], &mut file).unwrap();
        drop(file);
        let mut file = FootprintFile::open(&runtime, "home.one").unwrap();
        assert!(path.exists());
        give_back(&mut file).unwrap();
        assert!(!path.exists());
        fs::remove_dir_all(&runtime).unwrap();
    }

    #[test]
    fn keys_are_not_written_where_another_user_could_replace_them() {
        let runtime = std::env::temp_dir().join(format!("caravan-shared-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "home").unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(take(&["x".to_owned()], &mut file).is_err());
        assert!(!path(&runtime, "home").exists());
        give_back(&mut file).unwrap();
        assert!(file.footprint.is_empty());
        fs::remove_dir_all(&runtime).unwrap();
    }
}

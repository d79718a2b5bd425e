//! Files of a folder that a configuration includes: a tunnel agent writes one for each tunnel. They
//! have connections and pools alone; names of files in them are relative to their own folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use zeroize::Zeroizing;

use super::file::{ConfigFile, ConnectionTable, parse};
use super::{ConfigError, Origin};

/// Files of one folder at most.
const FILES_MAX: usize = 10_000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The folder that a file includes.
pub(super) fn folder(path: &Path, file: &ConfigFile) -> Option<PathBuf> {
    let own = path.parent().unwrap_or(Path::new("."));
    file.daemon.include.as_ref().map(|name| own.join(name))
}

/// The files of a folder, by name. A folder that is not there has none; one that others may write
/// to is refused.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let unreadable = |fault| ConfigError::Unreadable {
        path: folder.to_owned(),
        fault,
    };
    let found = match fs::metadata(folder) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(unreadable)?,
    };
    let is_ours = found.uid() == 0 || found.uid() == Uid::effective().as_raw();
    if !is_ours || found.mode() & WRITABLE_BY_OTHERS != 0 {
        let text = "other users can write into it, so its files are not read";
        return Err(unreadable(std::io::Error::new(
            ErrorKind::PermissionDenied,
            text,
        )));
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            let text = format!("it has more than {FILES_MAX} files");
            return Err(unreadable(std::io::Error::other(text)));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Adds what the included files have.
pub(super) fn add(
    path: &Path,
    file: &mut ConfigFile,
    origin: Origin<'_>,
) -> Result<(), ConfigError> {
    let Some(folder) = folder(path, file) else {
        return Ok(());
    };
    let paths = match origin {
        Origin::Files => files(&folder)?,
        Origin::Texts(texts) => texts.within(&folder),
    };
    for path in paths {
        let text = match origin.text(&path).map(Zeroizing::new) {
            // A tunnel that ended since the folder was listed.
            Err(fault) if fault.kind() == ErrorKind::NotFound => continue,
            text => text.map_err(|fault| ConfigError::Unreadable {
                path: path.clone(),
                fault,
            })?,
        };
        let mut more = parse(&path, &text)?;
        if let Some(key) = other_tables(&more) {
            let text = "an included file has connections and pools alone";
            return Err(wrong(&path, key, text));
        }
        more.connections
            .values_mut()
            .for_each(|it| rebase(it, &folder));
        let names = more.connections.keys().cloned();
        file.included.extend(names.collect::<Vec<_>>());
        merge(
            &path,
            "connections",
            &mut file.connections,
            more.connections,
        )?;
        merge(&path, "pools", &mut file.pools, more.pools)?;
    }
    Ok(())
}

fn merge<T>(
    path: &Path,
    table: &str,
    all: &mut BTreeMap<String, T>,
    more: BTreeMap<String, T>,
) -> Result<(), ConfigError> {
    for (name, value) in more {
        if all.contains_key(&name) {
            let text = "another file has this table, too";
            return Err(wrong(path, &format!("{table}.{name}"), text));
        }
        all.insert(name, value);
    }
    Ok(())
}

fn wrong(path: &Path, key: &str, text: &str) -> ConfigError {
    ConfigError::Value {
        path: path.to_owned(),
        line: None,
        key: key.to_owned(),
        text: text.to_owned(),
    }
}

/// The first table that is neither a connection nor a pool.
fn other_tables(file: &ConfigFile) -> Option<&'static str> {
    let tables = [
        ("daemon", file.daemon != Default::default()),
        ("publish", !file.publish.is_empty()),
        ("radius", file.radius.is_some()),
        ("home_agent", file.home_agent.is_some()),
        ("foreign_agent", file.foreign_agent.is_some()),
        ("mobile", file.mobile.is_some()),
        ("firewall", file.firewall.is_some()),
        ("access", !file.access.is_empty()),
        ("skip", file.skip.is_some()),
        ("mobile_nodes", !file.mobile_nodes.is_empty()),
        ("home_agents", !file.home_agents.is_empty()),
        ("foreign_agents", !file.foreign_agents.is_empty()),
    ];
    tables
        .into_iter()
        .find(|(_, is_there)| *is_there)
        .map(|(key, _)| key)
}

/// Its files are named from where the including file is.
fn rebase(table: &mut ConnectionTable, folder: &Path) {
    for end in [&mut table.local, &mut table.remote] {
        let lists = [&mut end.certs, &mut end.cacerts, &mut end.crls];
        let paths = lists.into_iter().flatten();
        let paths = paths.chain(&mut end.key).chain(&mut end.secret_file);
        let paths = paths.chain(&mut end.users);
        paths.for_each(|path| *path = folder.join(&*path));
    }
    if let Some(path) = &mut table.ppk_file {
        *path = folder.join(&*path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::{Names, Texts, connection_names, load, load_from};
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("caravan-include-{}-{name}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            fs::create_dir_all(folder.0.join("tunnels")).expect("made");
            folder.write(
                "gateway.toml",
                &("[daemon]\ninclude = \"tunnels\"\n".to_owned() + &connection("road")),
            );
            folder
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.join(name), text).expect("written");
        }

        fn main(&self) -> PathBuf {
            self.0.join("gateway.toml")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    fn connection(name: &str) -> String {
        format!(
            "[connections.{name}]\nlocal = {{ auth = \"psk\", id = \"gw.example\" }}\nremote = {{ \
             auth = \"psk\", id = \"{name}.example\", secret_file = \"{name}.secret\" }}\n\
             [connections.{name}.children.net]\nlocal_ts = [\"10.10.0.0/24\"]\nremote_ts = \
             [\"10.20.0.0/24\"]\n"
        )
    }

    #[test]
    fn files_of_the_folder_add_connections_with_files_of_their_own() {
        let folder = Folder::new("adds");
        let secret = "a long secret of the road";
        folder.write("road.secret", secret);
        let main = folder.main();
        assert_eq!(connection_names(&main).expect("names"), ["road"]);
        folder.write("tunnels/one.toml", &connection("one"));
        folder.write("tunnels/one.secret", secret);
        folder.write("tunnels/note.txt", "no configuration");
        let loaded = load(&main, Names::Wanted).expect("good");
        assert_eq!(loaded.names(), ["road", "one"]);
        // What one process reads for another has the same.
        let texts = Texts::read(&main).expect("read");
        fs::remove_file(folder.0.join("tunnels/one.toml")).expect("removed");
        let read = load_from(&main, Names::Wanted, &texts).expect("good");
        assert_eq!(read.names(), ["road", "one"]);
        assert_eq!(load(&main, Names::Wanted).expect("good").names(), ["road"]);
        fs::remove_file(folder.0.join("tunnels/note.txt")).expect("removed");
        fs::remove_dir_all(folder.0.join("tunnels")).expect("removed");
        assert_eq!(connection_names(&main).expect("names"), ["road"]);
    }

    /// What it leaves on its host is named after its first connection.
    #[test]
    fn a_process_has_a_name_of_its_own_whatever_a_folder_adds() {
        let folder = Folder::new("own-name");
        folder.write("road.secret", "a long secret of the road");
        for name in ["cta-0", "a", "z"] {
            folder.write(&format!("tunnels/{name}.toml"), &connection(name));
            folder.write(
                &format!("tunnels/{name}.secret"),
                "a long secret of the road",
            );
        }
        let main = folder.main();
        let wanted = ["road", "a", "cta-0", "z"];
        assert_eq!(connection_names(&main).expect("names"), wanted);
        assert_eq!(load(&main, Names::Wanted).expect("good").names(), wanted);
        folder.write("gateway.toml", "[daemon]\ninclude = \"tunnels\"\n");
        let fault = load(&main, Names::Wanted)
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(fault.contains("needs a connection of its own"), "{fault}");
    }

    #[test]
    fn what_an_included_file_may_not_have_is_told_with_its_name() {
        let folder = Folder::new("refuses");
        folder.write("road.secret", "a long secret of the road");
        for (text, wanted) in [
            (
                connection("road"),
                "tunnels/one.toml: connections.road: another file",
            ),
            (
                "[daemon]\ntun = \"x\"\n".to_owned(),
                "tunnels/one.toml: daemon: an included file",
            ),
            ("[connections.x]\n".to_owned(), "tunnels/one.toml: line 1"),
        ] {
            folder.write("tunnels/one.toml", &text);
            let fault = load(&folder.main(), Names::Wanted).map(drop).unwrap_err();
            assert!(fault.to_string().contains(wanted), "{fault}");
        }
        folder.write("tunnels/one.toml", "");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.0.join("tunnels"), open).expect("changed");
        let fault = load(&folder.main(), Names::Wanted).map(drop).unwrap_err();
        assert!(
            fault.to_string().contains("other users can write into it"),
            "{fault}"
        );
    }
}

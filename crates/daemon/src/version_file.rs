//! Clients that have used IKEv2 with a connection that takes either version, kept over restarts:
//! from then on IKEv1 is refused to them (`engine::node::Event::Upgraded`).
//!
//! In the folder of the network process's user, a line of JSON for each. A line is added when a
//! client comes with IKEv2 for the first time; the whole file is written anew at each start and
//! when the user has one forgotten. A loss of power may take the last lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};

use engine::identity::{Identity, Mark};
use engine::node::UPGRADED_MAX;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::files;

const FILE: &str = "ikev2-clients";
/// Longest line: the longest identity, all of it escaped, the name of a connection and a mark.
const LINE_BYTES_MAX: usize = crate::control::REQUEST_BYTES_MAX;
const BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    connection: String,
    /// The peer's identity as `status` shows it.
    peer: String,
    mark: [u8; 32],
}

/// The file of one process.
#[derive(Default)]
pub struct VersionFile {
    /// `None`: nothing can be stored.
    folder: Option<File>,
    /// Open for more lines.
    file: Option<File>,
    known: BTreeMap<Mark, (String, String)>,
}

impl VersionFile {
    /// Reads the file of this folder, which stays open. Err: it is there, and cannot be read. Then
    /// nobody knows which clients may not use IKEv1.
    pub fn open(folder: Option<File>) -> io::Result<Self> {
        let read = folder
            .as_ref()
            .map(|folder| files::read_in(folder, FILE, BYTES_MAX));
        let known = match read {
            Some(Ok((text, _))) => parse(&text)?,
            Some(Err(fault)) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
            _ => BTreeMap::new(),
        };
        Ok(Self {
            folder,
            file: None,
            known,
        })
    }

    /// What the engine knows them by.
    pub fn marks(&self) -> Vec<Mark> {
        self.known.keys().copied().collect()
    }

    /// Adds a client.
    pub fn note(&mut self, connection: &str, peer: &str, mark: Mark) {
        let entry = (connection.to_owned(), peer.to_owned());
        if self.known.insert(mark, entry).is_some() {
            return;
        }
        let line = line_of(mark, connection, peer);
        let stored = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => self.write(),
        };
        if let Err(error) = stored {
            warn!("cannot store that {peer} of {connection} has used IKEv2: {error}");
        }
    }

    /// Forgets a client. Returns its marks; there are none if it is unknown.
    pub fn forget(&mut self, connection: &str, peer: &Identity) -> io::Result<Vec<Mark>> {
        let wanted = peer.canonical();
        let is_it = |text: &str| Identity::parse(text).is_ok_and(|it| it.canonical() == wanted);
        let own = self.known.iter();
        let marks: Vec<Mark> = own
            .filter(|(_, (name, text))| name == connection && is_it(text))
            .map(|(mark, _)| *mark)
            .collect();
        for mark in &marks {
            self.known.remove(mark);
        }
        if !marks.is_empty() {
            self.write()?;
        }
        Ok(marks)
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Err(io::Error::other("there is no folder for it"));
        };
        let lines = self.known.iter();
        let text: String = lines
            .map(|(mark, (connection, peer))| line_of(*mark, connection, peer))
            .collect();
        self.file = Some(files::replace(folder, FILE, text.as_bytes())?);
        Ok(())
    }
}

fn line_of(mark: Mark, connection: &str, peer: &str) -> String {
    let line = Line {
        connection: connection.to_owned(),
        peer: peer.to_owned(),
        mark: mark.0,
    };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    text.push('\n');
    text
}

/// A line that was cut off by a loss of power is passed over if it is the last one.
fn parse(text: &[u8]) -> io::Result<BTreeMap<Mark, (String, String)>> {
    let mut known = BTreeMap::new();
    let whole = text
        .iter()
        .rposition(|octet| *octet == b'\n')
        .map_or(0, |at| at + 1);
    for line in text[..whole].split(|octet| *octet == b'\n') {
        if line.is_empty() {
            continue;
        }
        if line.len() > LINE_BYTES_MAX || known.len() >= UPGRADED_MAX {
            return Err(io::Error::other(format!("{FILE} is too long")));
        }
        let line: Line = serde_json::from_slice(line)?;
        known.insert(Mark(line.mark), (line.connection, line.peer));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("caravan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn open(path: &std::path::Path) -> io::Result<VersionFile> {
        VersionFile::open(Some(files::open_folder(path).unwrap()))
    }

    #[test]
    fn clients_are_known_after_a_restart_until_they_are_forgotten() {
        let path = folder("ikev2-clients");
        let mut file = open(&path).unwrap();
        assert!(file.marks().is_empty());
        for (number, peer) in ["ms1.example", "ms2.example", "CN=\"ms\" 3"]
            .iter()
            .enumerate()
        {
            file.note("ms", peer, Mark([number as u8; 32]));
        }
        file.note("other", "ms1.example", Mark([9; 32]));
        file.note("other", "ms1.example", Mark([9; 32]));
        let mut file = open(&path).unwrap();
        let all = [0, 1, 2, 9].map(|number| Mark([number; 32]));
        assert_eq!(file.marks(), all);
        let peer = Identity::parse("MS1.example").unwrap();
        assert_eq!(file.forget("ms", &peer).unwrap(), [all[0]]);
        assert_eq!(file.forget("ms", &peer).unwrap(), []);
        file.note("ms", "ms4.example", Mark([4; 32]));
        let marks = open(&path).unwrap().marks();
        assert_eq!(marks, [1, 2, 4, 9].map(|number| Mark([number; 32])));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_line_that_was_cut_off_costs_itself_alone_and_a_damaged_file_is_refused() {
        let path = folder("ikev2-clients-cut");
        let line = line_of(Mark([1; 32]), "ms", "ms1.example");
        let file = path.join(FILE);
        std::fs::write(&file, format!("{line}{}", &line[..20])).unwrap();
        assert_eq!(open(&path).unwrap().marks(), [Mark([1; 32])]);
        std::fs::write(&file, format!("{}\n{line}", &line[..20])).unwrap();
        assert!(open(&path).is_err());
        std::fs::remove_dir_all(path).unwrap();
    }
}

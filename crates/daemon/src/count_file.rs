//! How far n of `skip-paper` has come with each peer, kept over restarts: no n may be sent twice,
//! and none that is older than what was heard is accepted again.
//!
//! In the folder of the network process's user, one line `BOUND PAIR` for what was sent, and one
//! `N heard KEY PAIR` for what was heard. A pair is what [`engine::skip::Association::names`]
//! shows, and the addresses if a name is an address. A peer that has a new key starts at 0 again,
//! so KEY tells its keys apart ([`Association::fingerprint`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io;

use engine::firewall::access::ENTRIES_MAX;
use engine::skip::Association;

use crate::files;

const FILE: &str = "counts";
/// Lines that are kept at most: as many as a configuration can need, and as many of former ones.
const LINES_MAX: usize = 2 * FORMER_MAX;
/// A start that finds more drops those that are not configured. Fewer stay, because a line of a
/// configuration that is away for a while comes back with the same key. Each pair has two.
const FORMER_MAX: usize = 2 * ENTRIES_MAX;
/// Longest line: two names of 16 octets, two addresses and a number.
const LINE_BYTES_MAX: usize = 180;
const BYTES_MAX: u64 = (LINES_MAX * LINE_BYTES_MAX) as u64;

/// The file of one process.
pub struct CountFile {
    /// `None`: nothing can be stored.
    folder: Option<File>,
    bounds: BTreeMap<String, u32>,
    /// The disk does not have all of them.
    is_ahead: bool,
}

/// The words under which it stands what was heard from a pair's other end.
pub fn heard(pair: &str, association: &Association) -> String {
    format!("heard {:016x} {pair}", association.fingerprint())
}

impl CountFile {
    /// Reads the file of this folder, which stays open. Err: it is there, and cannot be read. Then
    /// nobody knows which n were sent.
    pub fn open(folder: Option<File>) -> io::Result<Self> {
        let read = folder
            .as_ref()
            .map(|folder| files::read_in(folder, FILE, BYTES_MAX));
        let bounds = match read {
            Some(Ok((text, _))) => parse(&String::from_utf8_lossy(&text))?,
            Some(Err(fault)) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
            _ => BTreeMap::new(),
        };
        Ok(Self {
            folder,
            bounds,
            is_ahead: false,
        })
    }

    /// Call it once at the start. If there are too many lines, drops those that are not configured;
    /// the disk follows with the next [`CountFile::store`].
    pub fn prune(&mut self, configured: &BTreeSet<String>) {
        if self.bounds.len() > FORMER_MAX {
            self.bounds.retain(|pair, _| configured.contains(pair));
        }
    }

    /// Every n that was sent to this pair is below it; or the highest that was heard, under the
    /// name that [`heard`] gives. 0: none was.
    pub fn bound(&self, pair: &str) -> u32 {
        self.bounds.get(pair).copied().unwrap_or(0)
    }

    /// Stores a bound. When this returns, it survives a loss of power.
    pub fn store(&mut self, pair: &str, bound: u32) -> io::Result<()> {
        self.folder()?;
        self.keep(pair, bound);
        self.write()
    }

    /// Takes a number that waits for the next [`CountFile::store`] or [`CountFile::catch_up`].
    pub fn keep(&mut self, pair: &str, n: u32) {
        self.bounds.insert(pair.to_owned(), n);
        self.is_ahead = true;
    }

    /// Stores what waits. The owner calls it once a minute, so that peers do not choose how often
    /// the disk is written.
    pub fn catch_up(&mut self) -> io::Result<()> {
        match self.is_ahead {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let mut text = String::new();
        for (pair, bound) in &self.bounds {
            let _ = writeln!(text, "{bound} {pair}");
        }
        files::replace_durably(self.folder()?, FILE, text.as_bytes())?;
        self.is_ahead = false;
        Ok(())
    }

    fn folder(&self) -> io::Result<&File> {
        let missing = || io::Error::other("there is no folder for them");
        self.folder.as_ref().ok_or_else(missing)
    }
}

fn parse(text: &str) -> io::Result<BTreeMap<String, u32>> {
    let line = |line: &str| {
        let (bound, pair) = line.split_once(' ')?;
        Some((pair.to_owned(), bound.parse().ok()?))
    };
    let all: Option<BTreeMap<_, _>> = text.lines().map(line).collect();
    all.ok_or_else(|| io::Error::other("a line is not BOUND PAIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> (std::path::PathBuf, File) {
        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("caravan-counts-{name}-{own}"));
        let folder = files::make_folder(&path, 0o700).expect("a folder");
        (path, folder)
    }

    #[test]
    fn a_bound_comes_back_after_a_restart() {
        let (path, held) = folder("back");
        let mut file = CountFile::open(Some(held)).expect("no file yet");
        assert_eq!(file.bound("0/na 1/10.18.3.17"), 0);
        file.store("0/na 1/10.18.3.17", 7).expect("stored");
        file.store("0/na 1/10.18.3.18", 2).expect("stored");
        file.store("0/na 1/10.18.3.17", 9).expect("stored");
        let again = files::open_folder(&path).expect("the folder");
        let again = CountFile::open(Some(again)).expect("read");
        assert_eq!(again.bound("0/na 1/10.18.3.17"), 9);
        assert_eq!(again.bound("0/na 1/10.18.3.18"), 2);
        std::fs::remove_dir_all(path).expect("removed");
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_new_beginning() {
        let (path, held) = folder("damaged");
        std::fs::write(path.join(FILE), "9 0/na 1/10.18.3.17\nx\n").expect("written");
        assert!(CountFile::open(Some(held)).is_err());
        std::fs::remove_dir_all(path).expect("removed");
    }

    #[test]
    fn former_pairs_are_dropped_when_they_are_too_many_and_configured_ones_never() {
        let (path, held) = folder("former");
        let lines = (0..FORMER_MAX).map(|number| format!("{number} pair {number}\n"));
        let mut text: String = lines.collect();
        let read = |text: &str| {
            std::fs::write(path.join(FILE), text).expect("written");
            let folder = files::open_folder(&path).expect("the folder");
            CountFile::open(Some(folder)).expect("read")
        };
        let configured = BTreeSet::from(["pair 7".to_owned(), "pair new".to_owned()]);
        let mut file = read(&text);
        file.prune(&configured);
        assert_eq!(file.bound("pair 8"), 8, "as many as may be");
        text += "9 pair of another time\n";
        let mut file = read(&text);
        file.prune(&configured);
        assert_eq!((file.bound("pair 7"), file.bound("pair 8")), (7, 0));
        file.store("pair new", 5).expect("stored");
        let again = CountFile::open(Some(held)).expect("read");
        assert_eq!(again.bounds.len(), 2);
        assert_eq!(again.bound("pair new"), 5);
        std::fs::remove_dir_all(path).expect("removed");
    }

    #[test]
    fn without_a_folder_nothing_counts_as_stored() {
        let mut file = CountFile::open(None).expect("no file");
        assert!(file.store("pair", 1).is_err());
        assert_eq!(file.bound("pair"), 0);
    }

    #[test]
    fn what_was_heard_reaches_the_disk_when_the_file_catches_up() {
        let (path, held) = folder("heard");
        let mut file = CountFile::open(Some(held)).expect("no file yet");
        let on_disk = || {
            let folder = files::open_folder(&path).expect("the folder");
            CountFile::open(Some(folder))
                .expect("read")
                .bound("heard 1 pair")
        };
        file.catch_up().expect("there is nothing to do");
        assert!(!path.join(FILE).exists());
        for n in [5, 6, 7] {
            file.keep("heard 1 pair", n);
        }
        assert_eq!(on_disk(), 0, "it waits");
        file.catch_up().expect("stored");
        assert_eq!(on_disk(), 7);
        file.keep("heard 1 pair", 8);
        file.store("pair", 256).expect("stored");
        assert_eq!(on_disk(), 8, "with what must be stored at once");
        std::fs::remove_dir_all(path).expect("removed");
    }
}

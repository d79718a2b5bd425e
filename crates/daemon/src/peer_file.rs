//! The last addresses of a gateway's peers, kept over restarts. A gateway that was killed and runs
//! again sends each peer a reminder (`Command::Remind` of the engine), so that idle peers reconnect
//! at once.
//!
//! The file has only addresses and ports, one line `LOCAL REMOTE` each, in the folder of the
//! network process's user. The local port names our socket, and so says how a datagram to this peer
//! travels. The content is untrusted: it is bounded, lines that cannot be a peer's address are
//! skipped, and each other one gets one small packet.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use engine::node::{PEER_PATHS_MAX, via_of};
use engine::sa::Path;
use engine::site::is_unicast;
use tokio::time::Instant;

use crate::files;

const FILE: &str = "peers";
/// Longest line: two IPv6 addresses with zone and port.
const LINE_BYTES_MAX: usize = 160;
const BYTES_MAX: u64 = (PEER_PATHS_MAX * LINE_BYTES_MAX) as u64;
/// Time between two writes. Changes just before a crash may be missing.
const PAUSE: Duration = Duration::from_secs(2);
/// The file is rewritten without a change after this time, so that it counts as fresh.
const REFRESH: Duration = Duration::from_secs(300);
/// An older file is ignored: its peers have already noticed the restart.
const BELIEVED: Duration = Duration::from_secs(900);

/// The file of one process.
pub struct PeerFile {
    /// `None`: nothing is stored.
    folder: Option<File>,
    /// When to write it.
    due: Instant,
    last: Instant,
    /// What could be read with the rights at the start.
    early: Vec<Path>,
}

impl PeerFile {
    /// Uses this folder, which stays open: its path may become inaccessible.
    pub fn new(folder: Option<File>) -> Self {
        let now = Instant::now();
        let mut file = Self {
            folder,
            due: now + REFRESH,
            last: now,
            early: Vec::new(),
        };
        file.early = file.read();
        file
    }

    /// The addresses that an earlier process stored. Empty if the file is unreadable or old.
    pub fn left(&mut self) -> Vec<Path> {
        let early = core::mem::take(&mut self.early);
        let found = self.read();
        if found.is_empty() { early } else { found }
    }

    fn read(&self) -> Vec<Path> {
        let folder = self.folder.as_ref();
        let read = folder.and_then(|folder| files::read_in(folder, FILE, BYTES_MAX).ok());
        let Some((text, written)) = read else {
            return Vec::new();
        };
        // A time in the future comes from another clock.
        let age = SystemTime::now().duration_since(written);
        match age.is_ok_and(|age| age <= BELIEVED) {
            true => parse(&String::from_utf8_lossy(&text)),
            false => Vec::new(),
        }
    }

    /// Notes that a peer came, moved or left.
    pub fn change(&mut self) {
        self.due = self.due.min(self.last + PAUSE);
    }

    /// When to write it; `None`: never.
    pub fn due(&self) -> Option<Instant> {
        self.folder.as_ref().map(|_| self.due)
    }

    /// Writes the file, all or nothing.
    pub fn write(&mut self, peers: &[Path]) -> io::Result<()> {
        self.last = Instant::now();
        self.due = self.last + REFRESH;
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let mut text = String::new();
        for path in peers.iter().take(PEER_PATHS_MAX) {
            let _ = writeln!(text, "{} {}", path.local, path.remote);
        }
        files::replace(folder, FILE, text.as_bytes()).map(drop)
    }
}

fn parse(text: &str) -> Vec<Path> {
    let lines = text.lines().take(PEER_PATHS_MAX);
    let peers = lines.filter_map(|line| {
        let (local, remote) = line.split_once(' ')?;
        let (local, remote): (SocketAddr, SocketAddr) = (local.parse().ok()?, remote.parse().ok()?);
        let via = via_of(local.port())?;
        let path = Path { via, local, remote };
        is_plausible(&path).then_some(path)
    });
    peers.collect()
}

/// Whether a peer could have this path.
fn is_plausible(path: &Path) -> bool {
    let is_somebody = |at: &SocketAddr| is_unicast(&at.ip()) && at.port() != 0;
    path.local.is_ipv4() == path.remote.is_ipv4()
        && is_somebody(&path.local)
        && is_somebody(&path.remote)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::sa::Via;

    use super::*;

    #[test]
    fn places_come_back_and_what_is_no_place_does_not() {
        let name = format!("caravan-peers-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let folder = files::make_folder(&path, 0o700).unwrap();
        let mut file = PeerFile::new(Some(folder));
        assert!(file.left().is_empty());
        let place = |via: Via, local: &str, remote: &str| Path {
            via,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        let peers = [
            place(Via::UdpWithMarker, "192.0.2.1:4500", "198.51.100.7:40001"),
            place(Via::Udp, "[2001:db8::1]:500", "[2001:db8::7%3]:500"),
        ];
        file.write(&peers).unwrap();
        assert_eq!(file.left(), peers);
        let text = fs::read_to_string(path.join(FILE)).unwrap();
        for strange in [
            "",
            "192.0.2.1:4500",
            "192.0.2.1:4500 198.51.100.7",
            "192.0.2.1:22 198.51.100.7:4500",
            "192.0.2.1:4500 198.51.100.7:0",
            "192.0.2.1:4500 [2001:db8::7]:4500",
            "192.0.2.1:4500 127.0.0.1:53",
            "192.0.2.1:4500 224.0.0.1:4500",
            "192.0.2.1:4500 255.255.255.255:4500",
            "0.0.0.0:4500 198.51.100.7:4500",
        ] {
            fs::write(path.join(FILE), format!("{strange}\n{text}")).unwrap();
            assert_eq!(file.left(), peers, "{strange}");
        }
        fs::write(path.join(FILE), text.repeat(2 * PEER_PATHS_MAX)).unwrap();
        assert!(file.left().len() <= PEER_PATHS_MAX);
        fs::write(path.join(FILE), [0xff; 300]).unwrap();
        assert!(file.left().is_empty());
        // Files that another process wrote long ago, or in the future.
        for age in [-60, 901] {
            fs::write(path.join(FILE), &text).unwrap();
            let seconds = Duration::from_secs(i64::unsigned_abs(age));
            let now = SystemTime::now();
            let at = if age < 0 {
                now + seconds
            } else {
                now - seconds
            };
            let opened = File::options().write(true).open(path.join(FILE)).unwrap();
            opened.set_modified(at).unwrap();
            assert!(file.left().is_empty(), "{age}");
        }
        fs::remove_file(path.join(FILE)).unwrap();
        std::os::unix::fs::symlink("/etc/hosts", path.join(FILE)).unwrap();
        assert!(file.left().is_empty());
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn many_changes_are_one_write() {
        let mut file = PeerFile::new(None);
        assert_eq!(file.due(), None);
        file.write(&[]).unwrap();
        let quiet = file.due;
        file.change();
        let soon = file.due;
        file.change();
        assert_eq!(file.due, soon);
        assert_eq!(quiet - soon, REFRESH - PAUSE);
    }
}

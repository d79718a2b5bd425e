//! `--capture`: the frames of the air as they are there, for Wireshark: pcap with the link type of
//! IEEE 802.11 and times in nanoseconds.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Of captures in nanoseconds, in microseconds, and of pcapng.
const MAGIC: [u32; 3] = [MAGIC_NANOSECONDS, 0xa1b2_c3d4, 0x0a0d_0d0a];
const SNAP_LEN: u32 = 1 << 16;
const LINK_TYPE_80211: u32 = 105;

/// A file of frames.
pub(super) struct Capture {
    file: BufWriter<File>,
    /// Why writing has stopped.
    pub(super) fault: Option<String>,
}

impl Capture {
    /// Creates the file (mode 0600), or opens a pipe that has a reader. Of files with content it
    /// overwrites only captures.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let beginning = files::beginning(path, 4)?.unwrap_or_default();
        let is_capture = MAGIC.iter().any(|it| beginning == it.to_le_bytes());
        if !beginning.is_empty() && !is_capture {
            let text = "the file exists, and is no capture: it is not overwritten";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let mut file = BufWriter::new(files::open_private(path)?);
        file.write_all(&MAGIC_NANOSECONDS.to_le_bytes())?;
        for half in [2u16, 4] {
            file.write_all(&half.to_le_bytes())?;
        }
        for word in [0, 0, SNAP_LEN, LINK_TYPE_80211] {
            file.write_all(&u32::to_le_bytes(word))?;
        }
        Ok(Self { file, fault: None })
    }

    /// Records a frame.
    pub(super) fn frame(&mut self, frame: &[u8]) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since: Duration = since.unwrap_or_default();
        let len = frame.len() as u32;
        let words = [since.as_secs() as u32, since.subsec_nanos(), len, len];
        self.try_to(|file| {
            for word in words {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(frame)
        });
    }

    /// Writes what is still held.
    pub(super) fn flush(&mut self) {
        self.try_to(BufWriter::flush);
    }

    fn try_to(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.fault.is_none()
            && let Err(fault) = write(&mut self.file)
        {
            self.fault = Some(fault.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_captures_are_overwritten() {
        let name = format!("caravan-capture-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "precious").unwrap();
        let refused = Capture::create(&path).err().map(|fault| fault.to_string());
        assert!(refused.is_some_and(|it| it.contains("no capture")));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::write(&path, "").unwrap();
        for _ in 0..2 {
            let mut capture = Capture::create(&path).unwrap();
            capture.frame(&[7; 30]);
            capture.flush();
            assert_eq!(fs::read(&path).unwrap().len(), 24 + 16 + 30);
        }
        fs::remove_file(&path).unwrap();
    }
}

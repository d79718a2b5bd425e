//! `--key-log`: the master keys of handshakes, as lines of Wireshark's table `80211_keys`. Whoever
//! has it reads a capture of this link.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use engine::link::wireless::handshake::MasterKey;
use zeroize::Zeroizing;

use crate::files;

const START: &[u8] = b"\"wpa-psk\",\"";

/// A file of keys.
pub(super) struct KeyLog {
    file: File,
    /// It is the same for all where it comes of a passphrase.
    last: Option<MasterKey>,
    /// Why writing has stopped.
    pub(super) fault: Option<String>,
}

impl KeyLog {
    /// Creates the file (mode 0600). Of files with content it overwrites only key logs.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let beginning = files::beginning(path, START.len())?.unwrap_or_default();
        if !beginning.is_empty() && beginning != START {
            let text = "the file exists, and is no key log: it is not overwritten";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Ok(Self {
            file: files::open_log(path)?,
            last: None,
            fault: None,
        })
    }

    /// Records a key.
    pub(super) fn master(&mut self, key: &MasterKey) {
        let is_last = self
            .last
            .as_ref()
            .is_some_and(|it| it.octets() == key.octets());
        if is_last || self.fault.is_some() {
            return;
        }
        self.last = Some(key.clone());
        if let Err(fault) = self.file.write_all(&line(key)) {
            self.fault = Some(fault.to_string());
        }
    }
}

fn line(key: &MasterKey) -> Zeroizing<Vec<u8>> {
    // Room for all: nothing is left behind by growing.
    let mut line = Zeroizing::new(Vec::with_capacity(START.len() + 2 * key.octets().len() + 2));
    line.extend(START);
    for octet in key.octets() {
        for digit in [octet >> 4, octet & 15] {
            line.push(b"0123456789abcdef"[usize::from(digit)]);
        }
    }
    line.extend(b"\"\n");
    line
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_key_is_a_line_that_others_may_not_read() {
        let name = format!("caravan-keys-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "precious").unwrap();
        assert!(KeyLog::create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        for _ in 0..2 {
            let mut log = KeyLog::create(&path).unwrap();
            for octet in [0x0a, 0x0a, 0xb1] {
                log.master(&MasterKey::new(&[octet; 32]));
            }
            let of = |digits: &str| format!("\"wpa-psk\",\"{}\"\n", digits.repeat(32));
            assert_eq!(fs::read_to_string(&path).unwrap(), of("0a") + &of("b1"));
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::remove_file(&path).unwrap();
    }
}

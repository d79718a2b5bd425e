//! The file of a gateway's users: a line for each, with a name and the NT hash of a password in
//! hexadecimal. Who has a hash can pose as its user, so the file is as secret as the passwords.

use std::fmt::Write;

use crypto::mschapv2::{HASH_LEN, NtHash};
use engine::eap::Users;
use zeroize::Zeroizing;

use crate::config::wireless::octets_of;

/// Octets of the file at most: about 50,000 users.
pub const MAX_FILE: u64 = 4 << 20;
const HEAD: &str = "# Users of caravan, with the NT hashes of their passwords: as secret as these. \
                    `caravan user` writes it.\n";

/// The users of a file, in order of their names.
#[derive(Default)]
pub struct UserFile(Vec<(String, NtHash)>);

impl UserFile {
    /// Reads the text of a file. The error names the line.
    pub fn parse(octets: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(octets).map_err(|_| "it is not text".to_owned())?;
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let hash = |digits: &str| {
                let octets = octets_of(digits.trim())?;
                let octets: [u8; HASH_LEN] = octets.as_slice().try_into().ok()?;
                Some(NtHash::from_octets(octets))
            };
            let read = line.split_once(char::is_whitespace);
            let read = read.and_then(|(name, digits)| Some((name, hash(digits)?)));
            let Some((name, hash)) = read else {
                return Err(format!(
                    "line {number} is not a name and {} hexadecimal digits",
                    2 * HASH_LEN
                ));
            };
            Users::identity_of(name).map_err(|fault| format!("line {number}: {fault}"))?;
            all.push((name.to_owned(), hash));
        }
        Ok(Self(all))
    }

    /// What a gateway needs of it.
    pub fn to_users(&self) -> Result<Users, String> {
        let mut users = Users::default();
        for (name, hash) in &self.0 {
            let added = users.add(name, hash.clone());
            added.map_err(|fault| format!("{name}: {fault}"))?;
        }
        Ok(users)
    }

    /// The text of the file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let lines: usize = self.0.iter().map(|it| it.0.len() + 2 * HASH_LEN + 2).sum();
        // As much room as it takes: a text that grows leaves copies.
        let mut text = Zeroizing::new(String::with_capacity(HEAD.len() + lines));
        text.push_str(HEAD);
        for (name, hash) in &self.0 {
            text.push_str(name);
            text.push(' ');
            for octet in hash.octets() {
                // A text takes everything.
                let _ = write!(*text, "{octet:02x}");
            }
            text.push('\n');
        }
        text
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &name[..])
    }

    /// Adds a user, or gives one another password. Returns whether it was there.
    pub fn set(&mut self, name: &str, hash: NtHash) -> bool {
        let known = self.0.iter_mut().find(|it| it.0.eq_ignore_ascii_case(name));
        if let Some((_, old)) = known {
            *old = hash;
            return true;
        }
        self.0.push((name.to_owned(), hash));
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
        false
    }

    /// Removes a user. Returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|it| !it.0.eq_ignore_ascii_case(name));
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut file = UserFile::default();
        assert!(!file.set("bob", NtHash::of_password("b")));
        assert!(!file.set("alice", NtHash::of_password("clientPass")));
        let text = file.to_text();
        assert!(text.contains("\nalice 44ebba8d5312b8d611474411f56989ae\nbob "));
        let mut read = UserFile::parse(text.as_bytes()).unwrap();
        assert_eq!(read.names().collect::<Vec<_>>(), ["alice", "bob"]);
        assert_eq!(read.to_users().unwrap().len(), 2);
        assert_eq!(read.to_text(), text);
        assert!(read.set("ALICE", NtHash::of_password("other")));
        assert!(read.remove("Bob") && !read.remove("bob"));
        assert_eq!(read.names().collect::<Vec<_>>(), ["alice"]);
        assert!(read.to_text() != text);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let hash = "44ebba8d5312b8d611474411f56989ae";
        for (text, told) in [
            ("alice".to_owned(), "line 1 is not a name"),
            ("# x\n\nalice 44eb".to_owned(), "line 3 is not a name"),
            (format!("alice {hash}0"), "line 1 is not a name"),
            (format!("alice {hash} {hash}"), "line 1 is not a name"),
            (
                format!("-alice {hash}"),
                "line 1: a user's name has letters",
            ),
        ] {
            let fault = UserFile::parse(text.as_bytes()).err().expect("a fault");
            assert!(fault.starts_with(told), "{fault}");
        }
        let twice = UserFile::parse(format!("alice {hash}\nAlice {hash}").as_bytes()).unwrap();
        let fault = twice.to_users().err().expect("a fault");
        assert_eq!(fault, "Alice: there is a user of this name");
        assert!(UserFile::parse(b"\xff").is_err());
        assert!(UserFile::parse(b"").unwrap().to_users().unwrap().is_empty());
    }
}

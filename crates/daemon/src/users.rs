//! Users by name and by number.
//!
//! A program with shared libraries asks the C library, which may load plugins of its name service.
//! A static one must not: the plugin brings a C library of its own, and both crash. It reads
//! /etc/passwd, so it does not know users that only a plugin knows.

use nix::unistd::{Gid, Uid, User as Known};

/// Whether this program is one static file.
pub const IS_STATIC: bool = cfg!(target_feature = "crt-static");
const PASSWD: &str = "/etc/passwd";

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: Uid,
    /// The number of its group.
    pub gid: Gid,
}

impl User {
    /// The user of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        match IS_STATIC {
            true => read(|user| user.name == name),
            false => Known::from_name(name).ok().flatten().map(Self::from),
        }
    }

    /// The user of this number.
    pub fn of_number(uid: Uid) -> Option<Self> {
        match IS_STATIC {
            true => read(|user| user.uid == uid),
            false => Known::from_uid(uid).ok().flatten().map(Self::from),
        }
    }

    /// One line of passwd(5).
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        Some(Self {
            name: name.to_owned(),
            uid: Uid::from_raw(uid.parse().ok()?),
            gid: Gid::from_raw(gid.parse().ok()?),
        })
    }
}

impl From<Known> for User {
    fn from(known: Known) -> Self {
        Self {
            name: known.name,
            uid: known.uid,
            gid: known.gid,
        }
    }
}

fn read(is_it: impl Fn(&User) -> bool) -> Option<User> {
    let text = std::fs::read_to_string(PASSWD).ok()?;
    text.lines().filter_map(User::parse).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_the_c_library_says() {
        let root = User::of_number(Uid::from_raw(0)).expect("root");
        assert_eq!(User::of_name(&root.name), Some(root.clone()));
        assert_eq!(read(|user| user.uid.is_root()), Some(root));
        assert_eq!(User::of_name("nobody-of-this-name"), None);
        assert_eq!(read(|user| user.name == "nobody-of-this-name"), None);
        let line = "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin";
        let apt = User::parse(line).expect("a user");
        assert_eq!((apt.uid.as_raw(), apt.gid.as_raw()), (42, 65_534));
        for line in ["", "+", "a:b:c", "a:b:-1:2", "a:x:1:"] {
            assert_eq!(User::parse(line), None, "{line}");
        }
    }
}

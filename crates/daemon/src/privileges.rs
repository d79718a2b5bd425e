//! Reduces rights after the set-up: the network process keeps only open descriptors, the
//! [`crate::steward`] keeps the right to change routes and rules.
//!
//! Capabilities and sandboxes belong to threads, so confine before the first thread starts. If
//! started as root, the network process changes to the user of the configuration or command line,
//! otherwise to [`SYSTEM_USER`] if it exists.

use std::fs::File;
use std::io;

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::files;
use crate::sandbox::{self, Sandbox};
use crate::users::User;

/// The user that the systemd units and `make install` create.
pub const SYSTEM_USER: &str = "caravan";

/// Why rights cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// A capability that is always needed is missing.
    #[error(
        "this needs {0}: run as root, in a user namespace of your own, or under a service manager \
         that grants it"
    )]
    Lacking(Capability),
    /// The configuration names a user that does not exist.
    #[error(
        "there is no user {0:?}, which the file or `--user` names; `useradd --system {0}` makes one"
    )]
    NoUser(String),
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Refuses to begin without the right to create devices, addresses and routes.
pub fn require() -> Result<(), PrivilegeError> {
    let needed = Capability::CAP_NET_ADMIN;
    match caps::has_cap(None, CapSet::Effective, needed) {
        Ok(true) => Ok(()),
        _ => Err(PrivilegeError::Lacking(needed)),
    }
}

/// The user that the network process changes to.
pub struct Speaker {
    /// `None`: no change.
    user: Option<User>,
    /// It stays root without being told to.
    pub warning: Option<String>,
}

impl Speaker {
    /// The named user. Without a name, root changes to [`SYSTEM_USER`] if it can.
    pub fn choose(named: Option<&str>) -> Result<Self, PrivilegeError> {
        if let Some(name) = named {
            let user = Some(find_user(name)?);
            return Ok(Self {
                user,
                warning: None,
            });
        }
        let is_root = Uid::effective().is_root();
        let found = match is_root {
            true => User::of_name(SYSTEM_USER),
            false => None,
        };
        let is_there = found.is_some();
        let user = found.filter(may_become);
        let warning = (is_root && user.is_none()).then(|| stays_root(is_there));
        Ok(Self { user, warning })
    }

    /// Its name, as `status` shows it.
    fn name(&self) -> String {
        let own = || User::of_number(Uid::effective());
        let user = self.user.clone().or_else(own);
        user.map_or_else(|| Uid::effective().to_string(), |user| user.name)
    }

    /// Gives it a folder to write to. Even without a change of user, the folder may belong to the
    /// user of an earlier process, and the right to write there anyway is about to be dropped.
    pub fn take_folder(&self, folder: &File) -> Result<(), PrivilegeError> {
        let given = match &self.user {
            Some(user) => files::give_folder(folder, user.uid, Some(user.gid)),
            None => files::give_folder(folder, Uid::effective(), None),
        };
        match given {
            // Without the right, writing there fails later.
            Err(_) if self.user.is_none() => Ok(()),
            given => given.map_err(|source| PrivilegeError::Refused {
                what: "give the folder of inner addresses to the user",
                source,
            }),
        }
    }
}

fn stays_root(is_there: bool) -> String {
    let why = match is_there {
        true => format!(
            "it lacks CAP_SETUID or CAP_SETGID, or this user namespace does not know the user \
             {SYSTEM_USER}"
        ),
        false => format!(
            "there is no user {SYSTEM_USER}, which `useradd --system --shell /usr/sbin/nologin \
             {SYSTEM_USER}` makes"
        ),
    };
    format!(
        "the process that speaks with the network stays root, without capabilities: {why}; \
         choose another user, or \"root\" if this is intended (`--user`, or `user` in the file)"
    )
}

/// Whether this process has the rights to become a user that exists in its user namespace.
fn may_become(user: &User) -> bool {
    let has = |right| caps::has_cap(None, CapSet::Effective, right).unwrap_or(false);
    let rights = [Capability::CAP_SETUID, Capability::CAP_SETGID];
    let setgroups = std::fs::read_to_string("/proc/self/setgroups");
    rights.into_iter().all(has)
        && is_mapped("/proc/self/uid_map", user.uid.as_raw())
        && is_mapped("/proc/self/gid_map", user.gid.as_raw())
        && setgroups.map_or(true, |text| text.trim() != "deny")
}

/// Whether a map of user_namespaces(7) contains a number. Without a map, every number counts.
fn is_mapped(map: &str, number: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(map) else {
        return true;
    };
    text.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), _, Some(Ok(count))) = (fields.next(), fields.next(), fields.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(number))
    })
}

/// Drops every capability, changes to the other user, and enters the sandbox: for the network
/// process, once all privileged descriptors are open, including the folder that it may write to.
/// Returns what is in force, for `status`.
pub fn confine_speaker(
    speaker: &Speaker,
    writable: Option<File>,
) -> Result<Vec<String>, PrivilegeError> {
    prctl::set_no_new_privs().map_err(errno("forbid new privileges"))?;
    // The user may have no access to the folders' paths.
    let limits = sandbox::enter(&Sandbox::Speaker(writable));
    reduce(&CapsHashSet::new(), speaker.user.as_ref())?;
    let user = format!("user {}", speaker.name());
    Ok([user].into_iter().chain(limits).collect())
}

/// The capabilities that this process may use, for `status`.
pub fn permitted() -> Result<Vec<String>, PrivilegeError> {
    let permitted = caps::read(None, CapSet::Permitted).map_err(refused("read capabilities"))?;
    let mut names: Vec<String> = permitted.iter().map(ToString::to_string).collect();
    names.sort();
    Ok(names)
}

/// Keeps only the right to change routes and rules: for the steward. Returns what is in force, for
/// `status`.
pub fn confine_steward() -> Result<Vec<String>, PrivilegeError> {
    let permitted = caps::read(None, CapSet::Permitted).map_err(refused("read capabilities"))?;
    let wanted = CapsHashSet::from([Capability::CAP_NET_ADMIN]);
    let keep: CapsHashSet = wanted.intersection(&permitted).copied().collect();
    prctl::set_no_new_privs().map_err(errno("forbid new privileges"))?;
    let limits = sandbox::enter(&Sandbox::Steward);
    reduce(&keep, None)?;
    let kept = keep.iter().map(ToString::to_string);
    Ok(kept.chain(limits).collect())
}

/// Keeps only these capabilities, changes to `user`, and hides this process's memory from other
/// processes of the same user. Must run before any thread starts.
fn reduce(keep: &CapsHashSet, user: Option<&User>) -> Result<(), PrivilegeError> {
    limit_bounding_set(keep)?;
    if let Some(user) = user {
        become_user(user.uid, user.gid)?;
    }
    let set = |set: CapSet, value: &CapsHashSet| {
        caps::set(None, set, value).map_err(refused("reduce capabilities"))
    };
    // Ambient capabilities pass to nft and resolvectl. Root's would pass without them.
    let inherited = match Uid::effective().is_root() {
        true => CapsHashSet::new(),
        false => keep.clone(),
    };
    set(CapSet::Effective, &CapsHashSet::new())?;
    set(CapSet::Permitted, keep)?;
    set(CapSet::Effective, keep)?;
    set(CapSet::Inheritable, &inherited)?;
    set(CapSet::Ambient, &inherited)?;
    prctl::set_dumpable(false).map_err(errno("hide this process's memory"))
}

/// Limits the rights of started programs, even root's. Without CAP_SETPCAP the set stays.
fn limit_bounding_set(keep: &CapsHashSet) -> Result<(), PrivilegeError> {
    let setpcap = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP);
    if !setpcap.map_err(refused("read capabilities"))? {
        return Ok(());
    }
    let bounding = caps::read(None, CapSet::Bounding).map_err(refused("read capabilities"))?;
    for capability in bounding.difference(keep) {
        caps::drop(None, CapSet::Bounding, *capability)
            .map_err(refused("reduce the bounding set"))?;
    }
    Ok(())
}

fn find_user(name: &str) -> Result<User, PrivilegeError> {
    User::of_name(name).ok_or_else(|| PrivilegeError::NoUser(name.to_owned()))
}

fn become_user(user: Uid, group: Gid) -> Result<(), PrivilegeError> {
    setgroups(&[group]).map_err(errno("leave the groups of the old user"))?;
    setresgid(group, group, group).map_err(errno("change the group"))?;
    setresuid(user, user, user).map_err(errno("change the user"))
}

fn errno(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> PrivilegeError {
    move |errno| PrivilegeError::Refused {
        what,
        source: errno.into(),
    }
}

fn refused(what: &'static str) -> impl FnOnce(caps::errors::CapsError) -> PrivilegeError {
    move |error| PrivilegeError::Refused {
        what,
        source: io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permitted_capabilities_are_those_that_the_kernel_shows() {
        let text = std::fs::read_to_string("/proc/self/status").expect("this process");
        let mut lines = text.lines();
        let set = lines.find_map(|line| line.strip_prefix("CapPrm:"));
        let set = u64::from_str_radix(set.expect("a set").trim(), 16).expect("a mask");
        let named = permitted().expect("the capabilities");
        assert_eq!(named.len(), set.count_ones() as usize, "{named:?}");
        let admin = named.iter().any(|name| name == "CAP_NET_ADMIN");
        assert_eq!(admin, set >> 12 & 1 == 1, "{named:?}");
    }

    #[test]
    fn a_user_that_is_not_there_is_named_with_the_remedy() {
        let error = find_user("nobody-of-this-name").unwrap_err().to_string();
        assert!(
            error.contains("useradd --system nobody-of-this-name"),
            "{error}"
        );
    }
}

//! What a process may still do once it is set up: the capabilities that it uses, and nothing new.
//!
//! Capabilities belong to threads: call [`reduce`] before the first one is started. The user
//! becomes another one only where the configuration names one.

use std::io;
use std::os::unix::fs::MetadataExt;

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};

/// Why privileges are not what they should be.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Without it nothing goes.
    #[error(
        "this needs {0}: run as root, in a user namespace of your own, or under a service manager \
         that grants it"
    )]
    Lacking(Capability),
    /// The configuration names a user that is not there.
    #[error("daemon.user: there is no user {0:?}; `useradd --system {0}` makes one")]
    NoUser(String),
    /// The kernel refuses.
    #[error("cannot {what}: {source}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept<'a> {
    /// Raw sockets: AH, ESP without UDP.
    pub raw: bool,
    /// Another user rewrites the file of resolvers ([`crate::dns::uses_file`]): root's own needs
    /// nothing for that.
    pub resolver_file: bool,
    /// User to become.
    pub user: Option<&'a str>,
}

/// Refuses to begin without the right to make devices, addresses and routes.
pub fn require() -> Result<(), PrivilegeError> {
    let needed = Capability::CAP_NET_ADMIN;
    match caps::has_cap(None, CapSet::Effective, needed) {
        Ok(true) => Ok(()),
        _ => Err(PrivilegeError::Lacking(needed)),
    }
}

/// Keeps the capabilities in use alone, forbids gaining any, becomes `user`, and hides this
/// process's memory from others of the same user. Returns the names of what was kept. Must run
/// before any thread is started, and after everything that needs more is open.
pub fn reduce(kept: Kept<'_>) -> Result<Vec<String>, PrivilegeError> {
    let user = kept.user.map(find_user).transpose()?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(refused("read capabilities"))?;
    let keep: CapsHashSet = wanted(kept).intersection(&permitted).copied().collect();
    limit_bounding_set(&keep)?;
    if let Some(user) = &user {
        prctl::set_keepcaps(true).map_err(errno("keep capabilities over a change of user"))?;
        become_user(user.uid, user.gid)?;
        prctl::set_keepcaps(false).map_err(errno("end the keeping of capabilities"))?;
    }
    let set = |set: CapSet, value: &CapsHashSet| {
        caps::set(None, set, value).map_err(refused("reduce capabilities"))
    };
    // Ambient capabilities pass to nft and resolvectl, which root's would by themselves.
    let inherited = if user.is_some() {
        keep.clone()
    } else {
        CapsHashSet::new()
    };
    set(CapSet::Effective, &CapsHashSet::new())?;
    set(CapSet::Permitted, &keep)?;
    set(CapSet::Effective, &keep)?;
    set(CapSet::Inheritable, &inherited)?;
    set(CapSet::Ambient, &inherited)?;
    prctl::set_no_new_privs().map_err(errno("forbid new privileges"))?;
    prctl::set_dumpable(false).map_err(errno("hide this process's memory"))?;
    let mut names: Vec<String> = keep.iter().map(ToString::to_string).collect();
    names.sort();
    Ok(names)
}

fn wanted(kept: Kept<'_>) -> CapsHashSet {
    let mut wanted = CapsHashSet::from([Capability::CAP_NET_ADMIN]);
    if kept.raw {
        wanted.insert(Capability::CAP_NET_RAW);
    }
    if kept.resolver_file && kept.user.is_some() {
        wanted.insert(Capability::CAP_DAC_OVERRIDE);
    }
    wanted
}

/// A program that is started gets no more than this, root's too. Without CAP_SETPCAP it stays.
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
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user),
        _ => Err(PrivilegeError::NoUser(name.to_owned())),
    }
}

/// Gives a path to the user that [`reduce`] will become; without one, to whom we are: an earlier
/// process may have become somebody else, and the rights to write there all the same will go.
pub fn hand_over(path: &std::path::Path, user: Option<&str>) -> Result<(), PrivilegeError> {
    let Some(user) = user else {
        let is_ours = |found: std::fs::Metadata| found.uid() == Uid::effective().as_raw();
        if !std::fs::metadata(path).is_ok_and(is_ours) {
            // Who may not take it finds out when writing there.
            let _ = nix::unistd::chown(path, Some(Uid::effective()), None);
        }
        return Ok(());
    };
    let user = find_user(user)?;
    nix::unistd::chown(path, Some(user.uid), Some(user.gid))
        .map_err(errno("give the runtime folder to the user"))
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
    fn a_user_that_is_not_there_is_named_with_the_remedy() {
        let error = find_user("nobody-of-this-name").unwrap_err().to_string();
        assert!(
            error.contains("useradd --system nobody-of-this-name"),
            "{error}"
        );
    }

    #[test]
    fn raw_sockets_are_kept_only_where_they_are_used() {
        let (admin, raw) = (Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW);
        assert_eq!(wanted(Kept::default()), CapsHashSet::from([admin]));
        let kept = Kept {
            raw: true,
            resolver_file: true,
            user: None,
        };
        assert_eq!(wanted(kept), CapsHashSet::from([admin, raw]));
    }
}

//! What a process may still do once it is set up: the one that speaks with the network nothing but
//! use what is open, the [`crate::steward`] change routes and rules.
//!
//! Capabilities and sandboxes belong to threads: confine before the first one is started. The user
//! becomes another one only where the configuration or the command line names one.

use std::io;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};

use crate::files;
use crate::sandbox::{self, Sandbox};

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

/// Refuses to begin without the right to make devices, addresses and routes.
pub fn require() -> Result<(), PrivilegeError> {
    let needed = Capability::CAP_NET_ADMIN;
    match caps::has_cap(None, CapSet::Effective, needed) {
        Ok(true) => Ok(()),
        _ => Err(PrivilegeError::Lacking(needed)),
    }
}

/// Gives every capability up, becomes `user`, and goes into the sandbox: for the process that
/// speaks with the network, once all that needs a right is open. For `status`: what holds.
pub fn confine_speaker(
    user: Option<&str>,
    writable: Vec<PathBuf>,
) -> Result<Vec<String>, PrivilegeError> {
    let user = user.map(find_user).transpose()?;
    prctl::set_no_new_privs().map_err(errno("forbid new privileges"))?;
    // The way to the folders may be closed to the user.
    let limits = sandbox::enter(&Sandbox::Speaker(writable));
    reduce(&CapsHashSet::new(), user.as_ref())?;
    Ok(limits)
}

/// Keeps the right to change routes and rules alone: for the steward. For `status`: what holds.
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

/// Keeps these capabilities alone, becomes `user`, and hides this process's memory from others of
/// the same user. Must run before any thread is started.
fn reduce(keep: &CapsHashSet, user: Option<&User>) -> Result<(), PrivilegeError> {
    limit_bounding_set(keep)?;
    if let Some(user) = user {
        become_user(user.uid, user.gid)?;
    }
    let set = |set: CapSet, value: &CapsHashSet| {
        caps::set(None, set, value).map_err(refused("reduce capabilities"))
    };
    // Ambient capabilities pass to nft and resolvectl, which root's would by themselves.
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

/// Gives a folder to the user that [`confine_speaker`] will become; without one, to whom we are: an
/// earlier process may have become somebody else, and the rights to write there all the same will
/// go.
pub fn hand_over(folder: &Path, user: Option<&str>) -> Result<(), PrivilegeError> {
    let given = match user.map(find_user).transpose()? {
        Some(user) => files::give_folder(folder, user.uid, Some(user.gid)),
        None => files::give_folder(folder, Uid::effective(), None),
    };
    match given {
        // Who may not take it finds out when writing there.
        Err(_) if user.is_none() => Ok(()),
        given => given.map_err(|source| PrivilegeError::Refused {
            what: "give the folder of inner addresses to the user",
            source,
        }),
    }
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
}

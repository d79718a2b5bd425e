//! How a process on somebody else's machine keeps its keys out of files: no core dump, no reading
//! by other programs of the same user, no swap.
//!
//! Nothing here fails: what cannot be done is a sentence for the person who uses the machine. Left
//! out: what root of that machine can do, which is everything.

use std::path::Path;

use caps::{CapSet, Capability};
use nix::libc;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// The variable by which an agent tells the processes of Client's tunnel that they have its keys.
pub const PRIVATE: &str = "CARAVAN_PRIVATE";

/// Does both of the following, and warns of what cannot be done. Before any secret is read.
pub fn keep_private() {
    keep(Rights::Kept);
}

/// The same for a process of an agent's tunnel: `tunnel-end`, its `up`, and that one's steward.
pub fn keep_private_if_told(rights: Rights) {
    if std::env::var_os(PRIVATE).is_some() {
        keep(rights);
    }
}

/// What becomes of the rights with which a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// It has them to its end.
    Kept,
    /// It gives them up.
    GivenUp,
}

fn keep(rights: Rights) {
    for sentence in hide().into_iter().chain(lock(rights)) {
        tracing::warn!("{sentence}");
    }
}

/// Forbids core dumps, also those that a handler takes, and the reading of this process's memory by
/// other programs of its user (PR_SET_DUMPABLE). Programs that it starts inherit the limit, not the
/// rest. Returns what could not be done.
pub fn hide() -> Vec<String> {
    let limit = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let dumpable = prctl::set_dumpable(false);
    let limit = limit.map_err(|fault| {
        format!("core dumps cannot be forbidden ({fault}): after a crash one may contain keys")
    });
    let dumpable = dumpable.map_err(|fault| {
        format!("other programs of this user can read this program's memory ({fault})")
    });
    [limit.err(), dumpable.err()]
        .into_iter()
        .flatten()
        .collect()
}

/// Keeps all memory of this process out of swap, from this moment on. Returns a sentence if this is
/// not possible and the machine could swap.
///
/// The limit RLIMIT_MEMLOCK counts all addresses, used or not, and a program above it gets no more
/// memory at all. So only a process without such a limit is locked.
pub fn lock(rights: Rights) -> Option<String> {
    let is_limited = is_limited(rights);
    let why = match is_limited {
        false => {
            // Only pages that are used: buffers are larger than what is in them.
            let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
            let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault;
            match mlockall(all) {
                Ok(()) => return None,
                Err(fault) => format!("the kernel refuses: {fault}"),
            }
        }
        true => "RLIMIT_MEMLOCK is too low: `ulimit -l unlimited`, or root, lifts it".to_owned(),
    };
    let swaps = std::fs::read_to_string("/proc/swaps");
    match swaps.as_deref().map(has_swap) {
        Ok(false) => None,
        Ok(true) => Some(format!(
            "keys may get into this machine's swap ({why}); `swapoff -a` takes it away"
        )),
        Err(_) => Some(format!(
            "keys may get into swap, if this machine has any ({why})"
        )),
    }
}

/// Whether this process may lock less memory than it may have, now or later. Root lifts the limit;
/// without that, a right passes it for as long as the process has it.
fn is_limited(rights: Rights) -> bool {
    let Ok((soft, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return true;
    };
    let lift = || setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY).is_ok();
    let passes = || caps::has_cap(None, CapSet::Effective, Capability::CAP_IPC_LOCK);
    let is_exempt = || rights == Rights::Kept && passes().unwrap_or(false);
    soft != RLIM_INFINITY && !lift() && !is_exempt()
}

/// Whether a table of swaps (proc(5)) has any besides its head. Swap in memory counts too: what is
/// there may be written back.
fn has_swap(table: &str) -> bool {
    table.lines().skip(1).any(|line| !line.trim().is_empty())
}

/// Whether a program may run here as a tunnel's own device needs: if not, there is the way without
/// root.
pub fn may_use_tun() -> bool {
    let has_right = caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN);
    has_right.unwrap_or(false) && Path::new("/dev/net/tun").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_machine_without_swap_needs_no_lock() {
        let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!has_swap(head));
        let with = format!("{head}/dev/sda2 partition 8388604 0 -2\n");
        assert!(has_swap(&with));
    }
}

//! Keeps an agent's memory to itself: no core dump, no other process that looks in, no swap.

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use tracing::warn;

/// For the whole process, before any secret is read. Without the right to lock memory, a warning
/// says so, and the program goes on.
pub(super) fn hide() -> anyhow::Result<()> {
    show_nobody()?;
    // Locking what is yet to come would make an ordinary user's limit the limit of all memory.
    let has_right = caps::has_cap(
        None,
        caps::CapSet::Effective,
        caps::Capability::CAP_IPC_LOCK,
    );
    let is_free = getrlimit(Resource::RLIMIT_MEMLOCK)?.0 == RLIM_INFINITY;
    let flags = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
    if !(is_free || has_right.unwrap_or(false)) || mlockall(flags).is_err() {
        warn!(
            "memory is not locked, so keys may come to the swap space: CAP_IPC_LOCK, or `ulimit \
             -l unlimited`"
        );
    }
    Ok(())
}

fn show_nobody() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_dumpable(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_process_dumps_no_core() {
        show_nobody().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        assert!(!prctl::get_dumpable().unwrap());
        prctl::set_dumpable(true).unwrap();
    }
}

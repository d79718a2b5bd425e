//! What a process forbids itself for good, where the kernel has the means: system calls that it has
//! no use for (seccomp, a list of refusals), and files that it does not write (Landlock). Both bind
//! the calling thread and those that it starts: call [`enter`] before the first one.
//!
//! The filter looks at the number of a call alone, so that the kernel (Linux 5.11) decides once for
//! each number, and calls on the way of a packet cost nothing more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use landlock::{
    ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Starting programs.
const STARTS: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];
/// What neither process has a use for, and who takes one over would.
const NEVER: [libc::c_long; 43] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// What a process goes without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// It speaks with the network: it starts no program, and writes below these folders alone.
    Speaker(Vec<PathBuf>),
    /// It changes the host: it starts nft and resolvectl.
    Steward,
}

/// Forbids what the kernel can forbid. For `status`: what holds, and what this kernel lacks.
pub fn enter(sandbox: &Sandbox) -> Vec<String> {
    let landlock = match sandbox {
        Sandbox::Speaker(folders) => Some(match restrict_writes(folders) {
            Ok(RulesetStatus::NotEnforced) => "no landlock (this kernel has none)".to_owned(),
            Ok(_) => "landlock".to_owned(),
            Err(fault) => format!("no landlock ({fault})"),
        }),
        Sandbox::Steward => None,
    };
    let starts: &[libc::c_long] = match sandbox {
        Sandbox::Speaker(_) => &STARTS,
        Sandbox::Steward => &[],
    };
    let seccomp = match refuse(NEVER.iter().chain(starts)) {
        Ok(()) => "seccomp".to_owned(),
        Err(fault) => format!("no seccomp ({fault})"),
    };
    landlock.into_iter().chain([seccomp]).collect()
}

fn refuse<'a>(
    calls: impl Iterator<Item = &'a libc::c_long>,
) -> Result<(), Box<dyn core::error::Error>> {
    let rules: BTreeMap<i64, _> = calls.map(|number| (*number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}

/// Reading stays free: certificates and resolvers are anywhere.
fn restrict_writes(folders: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V3;
    let forbidden = AccessFs::from_write(abi) | AccessFs::Execute;
    let null = PathBuf::from("/dev/null");
    let writable = folders.iter().chain([&null]);
    let rules = path_beneath_rules(writable, AccessFs::from_write(abi));
    let created = Ruleset::default().handle_access(forbidden)?.create()?;
    Ok(created.add_rules(rules)?.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A sandbox cannot be left: each is tried in a thread of its own.
    fn within<T: Send>(sandbox: &Sandbox, try_it: impl FnOnce() -> T + Send) -> (Vec<String>, T) {
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| (enter(sandbox), try_it()));
            thread.join().expect("no panic")
        })
    }

    #[test]
    fn who_speaks_with_the_network_starts_no_program_and_the_steward_does() {
        let start = || Command::new("true").status().is_ok();
        let (limits, started) = within(&Sandbox::Speaker(vec![std::env::temp_dir()]), start);
        assert!(
            !started || !limits.contains(&"seccomp".to_owned()),
            "{limits:?}"
        );
        let (_, started) = within(&Sandbox::Steward, start);
        assert!(started);
    }

    #[test]
    fn neither_enters_another_namespace() {
        for sandbox in [Sandbox::Speaker(Vec::new()), Sandbox::Steward] {
            let unshare = || nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS);
            let (limits, entered) = within(&sandbox, unshare);
            assert!(
                entered.is_err() || !limits.contains(&"seccomp".to_owned()),
                "{limits:?}"
            );
        }
    }

    #[test]
    fn writes_are_kept_to_the_folders_that_are_named() {
        let own = std::env::temp_dir().join(format!("caravan-sandbox-{}", std::process::id()));
        let other = own.with_extension("other");
        for folder in [&own, &other] {
            std::fs::create_dir_all(folder).expect("made");
        }
        let write = |folder: &PathBuf| std::fs::write(folder.join("file"), "text").is_ok();
        let sandbox = Sandbox::Speaker(vec![own.clone()]);
        let (limits, wrote) = within(&sandbox, || [write(&own), write(&other)]);
        let has_landlock = limits.contains(&"landlock".to_owned());
        assert_eq!(wrote, [true, !has_landlock], "{limits:?}");
        for folder in [&own, &other] {
            std::fs::remove_dir_all(folder).expect("removed");
        }
    }
}

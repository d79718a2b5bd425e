//! Permanent restrictions of a process, as far as the kernel supports them: unneeded system calls
//! (seccomp, a deny list), and files that it does not write (Landlock). Both bind the calling
//! thread and those that it starts: call [`enter`] before the first one.
//!
//! The filter checks the number of a call. For two calls that no packet needs it also checks an
//! argument. So the kernel (Linux 5.11) decides once for each other number, and calls on the packet
//! path cost nothing more.

use std::collections::BTreeMap;
use std::fs::File;

use landlock::{
    ABI, AccessFs, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, path_beneath_rules,
};
use nix::libc;
#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// Starting programs and processes. A child that outlives its parent would keep the steward's
/// socket open, and then the steward would undo nothing.
#[cfg(target_arch = "x86_64")]
const STARTS: [libc::c_long; 4] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const STARTS: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];
/// A shell takes octets that these put into a terminal for typed ones, and runs them with its own
/// rights (ioctl_tty(2), ioctl_console(2)).
const TYPES: [u64; 2] = [TIOCSTI, TIOCLINUX];
/// From asm-generic/ioctls.h. libc has them with different types.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// Calls that neither process needs and that would help an attacker.
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

/// The restrictions of a process.
#[derive(Debug)]
pub enum Sandbox {
    /// The network process: it starts no program, and writes only below this open folder.
    Speaker(Option<File>),
    /// The steward: it starts nft and resolvectl.
    Steward,
}

/// Enters the sandbox. Returns what is in force and what this kernel lacks, for `status`.
pub fn enter(sandbox: &Sandbox) -> Vec<String> {
    let landlock = match sandbox {
        Sandbox::Speaker(folder) => Some(match restrict_writes(folder.as_ref()) {
            Ok(RulesetStatus::NotEnforced) => "no landlock (this kernel has none)".to_owned(),
            Ok(_) => "landlock".to_owned(),
            Err(fault) => format!("no landlock ({fault})"),
        }),
        Sandbox::Steward => None,
    };
    let is_speaker = matches!(sandbox, Sandbox::Speaker(_));
    let seccomp = match refuse(is_speaker) {
        Ok(()) => "seccomp".to_owned(),
        Err(fault) => format!("no seccomp ({fault})"),
    };
    landlock.into_iter().chain([seccomp]).collect()
}

/// Why the filter cannot be built or installed; only logged.
type AnyError = Box<dyn core::error::Error>;

fn refuse(is_speaker: bool) -> Result<(), AnyError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let starts: &[libc::c_long] = if is_speaker { &STARTS } else { &[] };
    rules.extend(NEVER.iter().chain(starts).map(|call| (*call, Vec::new())));
    // The kernel checks only the lower half.
    let is = |argument, operator, value| {
        let half = SeccompCmpArgLen::Dword;
        let condition = SeccompCondition::new(argument, half, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let types = TYPES.map(|what| is(1, SeccompCmpOp::Eq, what));
    rules.insert(
        libc::SYS_ioctl,
        types.into_iter().collect::<Result<_, _>>()?,
    );
    if is_speaker {
        let thread = libc::CLONE_THREAD as u64;
        let is_process = is(0, SeccompCmpOp::MaskedEq(thread), 0)?;
        rules.insert(libc::SYS_clone, vec![is_process]);
        // Its flags are in memory, which no filter can see. With this answer the C library uses the
        // older call.
        let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        filter(newer, libc::ENOSYS)?;
    }
    filter(rules, libc::EPERM)
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, fault: i32) -> Result<(), AnyError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(fault as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?;
    let mut program: BpfProgram = filter.try_into()?;
    #[cfg(target_arch = "x86_64")]
    program.splice(..0, other_numbers());
    Ok(apply_filter(&program)?)
}

/// Programs with 32-bit pointers (x32) have other numbers for the same calls, under the same
/// architecture code: all of them are refused.
#[cfg(target_arch = "x86_64")]
fn other_numbers() -> [sock_filter; 3] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST_OF_X32: u32 = 0x4000_0000;
    const ERRNO: u32 = 0x0005_0000;
    let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    [
        // The number is the first word of a filter's input.
        instruction(LOAD_WORD, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 1, FIRST_OF_X32),
        instruction(RETURN, 0, ERRNO | libc::EPERM as u32),
    ]
}

/// Reading stays allowed: certificates and resolvers can be anywhere.
fn restrict_writes(folder: Option<&File>) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V3;
    let writes = AccessFs::from_write(abi);
    let created = Ruleset::default()
        .handle_access(writes | AccessFs::Execute)?
        .create()?
        .add_rules(path_beneath_rules(["/dev/null"], writes))?;
    // Uses the open folder: its path may lead elsewhere by now.
    let ruleset = match folder {
        Some(folder) => created.add_rule(PathBeneath::new(folder, writes))?,
        None => created,
    };
    Ok(ruleset.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::files;
    use crate::sys::trial;

    /// A sandbox cannot be left, so each test runs in its own thread.
    fn within<T: Send>(sandbox: &Sandbox, try_it: impl FnOnce() -> T + Send) -> (Vec<String>, T) {
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| (enter(sandbox), try_it()));
            thread.join().expect("no panic")
        })
    }

    #[test]
    fn who_speaks_with_the_network_starts_no_program_and_the_steward_does() {
        let start = || Command::new("true").status().is_ok();
        let (limits, started) = within(&Sandbox::Speaker(None), start);
        assert!(
            !started || !limits.contains(&"seccomp".to_owned()),
            "{limits:?}"
        );
        let (_, started) = within(&Sandbox::Steward, start);
        assert!(started);
    }

    #[test]
    fn who_speaks_with_the_network_starts_no_process_but_threads() {
        let start = || {
            let thread = std::thread::spawn(|| 7).join().ok();
            (trial::fork().is_ok(), thread)
        };
        let (limits, (forked, thread)) = within(&Sandbox::Speaker(None), start);
        assert!(
            !forked || !limits.contains(&"seccomp".to_owned()),
            "{limits:?}"
        );
        assert_eq!(thread, Some(7));
        let (_, (forked, _)) = within(&Sandbox::Steward, start);
        assert!(forked);
    }

    #[test]
    fn neither_types_into_a_terminal_by_any_number() {
        let type_it = || trial::type_into_null().map_err(|fault| fault.raw_os_error());
        assert_eq!(type_it(), Err(Some(libc::ENOTTY)));
        for sandbox in [Sandbox::Speaker(None), Sandbox::Steward] {
            let (limits, typed) = within(&sandbox, || (type_it(), trial::other_number()));
            if limits.contains(&"seccomp".to_owned()) {
                let refused = Err(Some(libc::EPERM));
                let other = typed.1.map_err(|fault| fault.raw_os_error());
                assert_eq!((typed.0, other), (refused, refused));
            }
        }
    }

    #[test]
    fn neither_enters_another_namespace() {
        for sandbox in [Sandbox::Speaker(None), Sandbox::Steward] {
            let unshare = || nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS);
            let (limits, entered) = within(&sandbox, unshare);
            assert!(
                entered.is_err() || !limits.contains(&"seccomp".to_owned()),
                "{limits:?}"
            );
        }
    }

    #[test]
    fn writes_are_kept_to_the_folder_that_was_opened_wherever_its_name_leads() {
        let own = std::env::temp_dir().join(format!("caravan-sandbox-{}", std::process::id()));
        let (other, moved) = (own.with_extension("other"), own.with_extension("moved"));
        std::fs::create_dir(&other).expect("made");
        let folder = files::hold_folder(&own, 0o700).expect("made");
        std::fs::rename(&own, &moved).expect("moved");
        std::os::unix::fs::symlink(&other, &own).expect("planted");
        let write = |folder: &Path| std::fs::write(folder.join("file"), "text").is_ok();
        let sandbox = Sandbox::Speaker(Some(folder));
        let (limits, wrote) = within(&sandbox, || [write(&moved), write(&own), write(&other)]);
        let has_landlock = limits.contains(&"landlock".to_owned());
        let elsewhere = !has_landlock;
        assert_eq!(wrote, [true, elsewhere, elsewhere], "{limits:?}");
        std::fs::remove_file(&own).expect("removed");
        for folder in [&moved, &other] {
            std::fs::remove_dir_all(folder).expect("removed");
        }
    }
}

//! System calls that no crate wraps without loss of speed, or at all. This is the daemon's only
//! `unsafe` code. Everything here is a safe function or type over one call; policy belongs to the
//! callers.
//!
//! [`device`]: ioctls of TUN devices and interfaces. [`datagram`]: `sendmsg` and `recvmmsg` with
//! UDP_SEGMENT, UDP_GRO and packet information. [`gather`]: `writev` of slices gathered anew for
//! each packet. [`frame`]: packet sockets. Left out: what nix and socket2 already do well.

#![expect(unsafe_code, reason = "system calls take raw pointers")]

pub mod datagram;
pub mod device;
pub mod frame;
pub mod gather;
#[cfg(test)]
pub mod trial;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{getpid, getppid};

/// A `setsockopt` of one integer, for options that no crate names.
pub fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer and the size are those of a live i32.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<libc::c_void>(),
            size,
        )
    };
    check(done).map(drop)
}

/// A `getsockopt` of one integer.
pub fn option(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers are to live variables, and `size` says how large the value is.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast::<libc::c_void>(),
            &raw mut size,
        )
    };
    check(done).map(|_| value)
}

/// From here on, `ignored` do nothing to this process, nor to the programs that it starts: an
/// ignored signal stays ignored in a new program, a handled one does not (execve(2)).
pub fn ignore(ignored: &[Signal]) -> nix::Result<()> {
    for one in ignored {
        // SAFETY: no handler runs.
        unsafe { signal(*one, SigHandler::SigIgn) }?;
    }
    Ok(())
}

/// Fills `octets` with randomness of the kernel (getrandom(2)), which needs no file.
pub fn random(octets: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < octets.len() {
        let rest = &mut octets[filled..];
        // SAFETY: the pointer and the length are those of a live slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match got {
            got if got > 0 => filled += got as usize,
            _ => match io::Error::last_os_error() {
                fault if fault.kind() == io::ErrorKind::Interrupted => {}
                fault => return Err(fault),
            },
        }
    }
    Ok(())
}

/// A program that is killed when the thread that starts it ends (PR_SET_PDEATHSIG): also by
/// SIGKILL, after which nobody could end it.
pub fn tie(program: &mut Command) -> &mut Command {
    let parent = getpid();
    let begin = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // Its parent may have ended before.
        match getppid() == parent {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor locks.
    unsafe { program.pre_exec(begin) }
}

/// The processor's time-stamp counter, if it has one.
pub fn time_stamp() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction; Linux does not forbid it.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Turns a -1 into the error of the last call.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_strings_of_octets_are_alike() {
        let (mut one, mut other) = ([0; 300], [0; 300]);
        random(&mut one).expect("the kernel has some");
        random(&mut other).expect("the kernel has some");
        assert_ne!(one, other);
        assert!(one[256..].iter().any(|octet| *octet != 0));
        random(&mut []).expect("nothing to do");
    }

    #[test]
    fn a_tied_program_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut sleep = Command::new("sleep");
            tie(sleep.arg("600")).spawn().expect("a program")
        };
        let mut child = std::thread::spawn(start).join().expect("no panic");
        let status = child.wait().expect("it ends");
        let by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(by, Some(libc::SIGKILL));
    }
}

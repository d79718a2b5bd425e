//! System calls that a sandbox must refuse, for tests.
#![expect(unsafe_code, reason = "no crate makes these calls safe")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

/// Starts a process that ends at once.
pub fn fork() -> io::Result<()> {
    // SAFETY: without a stack of its own the new process continues here, and ends without touching
    // anything that other threads of the old one may hold.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: this call does not return, and looks at no memory.
        unsafe { libc::_exit(0) };
    }
    let child = super::check(child as i32)?;
    // SAFETY: with a null pointer the call writes no status.
    super::check(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }).map(drop)
}

/// Types an octet into a file that is not a terminal.
pub fn type_into_null() -> io::Result<()> {
    let null = File::open("/dev/null")?;
    let octet = b'x';
    // SAFETY: the argument is a live octet, which is what this ioctl reads.
    let done = unsafe { libc::ioctl(null.as_raw_fd(), libc::TIOCSTI, &raw const octet) };
    super::check(done).map(drop)
}

/// Calls getpid by its x32 number. Kernels without x32 do not know the number.
#[cfg(target_arch = "x86_64")]
pub fn other_number() -> io::Result<()> {
    // SAFETY: getpid takes no argument.
    super::check(unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) } as i32).map(drop)
}

/// Other architectures have no second set of numbers.
#[cfg(not(target_arch = "x86_64"))]
pub fn other_number() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EPERM))
}

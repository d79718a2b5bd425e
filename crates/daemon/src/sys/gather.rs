//! `writev` of slices that are gathered anew for each packet, without allocation.
#![expect(unsafe_code, reason = "an iovec is a raw pointer")]

use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// Most slices of one write: the kernel's UIO_MAXIOV.
pub const MAX_SLICES: usize = 1024;

/// Memory for the slices of one write, reused.
#[derive(Default)]
pub struct Gather {
    slices: Vec<IoSlice<'static>>,
}

/// A write being built. It borrows its [`Gather`] and the bytes.
pub struct Gathering<'g, 'b> {
    slices: &'g mut Vec<IoSlice<'static>>,
    bytes: PhantomData<&'b [u8]>,
}

impl Gather {
    /// Room for [`MAX_SLICES`].
    pub fn new() -> Self {
        Self {
            slices: Vec::with_capacity(MAX_SLICES),
        }
    }

    /// Begins a write.
    pub fn begin<'b>(&mut self) -> Gathering<'_, 'b> {
        self.slices.clear();
        Gathering {
            slices: &mut self.slices,
            bytes: PhantomData,
        }
    }
}

impl<'b> Gathering<'_, 'b> {
    /// Adds bytes. With more than [`MAX_SLICES`] slices the write fails.
    pub fn push(&mut self, bytes: &'b [u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: only the lifetime changes. `self` keeps 'b borrowed for as long as it exists,
        // and its drop empties the vector, so no slice outlives the bytes.
        let kept: IoSlice<'static> =
            unsafe { std::mem::transmute::<IoSlice<'b>, IoSlice<'static>>(IoSlice::new(bytes)) };
        self.slices.push(kept);
    }

    /// Writes all of it as one packet.
    pub fn write(self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        if self.slices.len() > MAX_SLICES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let count = self.slices.len() as i32;
        // SAFETY: IoSlice is promised to be ABI compatible with iovec; each is a live slice.
        let done = unsafe {
            libc::writev(
                fd.as_raw_fd(),
                self.slices.as_ptr().cast::<libc::iovec>(),
                count,
            )
        };
        if done < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(done as usize)
        }
    }
}

impl Drop for Gathering<'_, '_> {
    fn drop(&mut self) {
        self.slices.clear();
    }
}

//! What the inbound plane gives: decrypted packets where they lie in the caller's buffers,
//! segments of one flow gathered into one write.

use core::ops::Range;

use crate::plane::Notice;
use crate::sa::Path;

/// A part of one of the caller's receive buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which buffer, as given to [`crate::plane::InboundPlane::open`].
    pub buffer: usize,
    /// Where in it.
    pub range: Range<usize>,
}

/// One write to the TUN device: `header`, then each slice (one `writev`).
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Virtio-net header if the device has them, then rebuilt IP and TCP or UDP headers. May be
    /// empty.
    pub header: &'a [u8],
    /// What follows: parts of the caller's buffers.
    pub slices: &'a [Slice],
}

/// An IKE message, its non-ESP marker still on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// From where.
    pub path: Path,
    /// Where it lies.
    pub slice: Slice,
}

/// Opened packets. Made once; [`crate::plane::InboundPlane::open`] appends for each buffer of a
/// batch, then the caller writes all and calls [`Packets::clear`]. The buffers must stay as they
/// are in between.
#[derive(Default)]
pub struct Packets {
    pub(crate) writes: Vec<Pending>,
    pub(crate) used: usize,
    pub(crate) control: Vec<Control>,
    pub(crate) notices: Vec<Notice>,
}

/// Octets that the rebuilt headers of one write may need: virtio-net, IP, TCP with options.
pub(crate) const HEADER_BYTES: usize = 10 + 40 + 60;

/// A write in the making; its memory is reused.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) header: Vec<u8>,
    pub(crate) slices: Vec<Slice>,
}

impl Packets {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.control.clear();
        self.notices.clear();
    }

    /// What to write to the TUN device, in order.
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.writes[..self.used].iter().map(|pending| Write {
            header: &pending.header,
            slices: &pending.slices,
        })
    }

    /// IKE messages.
    pub fn control(&self) -> &[Control] {
        &self.control
    }

    /// What control must know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

//! What the inbound plane gives: decrypted packets, as ranges of the caller's buffers. Segments of
//! one flow are joined into one write.

use core::ops::Range;

use crate::plane::Notice;
use crate::plane::tail::Tail;
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
    /// Virtio-net header if the device has them, then the packet's IP, TCP or UDP headers.
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
/// batch, then the caller writes all and calls [`Packets::clear`]. The buffers must not change
/// before that.
#[derive(Default)]
pub struct Packets {
    pub(crate) pending: Vec<Pending>,
    pub(crate) used: usize,
    pub(crate) control: Vec<Control>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) returned: Vec<Slice>,
}

/// A write in the making; its memory is reused.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) header: Vec<u8>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) tail: Option<Tail>,
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
        self.returned.clear();
    }

    /// What to write to the TUN device, in order.
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.pending[..self.used].iter().map(|pending| Write {
            header: &pending.header,
            slices: &pending.slices,
        })
    }

    /// IKE messages.
    pub fn control(&self) -> &[Control] {
        &self.control
    }

    /// Whole IP packets for the outbound plane, which sends them into a tunnel or drops them. A
    /// host has encapsulated them to us, so that we send them into its reverse tunnel (RFC 3024
    /// §5.2). Whoever sees them on the TUN device cannot tell them from packets that others say are
    /// from there.
    pub fn returned(&self) -> &[Slice] {
        &self.returned
    }

    /// What control must know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// One more write, empty.
    pub(crate) fn add(&mut self) -> &mut Pending {
        if self.used == self.pending.len() {
            self.pending.push(Pending::default());
        }
        let pending = &mut self.pending[self.used];
        self.used += 1;
        pending.header.clear();
        pending.slices.clear();
        pending.tail = None;
        pending
    }
}

//! When control must renew an SA because of what it has carried.

/// The packets and bytes of an SA after which control is told, once.
pub(crate) struct SoftLimit {
    packets: u64,
    bytes: u64,
    is_reached: bool,
}

impl SoftLimit {
    pub(crate) fn new(packets: u64, bytes: u64) -> Self {
        Self {
            packets,
            bytes,
            is_reached: false,
        }
    }

    /// Whether an SA that has carried this much reaches it: true only once.
    pub(crate) fn reach(&mut self, packets: u64, bytes: u64) -> bool {
        let is_due = !self.is_reached && (packets >= self.packets || bytes >= self.bytes);
        self.is_reached |= is_due;
        is_due
    }
}

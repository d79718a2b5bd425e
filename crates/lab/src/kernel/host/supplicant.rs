//! A host's part in getting access to its radio link: the station's end of a dialogue.

use engine::time::Instant;

use crate::kernel::Target;
use crate::kernel::dialogue::{Progress, Script};

/// The station's end.
pub struct Supplicant {
    /// The station's number in frames.
    station: u32,
    script: Script,
    /// The access point's radio.
    point: Target,
    /// The message that is next.
    next: usize,
    /// What it has done.
    pub progress: Progress,
}

/// A frame to send: octets, and the number of its message.
pub(crate) struct Frame {
    pub(super) bytes: u32,
    pub(super) station: u32,
    pub(super) step: u32,
}

impl Supplicant {
    /// A station with this number that has not begun, and the radio of its access point.
    pub fn new(station: u32, script: Script, point: Target) -> Self {
        Self {
            station,
            script,
            point,
            next: 0,
            progress: Progress::default(),
        }
    }

    /// Whether the station may send and receive.
    pub fn is_in(&self) -> bool {
        self.progress.ended.is_some()
    }

    /// Begins. Returns what it sends, and its seconds of work before.
    pub(super) fn begin(&mut self, now: Instant) -> (Vec<Frame>, f64) {
        self.progress.began = Some(now);
        self.go_on()
    }

    /// The access point that asks by itself when this station has come, and the station's number.
    pub(super) fn asked_by(&self) -> Option<(Target, u32)> {
        let first = self.script.first()?;
        (!first.is_from_station).then_some((self.point, self.station))
    }

    /// Takes a frame of the access point. Returns what it sends, and its seconds of work.
    pub(super) fn take(&mut self, step: usize, now: Instant) -> (Vec<Frame>, f64) {
        if step != self.next || self.is_in() {
            return (Vec::new(), 0.0);
        }
        self.progress.asked.get_or_insert(now);
        let work_s = self.script[step].station_s;
        self.next = step + 1;
        let (frames, more_s) = self.go_on();
        (frames, work_s + more_s)
    }

    /// The work of the last call is done.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.next >= self.script.len() {
            self.progress.ended.get_or_insert(now);
        }
    }

    fn go_on(&mut self) -> (Vec<Frame>, f64) {
        let mut frames = Vec::new();
        let mut seconds = 0.0;
        while let Some(said) = self.script.get(self.next).filter(|it| it.is_from_station) {
            seconds += said.station_s;
            self.progress.sent(said.frame_bytes);
            frames.push(Frame {
                bytes: said.frame_bytes,
                station: self.station,
                step: self.next as u32,
            });
            self.next += 1;
        }
        (frames, seconds)
    }
}

//! A capture that a test looks at while it is made.

use std::io::{self, Write};

/// Looks at each packet of a capture in blocks of pcapng: the name of its interface, the time in
/// nanoseconds of the calendar, and its octets.
pub(in crate::kernel::world) struct Blocks<F> {
    block: Vec<u8>,
    interfaces: Vec<String>,
    look: F,
}

impl<F: FnMut(&str, u64, &[u8])> Blocks<F> {
    pub(in crate::kernel::world) fn new(look: F) -> Self {
        Self {
            block: Vec::new(),
            interfaces: Vec::new(),
            look,
        }
    }
}

impl<F: FnMut(&str, u64, &[u8])> Write for Blocks<F> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(octets);
        let word = |at: usize| {
            let octets = self.block.get(at..at + 4)?;
            octets.try_into().ok().map(u32::from_le_bytes)
        };
        let (kind, length) = (word(0), word(4));
        if length.is_some_and(|length| self.block.len() >= length as usize) {
            match kind {
                // The name is the first option.
                Some(1) => {
                    let length = u16::from_le_bytes([self.block[18], self.block[19]]);
                    let name = &self.block[20..20 + usize::from(length)];
                    self.interfaces
                        .push(String::from_utf8_lossy(name).into_owned());
                }
                Some(6) => {
                    let (interface, length) = (word(8).expect("one"), word(20).expect("one"));
                    let (high, low) = (word(12).expect("one"), word(16).expect("one"));
                    let at_ns = (u64::from(high) << 32) | u64::from(low);
                    let packet = &self.block[28..28 + length as usize];
                    (self.look)(&self.interfaces[interface as usize], at_ns, packet);
                }
                _ => {}
            }
            self.block.clear();
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

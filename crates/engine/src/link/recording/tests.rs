use std::io::{Cursor, SeekFrom};

use super::*;

fn replay(text: &str) -> Result<Replay<Cursor<String>>, BadRecording> {
    let survey = survey(Cursor::new(text))?;
    Replay::new(Cursor::new(text.to_owned()), survey)
}

fn ms(at: u64) -> Instant {
    Instant(at * NS_PER_MS)
}

#[test]
fn opportunities_repeat_after_the_last() {
    let mut replay = replay("5\n10\n").unwrap();
    let departures: Vec<Instant> = (0..5)
        .map(|_| replay.carry(1500, Instant(0)).unwrap())
        .collect();
    assert_eq!(departures, [ms(5), ms(10), ms(15), ms(20), ms(25)]);
}

#[test]
fn small_packets_share_an_opportunity_and_idle_ones_are_lost() {
    let mut replay = replay("5\n10\n").unwrap();
    let mut carry = |bytes, now| replay.carry(bytes, now).unwrap();
    assert_eq!(carry(748, Instant(0)), ms(5));
    assert_eq!(carry(748, Instant(0)), ms(5));
    assert_eq!(carry(1, Instant(0)), ms(10));
    assert_eq!(carry(1500, ms(101)), ms(105));
    // the end of a round is not later than the start of the next
    assert_eq!(carry(1500, ms(110)), ms(110));
    assert_eq!(carry(1500, Instant(ms(110).0 + 1)), ms(115));
}

#[test]
fn a_round_may_begin_where_the_last_one_ends() {
    let mut replay = replay("0\n10\n").unwrap();
    let departures: Vec<Instant> = (0..4)
        .map(|_| replay.carry(1500, Instant(0)).unwrap())
        .collect();
    assert_eq!(departures, [ms(0), ms(10), ms(10), ms(20)]);
}

#[test]
fn the_rate_is_that_of_full_packets() {
    let survey = survey(Cursor::new("5\r\n10")).unwrap();
    assert_eq!(survey.bytes_per_second(), 300_000.0);
}

#[test]
fn what_is_no_recording_is_named_with_its_line() {
    for (text, line, said) in [
        ("", None, "a trace needs an opportunity after 0 ms"),
        ("0\n0\n", None, "needs an opportunity"),
        ("1\nx\n", Some(2), "\"x\" is not a number"),
        ("1\n\n2\n", Some(2), "\"\" is not"),
        ("-1\n", Some(1), "\"-1\" is not"),
        ("1000\n1001\n10", Some(3), "10 ms comes after 1001 ms"),
        ("9999999999999\n", Some(1), "is not a number"),
        (
            "0000000000000000000000000000000000000005\n",
            Some(1),
            "is not a number",
        ),
    ] {
        let fault = survey(Cursor::new(text)).expect_err(text);
        assert_eq!(fault.line(), line, "{text}");
        assert!(fault.to_string().contains(said), "{fault}");
    }
    for digit in ["1", "0"] {
        let endless = Made::new(digit.repeat(1 << 20), u64::MAX);
        assert_eq!(survey(endless).expect_err("no end").line(), Some(1));
    }
}

#[test]
fn a_recording_that_changes_is_noticed() {
    let first = survey(Cursor::new("5\n10\n")).unwrap();
    for other in ["5\n", "5\n11\n", "5\n7\n10\n", "5\n10\n10\n", "x\n", ""] {
        let refused = match Replay::new(Cursor::new(other), first) {
            Ok(mut replay) => (0..8).any(|_| replay.carry(1500, Instant(0)).is_err()),
            Err(_) => true,
        };
        assert!(refused, "{other:?}");
    }
}

/// A text that repeats, up to a length that no memory holds.
struct Made {
    part: String,
    length: u64,
    at: u64,
    read: u64,
}

impl Made {
    fn new(part: String, length: u64) -> Self {
        Self {
            part,
            length,
            at: 0,
            read: 0,
        }
    }
}

impl Read for Made {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let from = (self.at % self.part.len() as u64) as usize;
        let left = usize::try_from(self.length - self.at).unwrap_or(usize::MAX);
        let length = left.min(buffer.len()).min(self.part.len() - from);
        buffer[..length].copy_from_slice(&self.part.as_bytes()[from..from + length]);
        self.at += length as u64;
        self.read += length as u64;
        Ok(length)
    }
}

impl Seek for Made {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        assert_eq!(to, SeekFrom::Start(0), "only rewound");
        self.at = 0;
        Ok(0)
    }
}

/// 40 million lines, far more than memory holds, and blocks that end within a line.
#[test]
fn a_huge_recording_is_read_as_its_time_goes_on() {
    let length = 40_000_000 * 9;
    let made = || Made::new("12345678\n".into(), length);
    let survey = survey(made()).unwrap();
    assert_eq!(survey.opportunities, 40_000_000);
    assert_eq!(survey.period_ms, 12_345_678);
    let mut replay = Replay::new(made(), survey).unwrap();
    for _ in 0..10_000 {
        assert_eq!(replay.carry(1500, Instant(0)).unwrap(), ms(12_345_678));
    }
    // it reads only what is needed, and a block more
    let read = replay.lines.source.read;
    assert!(read <= 10_000 * 9 + BLOCK_BYTES as u64, "{read}");
    assert_eq!(replay.lines.block.len(), BLOCK_BYTES);
}

use super::super::{Packet, Queue, Tandem, TandemFault as Whole, replay};
use super::*;
use crate::staircase::Staircase;
use proptest::prelude::*;

/// An IPv4 packet of so many bytes from 192.0.2.1 to 192.0.2.2.
fn ipv4(bytes: u16) -> Vec<u8> {
    let mut packet = vec![0; usize::from(bytes)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&bytes.to_be_bytes());
    packet[12..16].copy_from_slice(&[192, 0, 2, 1]);
    packet[16..20].copy_from_slice(&[192, 0, 2, 2]);
    packet
}

fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind, packet].concat()
}

fn put(file: &mut Vec<u8>, big: bool, word: u32) {
    let bytes = if big {
        word.to_be_bytes()
    } else {
        word.to_le_bytes()
    };
    file.extend_from_slice(&bytes);
}

/// A classic file of frames at microseconds.
fn classic(big: bool, link: u32, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    put(&mut file, big, 0xa1b2_c3d4);
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    file.extend_from_slice(&version);
    for word in [0, 0, 65_535, link] {
        put(&mut file, big, word);
    }
    for (micros, frame) in frames {
        let length = frame.len() as u32;
        for word in [
            1_000_000_000 + micros / 1_000_000,
            micros % 1_000_000,
            length,
            length,
        ] {
            put(&mut file, big, word);
        }
        file.extend_from_slice(frame);
    }
    file
}

fn block(file: &mut Vec<u8>, big: bool, kind: u32, body: &[u8]) {
    let length = (body.len().next_multiple_of(4) + 12) as u32;
    put(file, big, kind);
    put(file, big, length);
    file.extend_from_slice(body);
    file.resize(file.len().next_multiple_of(4), 0);
    put(file, big, length);
}

/// A pcapng file of raw IP at nanoseconds.
fn blocks(big: bool, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let half = |value: u16| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let mut file = Vec::new();
    let mut body = Vec::new();
    put(&mut body, big, 0x1a2b_3c4d);
    body.extend_from_slice(&half(1));
    body.extend_from_slice(&[0; 2]);
    body.extend_from_slice(&[0xff; 8]);
    block(&mut file, big, 0x0a0d_0d0a, &body);
    // link 101, resolution 10^-9
    let options = [half(9), half(1), [9, 0], [0, 0], half(0), half(0)].concat();
    let body = [&half(101)[..], &[0; 6], &options].concat();
    block(&mut file, big, 1, &body);
    block(&mut file, big, 0x0bad, &[1, 2, 3, 4, 5]);
    for (nanos, frame) in frames {
        let mut body = Vec::new();
        let length = frame.len() as u32;
        for word in [0, (nanos >> 32) as u32, *nanos as u32, length, length] {
            put(&mut body, big, word);
        }
        body.extend_from_slice(frame);
        block(&mut file, big, 6, &body);
    }
    file
}

fn read(file: &[u8]) -> Result<Vec<Packet>, Whole> {
    Capture::open(file, Wanted::All)?.collect()
}

fn packets(list: &[(f64, f64)]) -> Vec<Packet> {
    let packet = |&(at_s, bytes): &(f64, f64)| Packet { at_s, bytes };
    list.iter().map(packet).collect()
}

#[test]
fn both_formats_and_orders_give_times_and_sizes() {
    let expected = packets(&[(0.0, 100.0), (0.25, 1500.0), (1.5, 40.0)]);
    for big in [false, true] {
        let frames = [(500_000, 100), (750_000, 1500), (2_000_000, 40)];
        let raw = frames.map(|(at, bytes)| (at, ipv4(bytes)));
        assert_eq!(read(&classic(big, 101, &raw)).unwrap(), expected);
        let wired = frames.map(|(at, bytes)| (at, ethernet([8, 0], &ipv4(bytes))));
        assert_eq!(read(&classic(big, 1, &wired)).unwrap(), expected);
        let nanos = frames.map(|(at, bytes)| (u64::from(at) * 1000 + (7 << 40), ipv4(bytes)));
        assert_eq!(read(&blocks(big, &nanos)).unwrap(), expected);
    }
}

#[test]
fn tags_are_looked_through_and_strangers_counted() {
    let tagged = ethernet([0x81, 0], &[&[0, 5, 8, 0][..], &ipv4(60)].concat());
    let mut six = vec![0; 90];
    six[0] = 0x60;
    six[4..6].copy_from_slice(&50u16.to_be_bytes());
    let frames = [
        (0, tagged),
        (1, ethernet([8, 6], &[0; 28])),
        (2, ethernet([0x86, 0xdd], &six)),
        (3, vec![1, 2, 3]),
    ];
    let file = classic(false, 1, &frames);
    let mut capture = Capture::open(&file[..], Wanted::All).unwrap();
    let sizes: Vec<f64> = capture
        .by_ref()
        .map(|packet| packet.unwrap().bytes)
        .collect();
    assert_eq!(sizes, [60.0, 90.0]);
    assert_eq!(capture.contents().strange, 2);
}

#[test]
fn a_line_of_dsl_is_read() {
    let session = |kind: [u8; 2], packet: &[u8]| {
        let header = [&[0x11, 0, 0, 1, 0, 0][..], &kind].concat();
        ethernet([0x88, 0x64], &[&header, packet].concat())
    };
    let mut six = vec![0; 48];
    six[0] = 0x60;
    six[5] = 8;
    let frames = [
        (0, session([0, 0x21], &ipv4(576))),
        (1_000_000, session([0, 0x57], &six)),
        (2_000_000, session([0xc0, 0x21], &[1, 1, 0, 4])),
    ];
    let file = classic(false, 1, &frames);
    let mut capture = Capture::open(&file[..], Wanted::All).unwrap();
    let found: Vec<Packet> = capture.by_ref().map(Result::unwrap).collect();
    assert_eq!(found, packets(&[(0.0, 576.0), (1.0, 48.0)]));
    assert_eq!(capture.contents().strange, 1);
}

#[test]
fn a_capture_says_what_it_held() {
    let mut answer = ipv4(1500);
    answer[12..20].copy_from_slice(&[192, 0, 2, 2, 192, 0, 2, 1]);
    let frames = [(0, ipv4(52)), (1_000_000, answer), (2_000_000, vec![0; 20])];
    let file = classic(false, 101, &frames);
    let mut capture = Capture::open(&file[..], Wanted::All).unwrap();
    assert_eq!(capture.by_ref().count(), 2);
    let contents = Contents {
        packets: 2,
        strange: 1,
        returning: 1,
        largest_bytes: 1500,
        ..Contents::default()
    };
    assert_eq!(capture.contents(), contents);
}

#[test]
fn a_packed_capture_is_named() {
    let fault = Capture::open(&[0x1f, 0x8b, 8, 8][..], Wanted::All)
        .err()
        .unwrap();
    assert!(
        fault
            .to_string()
            .ends_with("packed by gzip, unpack it first"),
        "{fault}"
    );
}

#[test]
fn a_direction_can_be_chosen_and_late_packets_are_clamped() {
    let mut back = ipv4(80);
    back.copy_within(12..16, 16);
    back[12..16].copy_from_slice(&[192, 0, 2, 2]);
    let file = classic(false, 101, &[(9, ipv4(50)), (12, back), (7, ipv4(60))]);
    let from = Wanted::From([192, 0, 2, 1].into());
    let mut capture = Capture::open(&file[..], from).unwrap();
    let found: Result<Vec<Packet>, _> = capture.by_ref().collect();
    assert_eq!(found.unwrap(), packets(&[(0.0, 50.0), (0.0, 60.0)]));
    let seen = capture.contents();
    assert_eq!((seen.unwanted, seen.reordered), (1, 1));
    let to = Wanted::To([192, 0, 2, 1].into());
    assert_eq!(Capture::open(&file[..], to).unwrap().count(), 1);
}

#[test]
fn times_that_go_back_are_refused_beyond_a_millisecond() {
    let timed = |micros: &[u32]| -> Vec<_> { micros.iter().map(|&at| (at, ipv4(50))).collect() };
    let seconds = timed(&[5, 3, 1, 4, 2].map(|second| second * 1_000_000));
    let fault = read(&classic(false, 101, &seconds)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "record 2 is 2 s before an earlier one: sort the capture with reordercap"
    );
    let found = read(&classic(false, 101, &timed(&[2_000, 1_000, 3_000])));
    assert_eq!(
        found.unwrap(),
        packets(&[(0.0, 50.0), (0.0, 50.0), (0.001, 50.0)])
    );
    // Small steps do not add up.
    let fault = read(&classic(false, 101, &timed(&[2_000, 1_400, 999]))).unwrap_err();
    assert!(
        fault.to_string().starts_with("record 3 is 0.001001 s"),
        "{fault}"
    );
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_capture() {
    let raw = [(0, ipv4(100)), (5, ipv4(300))];
    let file = classic(false, 101, &raw);
    let ends = [24, 24 + 116, file.len()];
    for length in 0..=file.len() {
        let found = read(&file[..length]);
        assert_eq!(found.is_ok(), ends.contains(&length), "{length}: {found:?}");
    }
    assert_eq!(read(&[]), Err(CaptureFault::Empty.into()));
    for (file, least) in [(classic(true, 101, &[]), 24), (blocks(false, &[]), 28)] {
        for bytes in 1..least {
            let said = format!(
                "the capture is cut short: it ends after {bytes} bytes, its header alone has {}",
                if bytes < 4 { 24 } else { least }
            );
            let fault = read(&file[..bytes as usize]).expect_err("no header");
            assert_eq!(fault.to_string(), said);
        }
    }
    let file = blocks(true, &[(0, ipv4(100))]);
    let found = |length: usize| read(&file[..length]).map(|packets| packets.len());
    let whole = (0..file.len()).filter(|&length| found(length).is_ok());
    // after the section, the interface and the unknown block
    assert_eq!(whole.count(), 3);
}

#[test]
fn damage_is_named() {
    let text = |file: &[u8]| read(file).unwrap_err().to_string();
    assert!(text(b"GIF89a and so on").contains("neither pcap nor pcapng"));
    let mut file = classic(false, 101, &[(0, ipv4(100))]);
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        text(&file),
        "record 1 has length 4294967295, it must be 0 to 16777216"
    );
    assert!(text(&classic(false, 105, &[(0, ipv4(100))])).contains("link type 105"));
    let mut file = classic(false, 101, &[]);
    file[4] = 9;
    assert!(text(&file).contains("version 9.4"));
    let mut file = blocks(false, &[(0, ipv4(100))]);
    let packet = file.len() - 132;
    file[packet + 8] = 3;
    assert!(
        text(&file).contains("from interface 3, the section describes only 1"),
        "{}",
        text(&file)
    );
    let last = file.len() - 1;
    file[packet + 8] = 0;
    file[last] = 1;
    assert!(text(&file).contains("length"));
}

#[test]
fn a_capture_prices_its_own_traffic() {
    let tandem = Tandem {
        policy: "one".into(),
        queues: vec![Queue {
            name: "cpu".into(),
            service: Staircase::linear(1e-3),
        }],
        protected: Staircase::linear(1.1),
    };
    let frames: Vec<_> = (0..2000).map(|n| (n * 200_000, ipv4(100))).collect();
    let file = classic(false, 101, &frames);
    let capture = Capture::open(&file[..], Wanted::All).unwrap();
    let tally = &replay(&[tandem], capture, None, 0.0).unwrap()[0];
    let outcome = tally.outcome().unwrap();
    assert_eq!(outcome.packets, 2000);
    assert!((outcome.mean_delay_s - 0.1).abs() < 1e-9);
    assert!((outcome.throughput_bps - 4000.0).abs() < 5.0);
    assert!((outcome.expansion - 1.1).abs() < 1e-9);
}

proptest! {
    /// Random bytes after any beginning: the reader does not panic, and it ends.
    #[test]
    fn damage_ends(noise in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..200) {
        let _ = read(&noise);
        let mut file = blocks(false, &[(1, ipv4(60)), (2, ipv4(90))]);
        for (own, other) in file.iter_mut().skip(at).zip(&noise) {
            *own ^= other;
        }
        let _ = read(&file);
        let mut file = classic(true, 1, &[(1, ipv4(60)), (2, ipv4(90))]);
        file.truncate(at.max(24));
        file.extend_from_slice(&noise);
        let _ = read(&file);
    }
}

use std::os::unix::fs::PermissionsExt;

use super::*;

fn block_at(file: &[u8], at: usize) -> (u32, &[u8], usize) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four octets"));
    let total = word(at + 4) as usize;
    assert_eq!(total, word(at + total - 4) as usize, "both lengths agree");
    (word(at), &file[at + 8..at + total - 4], at + total)
}

fn record(path: &FilePath) -> io::Result<Capture> {
    Capture::start(CaptureFile::create(path)?)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn a_capture_holds_each_datagram_of_a_run_as_an_ip_packet() {
    let path = std::env::temp_dir().join(format!("caravan-capture-{}", std::process::id()));
    let capture = record(&path).expect("a file");
    let run = Run {
        path: Path::udp_with_marker(([192, 0, 2, 1], 4500), ([192, 0, 2, 2], 4501)),
        traffic_class: 8,
        segment_bytes: 10,
        is_oversize: false,
        range: 0..15,
    };
    capture.tap().run(&run, &[7; 15]);
    capture.tap().line("received intermediate 2: KE");
    capture.finish().expect("written");
    let file = std::fs::read(&path).expect("a capture");
    std::fs::remove_file(&path).expect("removed");
    let (kind, _, next) = block_at(&file, 0);
    assert_eq!(kind, SECTION_HEADER);
    let (kind, body, mut next) = block_at(&file, next);
    assert_eq!((kind, body[0]), (INTERFACE_DESCRIPTION, 101));
    for payload in [10, 5] {
        let (kind, body, after) = block_at(&file, next);
        next = after;
        assert_eq!(kind, ENHANCED_PACKET);
        let packet = &body[20..20 + 28 + payload];
        assert_eq!(checksum(&packet[..20]), 0);
        assert_eq!(packet[1], 8);
        assert_eq!(&packet[20..24], [0x11, 0x94, 0x11, 0x95]);
        assert_eq!(&packet[28..], vec![7; payload]);
    }
    let (kind, body, end) = block_at(&file, next);
    let entry = std::str::from_utf8(body).expect("text");
    assert_eq!(kind, JOURNAL_EXPORT);
    assert!(entry.starts_with("__REALTIME_TIMESTAMP="), "{entry}");
    assert!(entry.contains("\nMESSAGE=received intermediate 2: KE\n"));
    assert_eq!(end, file.len());
}

#[test]
fn a_file_that_was_open_to_all_is_private_and_a_full_disk_is_told() {
    let name = format!("caravan-capture-mode-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, "open").expect("a file");
    let to_all = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&path, to_all).expect("its mode");
    let capture = record(&path).expect("a capture");
    let mode = path.metadata().expect("there").permissions().mode();
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(capture.fault(), None);
    capture.finish().expect("written");

    let full = record(FilePath::new("/dev/full")).expect("a device");
    let mut waits = 0;
    while full.fault().is_none() && waits < 100 {
        std::thread::sleep(FLUSH);
        waits += 1;
    }
    assert!(full.fault().is_some_and(|fault| fault.contains("space")));
    full.finish().expect_err("nothing was written");
}

#[test]
fn rebuilt_udp_checksums_are_right_in_both_families() {
    for (from, to) in [
        ("192.0.2.1:5", "192.0.2.2:6"),
        ("[fd01::1]:5", "[fd01::2]:6"),
    ] {
        let (from, to) = (address(from), address(to));
        let packet = udp_packet(from, to, 0, b"odd");
        let udp = &packet[packet.len() - 11..];
        let sum = Sum::pseudo_header(from.ip(), to.ip(), 17, 11).bytes(udp);
        assert_eq!(sum.finish(), 0);
    }
}

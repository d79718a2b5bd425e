//! Rounds by hand, and times of a link by hand.

use super::*;
use crate::cost::{Clock, Profile};
use crate::scenario::LinkFile;

const LINK: &str = "title = \"a link\"\nrate = { up = \"8 kbit/s\", down = \"16 kbit/s\" }\n\
                    delay = \"1 s\"\noverhead = \"2 B\"\n[sources]\nrate = \"a page\"\ndelay = \
                    \"a page\"\noverhead = \"a page\"\n";

fn link() -> Link {
    LinkFile::parse("link", "link", LINK).expect("a link").link
}

/// Messages as words: `n98` is one of 98 bytes from the node.
fn exchange(words: &str, more: &str) -> Result<Exchange, Fault> {
    let mut text = format!("name = \"x\"\ntitle = \"x\"\n{more}");
    for word in words.split_whitespace() {
        let (from, bytes) = match word.strip_prefix('n') {
            Some(bytes) => ("node", bytes),
            None => ("peer", word.strip_prefix('p').expect("an end")),
        };
        text += &format!("[[message]]\nfrom = \"{from}\"\nsays = \"x\"\nsource = \"a page\"\n");
        if !bytes.is_empty() {
            text += &format!("bytes = {bytes}\n");
        }
    }
    Exchange::parse("x", &text)
}

fn way(link: &Link) -> Way<'_> {
    Way {
        link,
        size: Staircase::linear(1.0),
        behind: &[],
        peer: None,
        device: None,
        detection_s: 0.0,
        data_bytes: 98,
    }
}

fn taken(words: &str, more: &str) -> Taken {
    let link = link();
    let exchange = exchange(words, more).expect("an exchange");
    exchange.over(&way(&link)).expect("no device")
}

#[test]
fn a_round_is_a_wait_for_the_peer() {
    for (words, rounds) in [
        ("", 0),
        ("n", 0),
        ("n p", 1),
        ("n p n", 1),
        ("n p n p n p", 3),
        // main mode and quick mode
        ("n p n p n p n p n", 4),
        // aggressive mode and quick mode
        ("n p n n p n", 2),
        ("n p p", 1),
    ] {
        assert_eq!(
            exchange(words, "").expect("messages").rounds(),
            rounds,
            "{words}"
        );
    }
}

/// 100 bytes on the wire: 0.1 s up, 0.05 s down, and a second of delay either way.
#[test]
fn times_are_those_of_the_link() {
    let near = |found: Option<f64>, expected: f64| {
        let found = found.expect("a time");
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    };
    let none = taken("", "");
    assert_eq!((none.rounds, none.messages, none.bytes), (0, 0, Some(0.0)));
    near(none.send_s, 0.0);
    // the first data tells the peer, whose own comes back
    near(none.gap_s, 1.1 + 1.05);
    let both = taken("n98 p98", "");
    near(both.send_s, 1.1 + 1.05);
    // the peer sends its data behind its answer
    near(both.gap_s, 1.1 + 0.05 + 1.05);
    assert_eq!(both.bytes, Some(196.0));
    near(taken("n98 p98", "knows = 1\n").gap_s, 1.1 + 1.05);
    // data follows the last message at once
    let three = taken("n98 p98 n98", "");
    near(three.send_s, 1.1 + 1.05 + 0.1);
    near(three.gap_s, 1.1 + 1.05 + 1.1 + 1.05);
    let unknown = taken("n98 p", "");
    assert_eq!(
        (unknown.rounds, unknown.bytes, unknown.gap_s),
        (1, None, None)
    );
}

/// As an access point, which asks when a station has joined.
#[test]
fn a_peer_with_the_first_word_waits_for_the_node() {
    let link = link();
    let exchange = exchange("p98 n98 p98", "").expect("an exchange");
    let way = Way {
        detection_s: 3.0,
        ..way(&link)
    };
    let taken = exchange.over(&way).expect("no device");
    assert_eq!(taken.rounds, 2);
    let send_s = taken.send_s.expect("a time");
    assert!(
        (send_s - (3.0 + 1.05 + 1.1 + 1.05)).abs() < 1e-9,
        "{send_s}"
    );
}

#[test]
fn detection_protection_and_work_count() {
    let link = link();
    let text = "kind = \"cycles\"\nname = \"x\"\ntitle = \"x\"\n[per_byte]\nmd5 = { value = 1, \
                source = \"a page\" }\n[per_operation]\nx25519-agree = { value = 5e5, source = \
                \"a page\" }\n";
    let profile = Profile::parse("x", text).expect("a profile");
    let device = Device::new(profile, Some(Clock::MegaHertz(1.0))).expect("a device");
    let text = "name = \"x\"\ntitle = \"x\"\n[[message]]\nfrom = \"node\"\nsays = \"x\"\nsource = \
                \"a page\"\nbytes = 48\nwork = [\"x25519-agree\"]\n";
    let exchange = Exchange::parse("x", text).expect("an exchange");
    let way = Way {
        size: Staircase::constant(50.0).plus(&Staircase::linear(1.0)),
        device: Some(&device),
        detection_s: 3.0,
        ..way(&link)
    };
    let taken = exchange.over(&way).expect("priced");
    assert!((taken.send_s.expect("a time") - (3.0 + 0.5 + 0.1)).abs() < 1e-9);
    assert_eq!(taken.bytes, Some(98.0));
    let text = text.replace("x25519-agree", "p256-agree");
    let exchange = Exchange::parse("x", &text).expect("an exchange");
    let missing = exchange.over(&way).expect_err("no cost");
    assert_eq!(missing.cell, "per_operation.p256-agree");
}

/// WireGuard fills data up to blocks of 16 and adds 60.
#[test]
fn data_has_its_own_size() {
    let data = "[data]\nadded = 60\nblock = 16\nsource = \"a page\"\n";
    let text = format!("name = \"x\"\ntitle = \"x\"\n{data}");
    let exchange = Exchange::parse("x", &text).expect("an exchange");
    let link = link();
    let bytes = |data_bytes, extra| {
        let way = Way {
            size: Staircase::constant(extra).plus(&Staircase::linear(1.0)),
            data_bytes,
            ..way(&link)
        };
        exchange.over(&way).expect("no device").data_bytes
    };
    assert_eq!(bytes(96, 0.0), 156.0);
    assert_eq!(bytes(97, 0.0), 172.0);
    assert_eq!(bytes(97, 5.0), 177.0);
    assert_eq!(taken("", "").data_bytes, 98.0);
}

/// A tunnel's header before the packet and a trailer behind it are filled up with it.
#[test]
fn what_is_around_data_may_be_filled_up_too() {
    let data = "[data]\nadded = 60\nblock = 4\ntrailer = 22\nsource = \"a page\"\n";
    let text = format!("name = \"x\"\ntitle = \"x\"\n{data}");
    let exchange = Exchange::parse("x", &text).expect("an exchange");
    let link = link();
    for (data_bytes, expected) in [(84, 168.0), (86, 168.0), (87, 172.0), (1400, 1484.0)] {
        let way = Way {
            data_bytes,
            ..way(&link)
        };
        let taken = exchange.over(&way).expect("no device");
        assert_eq!(taken.data_bytes, expected, "{data_bytes}");
    }
}

/// A frame of authentication has neither an LLC nor, with these 4 bytes, the header that the link
/// counts: over the link it has what the file says and what the link adds beyond the framing.
#[test]
fn a_frame_shorter_than_its_framing_is_not_longer_over_the_link() {
    let link = LINK.replace("2 B", "9 B");
    let link = LinkFile::parse("link", "link", &link).expect("a link").link;
    let gap_s = |bytes: u32, framing: &str| {
        let exchange = exchange(&format!("n{bytes}"), framing).expect("an exchange");
        let taken = exchange.over(&way(&link)).expect("no device");
        taken.gap_s.expect("every size is known")
    };
    let back_s = 0.0535 + 1.0;
    // The link adds 9 - 5 to a frame of 4, and all of its 9 to a packet of 4.
    for (framing, sent_s) in [("framing = 5\n", 0.008), ("", 0.013)] {
        let found_s = gap_s(4, framing);
        assert!(
            (found_s - (sent_s + 1.0 + back_s)).abs() < 1e-9,
            "{found_s}"
        );
    }
    assert_eq!(gap_s(4, "framing = 5\n"), gap_s(8, "framing = 9\n"));
}

/// Two fragments of 98 bytes have an overhead of the link each, and a message of 196 has one.
#[test]
fn fragments_of_a_message_are_packets_each() {
    let link = link();
    let found = |packets: &str| {
        let text = format!(
            "name = \"x\"\ntitle = \"x\"\n[[message]]\nfrom = \"node\"\nsays = \"x\"\nsource = \
             \"a page\"\nbytes = 196\n{packets}"
        );
        let exchange = Exchange::parse("x", &text).expect("an exchange");
        let way = Way {
            size: Staircase::constant(10.0).plus(&Staircase::linear(1.0)),
            ..way(&link)
        };
        let taken = exchange.over(&way).expect("no device");
        (taken.bytes, taken.send_s.expect("a time"))
    };
    let (bytes, send_s) = found("");
    assert_eq!(bytes, Some(206.0));
    assert!((send_s - 0.208).abs() < 1e-9, "{send_s}");
    let (bytes, send_s) = found("packets = 2\n");
    assert_eq!(bytes, Some(216.0));
    assert!((send_s - 0.220).abs() < 1e-9, "{send_s}");
}

#[test]
fn what_is_no_exchange_is_refused() {
    for (words, more, why) in [
        ("n98 p98", "knows = 2\n", "from the node"),
        ("n98", "knows = 2\n", "1"),
        ("n0", "", "1"),
        ("n98", "know = 1\n", "know"),
    ] {
        let fault = exchange(words, more).expect_err(more).to_string();
        assert!(fault.contains(why), "{more}: {fault}");
    }
    let asked = "name = \"x\"\ntitle = \"x\"\n[[message]]\nfrom = \"peer\"\nsays = \"x\"\nsource = \
                 \"a page\"\nbytes = 98\nrelayed = 98\n";
    let fault = Exchange::parse("x", asked)
        .expect_err("relayed")
        .to_string();
    assert!(fault.contains("answers nothing"), "{fault}");
    let text = "name = \"x\"\ntitle = \"x\"\n[[message]]\nfrom = \"node\"\nsays = \"x\"\nsource = \
                \"a page\"\nwork = [\"guess\"]\n";
    let fault = Exchange::parse("x", text).expect_err("no work").to_string();
    assert!(fault.contains("guess"), "{fault}");
}

//! Mobile IPv4: messages, extensions and advertisements that can be read are rewritten to bytes
//! that read equal; packets in minimal encapsulation and GRE end within their frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::codec::Writer;
use wire::ip::{gre, minimal};
use wire::mip4::{AgentAdvertisement, Message, extensions, is_solicitation};

fuzz_target!(|input: &[u8]| {
    message(input);
    advertisement(input);
    is_solicitation(input);
    if let Ok(len) = gre::check(input) {
        assert!(len <= input.len());
    }
    let mut packet = input.to_vec();
    if let Ok(start) = minimal::decapsulate(&mut packet) {
        let restored = wire::ip::Ipv4::new(&packet[start..]).expect("a packet");
        assert!(restored.has_valid_checksum());
    }
});

fn message(datagram: &[u8]) {
    let Ok((message, at)) = Message::parse(datagram) else {
        return;
    };
    let mut w = Writer::new();
    match message {
        Message::Request(request) => request.write(&mut w),
        Message::Reply(reply) => reply.write(&mut w),
        Message::Tunnel(header) => w.bytes(&header.octets()),
        Message::Revocation(revocation) => revocation.write(&mut w),
        Message::RevocationAcknowledgment(acknowledgment) => acknowledgment.write(&mut w),
    }
    assert_eq!(Message::parse(w.as_slice()), Ok((message, at)));
    let Ok(list) = extensions(datagram, at) else {
        return;
    };
    let mut w = Writer::new();
    for one in &list {
        assert!(one.range.start >= at && one.range.end <= datagram.len());
        assert!(one.covered().is_none_or(|range| range.end <= one.range.end));
        one.extension.write(&mut w);
    }
    let again = extensions(w.as_slice(), 0).expect("what we write reads");
    let kept = again.iter().map(|one| &one.extension);
    assert!(list.iter().map(|one| &one.extension).eq(kept));
}

fn advertisement(icmp: &[u8]) {
    let Ok(Some(read)) = AgentAdvertisement::parse(icmp) else {
        return;
    };
    let written = read.to_icmp();
    assert_eq!(AgentAdvertisement::parse(&written), Ok(Some(read)));
}

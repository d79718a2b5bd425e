//! Questions to the kernel that it answers at once.

use std::io;

use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

/// How often an interface has lost its link since it exists, if the kernel tells.
pub fn link_losses(name: &str) -> Option<u32> {
    let index = nix::net::if_::if_nametoindex(name).ok()?;
    let link = link(&open().ok()?, index).ok()?;
    let mut attributes = link.attributes.into_iter();
    attributes.find_map(|attribute| match attribute {
        LinkAttribute::CarrierDownCount(count) => Some(count),
        _ => None,
    })
}

/// Octets of an answer at most: those that we ask for have a few thousand.
const ANSWER: usize = 32 << 10;

pub(super) fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

pub(super) fn link(socket: &Socket, index: u32) -> io::Result<LinkMessage> {
    let mut request = LinkMessage::default();
    request.header.index = index;
    let less = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    request.attributes.push(less);
    match ask(socket, RouteNetlinkMessage::GetLink(request))? {
        RouteNetlinkMessage::NewLink(link) => Ok(link),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends one question and returns its answer.
pub(super) fn ask(
    socket: &Socket,
    question: RouteNetlinkMessage,
) -> io::Result<RouteNetlinkMessage> {
    let mut message = NetlinkMessage::from(question);
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    socket.send(&octets, 0)?;
    let mut answer = Vec::with_capacity(ANSWER);
    socket.recv(&mut answer, 0)?;
    let answer = NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(answer) => Ok(answer),
        NetlinkPayload::Error(fault) => Err(fault.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

//! SOCKS version 5 (RFC 1928), and its sub-negotiation of a user's name and password (RFC 1929).
//!
//! These messages come in a stream: [`Malformed::Truncated`] means that octets are still missing.
//! The first octet is checked first, so what is no SOCKS is refused at once. Left out: GSS-API, and
//! the header of relayed datagrams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::codec::{Malformed, Reader, Writer};

/// Octets of the longest message of a client: a name and a password of 255 octets each.
pub const MESSAGE_MAX: usize = 513;

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const ATYP_V4: u8 = 1;
const ATYP_NAME: u8 = 3;
const ATYP_V6: u8 = 4;

/// How a client may authenticate (RFC 1928 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// 0: not at all.
    None,
    /// 2: by name and password.
    Password,
    /// 255: no method is acceptable.
    Refused,
    /// Any other number.
    Other(u8),
}

numbered!(Method: u8 { None = 0, Password = 2, Refused = 255 });

/// The first message: the methods that the client offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// In its order.
    pub methods: Vec<Method>,
}

/// Name and password (RFC 1929 §2). It borrows the password, so that there is no copy to wipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login<'a> {
    /// 1 to 255 octets.
    pub name: &'a [u8],
    /// 1 to 255 octets.
    pub password: &'a [u8],
}

/// What a client asks for (RFC 1928 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// 1: a TCP connection.
    Connect,
    /// 2: wait for a TCP connection.
    Bind,
    /// 3: relay datagrams.
    Associate,
    /// Any other number.
    Other(u8),
}

numbered!(Command: u8 { Connect = 1, Bind = 2, Associate = 3 });

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address.
    Address(IpAddr),
    /// A name: 1 to 255 printable ASCII characters without space.
    Name(String),
}

/// A request (RFC 1928 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub command: Command,
    /// Where to.
    pub destination: Destination,
    /// Its port.
    pub port: u16,
}

/// The outcome of a request (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// 0
    Succeeded,
    /// 1: none of the others.
    Failed,
    /// 2: not allowed by the ruleset.
    NotAllowed,
    /// 3
    NetworkUnreachable,
    /// 4
    HostUnreachable,
    /// 5
    ConnectionRefused,
    /// 6
    TtlExpired,
    /// 7
    CommandNotSupported,
    /// 8
    AddressTypeNotSupported,
    /// Any other number.
    Other(u8),
}

numbered!(Outcome: u8 {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TtlExpired = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
});

impl Greeting {
    /// Reads it. What follows is left.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        version(reader, VERSION)?;
        let count = reader.u8("the number of methods")?;
        let methods = reader.take(count.into(), "the methods")?;
        let methods = methods.iter().copied().map(Method::from).collect();
        Ok(Self { methods })
    }

    /// Writes it. A message has no more than 255 methods: others are left out.
    pub fn to_vec(&self) -> Vec<u8> {
        let methods = &self.methods[..self.methods.len().min(255)];
        let head = [VERSION, methods.len() as u8];
        let methods = methods.iter().map(|method| method.number());
        head.into_iter().chain(methods).collect()
    }
}

impl Method {
    /// The answer to a greeting.
    pub fn to_vec(self) -> Vec<u8> {
        vec![VERSION, self.number()]
    }
}

impl<'a> Login<'a> {
    /// Reads it. What follows is left.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        version(reader, LOGIN_VERSION)?;
        let mut field = |what| match reader.u8(what)? {
            0 => Err(Malformed::Length(what)),
            len => reader.take(len.into(), what),
        };
        let (name, password) = (field("the name")?, field("the password")?);
        Ok(Self { name, password })
    }

    /// Writes it. `None`: a field has not 1 to 255 octets.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        let mut octets = vec![LOGIN_VERSION];
        for field in [self.name, self.password] {
            octets.push(u8::try_from(field.len()).ok().filter(|len| *len > 0)?);
            octets.extend_from_slice(field);
        }
        Some(octets)
    }

    /// The answer to it.
    pub fn answer(is_right: bool) -> Vec<u8> {
        vec![LOGIN_VERSION, u8::from(!is_right)]
    }
}

impl Request {
    /// Reads it. What follows is left.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        version(reader, VERSION)?;
        let command = Command::from(reader.u8("the command")?);
        // RFC 1928 §4: reserved, and must be zero.
        if reader.u8("the reserved octet")? != 0 {
            return Err(Malformed::Value("the reserved octet"));
        }
        let destination = match reader.u8("the address type")? {
            ATYP_V4 => Destination::Address(v4(reader)?.into()),
            ATYP_V6 => Destination::Address(v6(reader)?.into()),
            ATYP_NAME => Destination::Name(name(reader)?),
            _ => return Err(Malformed::Value("the address type")),
        };
        let port = reader.u16("the port")?;
        Ok(Self {
            command,
            destination,
            port,
        })
    }

    /// Writes it. `None`: the name has not 1 to 255 octets.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        let mut writer = Writer::new();
        writer.bytes(&[VERSION, self.command.number(), 0]);
        match &self.destination {
            Destination::Address(address) => put_address(&mut writer, *address),
            Destination::Name(name) => {
                let len = u8::try_from(name.len()).ok().filter(|len| *len > 0)?;
                writer.bytes(&[ATYP_NAME, len]);
                writer.bytes(name.as_bytes());
            }
        }
        writer.u16(self.port);
        Some(writer.into_vec())
    }
}

impl Outcome {
    /// The answer to a request; `bound` is the address from which we connect.
    pub fn answer(self, bound: SocketAddr) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.bytes(&[VERSION, self.number(), 0]);
        put_address(&mut writer, bound.ip());
        writer.u16(bound.port());
        writer.into_vec()
    }
}

fn version(reader: &mut Reader<'_>, wanted: u8) -> Result<(), Malformed> {
    match reader.u8("the version")? {
        found if found == wanted => Ok(()),
        _ => Err(Malformed::Value("the version")),
    }
}

fn v4(reader: &mut Reader<'_>) -> Result<Ipv4Addr, Malformed> {
    reader.array::<4>("the address").map(Ipv4Addr::from)
}

fn v6(reader: &mut Reader<'_>) -> Result<Ipv6Addr, Malformed> {
    reader.array::<16>("the address").map(Ipv6Addr::from)
}

fn name(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let len = reader.u8("the name")?;
    let octets = reader.take(len.into(), "the name")?;
    if octets.is_empty() || !octets.iter().all(u8::is_ascii_graphic) {
        return Err(Malformed::Value("the name"));
    }
    Ok(octets.iter().map(|octet| char::from(*octet)).collect())
}

fn put_address(writer: &mut Writer, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            writer.u8(ATYP_V4);
            writer.bytes(&address.octets());
        }
        IpAddr::V6(address) => {
            writer.u8(ATYP_V6);
            writer.bytes(&address.octets());
        }
    }
}

#[cfg(test)]
mod tests;

//! The script of an input: a list of steps, parsed leniently so that mutations stay scripts, and
//! written by the program that makes seeds.

/// Steps of one input at most.
const MAX_OPS: usize = 64;

/// One step.
#[derive(Clone, Debug)]
pub enum Op {
    /// A datagram of arbitrary octets; see [`crate::responder::world::path`] for `from`.
    Datagram { from: u8, octets: Vec<u8> },
    /// Time passes, in tens of milliseconds.
    Wait(u16),
    /// A peer that holds keys begins phase 1: bit 0 of `kind` is aggressive mode, bit 1 RSA.
    Begin { kind: u8, from: u8 },
    /// It sends main mode's third message.
    Exchange { peer: u8 },
    /// It sends its encrypted proof: payloads, the first of this kind. Hashes and signatures in
    /// them are made correct unless bit 0 of `flags` is set; bit 1: unencrypted.
    Prove { peer: u8, sealed: Sealed },
    /// It sends encrypted payloads with the HASH of phase 2; bit 0 of `flags`: a wrong hash.
    Phase2 {
        peer: u8,
        exchange: u8,
        id: u8,
        sealed: Sealed,
    },
    /// The gateway's own side does something.
    Order { what: u8 },
    /// The last datagram of a peer is repeated, perhaps from another address.
    Again { peer: u8, from: u8 },
    /// The last datagram to a peer returns to its sender.
    Reflect { peer: u8 },
}

/// Encrypted payloads, the first of this kind. The meaning of `flags` depends on the step.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// See [`Op`].
    pub flags: u8,
    /// A payload's number.
    pub first: u8,
    /// Its octets, and those after it.
    pub chain: Vec<u8>,
}

/// Reads up to the end of the input or [`MAX_OPS`].
pub fn read(input: &[u8]) -> Vec<Op> {
    let mut rest = input;
    let mut ops = Vec::new();
    while ops.len() < MAX_OPS
        && let Some(op) = one(&mut rest)
    {
        ops.push(op);
    }
    ops
}

/// Writes the form that [`read`] reads.
pub fn write(ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    let long = |out: &mut Vec<u8>, octets: &[u8]| {
        let len = u16::try_from(octets.len()).expect("a datagram");
        out.extend(len.to_be_bytes());
        out.extend(octets);
    };
    for op in ops {
        match op {
            Op::Datagram { from, octets } => {
                out.extend([0, *from]);
                long(&mut out, octets);
            }
            Op::Wait(span) => {
                out.push(1);
                out.extend(span.to_be_bytes());
            }
            Op::Begin { kind, from } => out.extend([2, *kind, *from]),
            Op::Exchange { peer } => out.extend([3, *peer]),
            Op::Prove { peer, sealed } => {
                out.extend([4, *peer, sealed.flags, sealed.first]);
                long(&mut out, &sealed.chain);
            }
            Op::Phase2 {
                peer,
                exchange,
                id,
                sealed,
            } => {
                out.extend([5, *peer, *exchange, *id, sealed.flags, sealed.first]);
                long(&mut out, &sealed.chain);
            }
            Op::Order { what } => out.extend([6, *what]),
            Op::Again { peer, from } => out.extend([7, *peer, *from]),
            Op::Reflect { peer } => out.extend([8, *peer]),
        }
    }
    out
}

fn one(rest: &mut &[u8]) -> Option<Op> {
    Some(match octet(rest)? % 9 {
        0 => Op::Datagram {
            from: octet(rest)?,
            octets: long(rest)?,
        },
        1 => Op::Wait(u16::from_be_bytes([octet(rest)?, octet(rest)?])),
        2 => Op::Begin {
            kind: octet(rest)?,
            from: octet(rest)?,
        },
        3 => Op::Exchange { peer: octet(rest)? },
        4 => Op::Prove {
            peer: octet(rest)?,
            sealed: sealed(rest)?,
        },
        5 => Op::Phase2 {
            peer: octet(rest)?,
            exchange: octet(rest)?,
            id: octet(rest)?,
            sealed: sealed(rest)?,
        },
        6 => Op::Order { what: octet(rest)? },
        7 => Op::Again {
            peer: octet(rest)?,
            from: octet(rest)?,
        },
        _ => Op::Reflect { peer: octet(rest)? },
    })
}

fn sealed(rest: &mut &[u8]) -> Option<Sealed> {
    Some(Sealed {
        flags: octet(rest)?,
        first: octet(rest)?,
        chain: long(rest)?,
    })
}

fn octet(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

/// A length that is too long takes the rest.
fn long(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes([octet(rest)?, octet(rest)?]));
    let (octets, after) = rest.split_at(len.min(rest.len()));
    *rest = after;
    Some(octets.to_vec())
}

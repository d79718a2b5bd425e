//! What the shared secret proves and hides in packets: authenticators and keys.
//!
//! The secret proves by MD5 and HMAC-MD5, which is all that these documents have. Everything that
//! is compared is compared in constant time.

use std::sync::Arc;

use crypto::hash::{Hash, is_equal};
use wire::eap::{Eap, EapCode};
use wire::radius::{
    ATTRIBUTE_HEAD_LEN, AUTHENTICATOR_LEN, Attribute, Code, HEAD_LEN, Kind, MICROSOFT,
    MPPE_RECV_KEY, MPPE_SEND_KEY, Packet, VIRTUAL_PORT,
};
use zeroize::{Zeroize, Zeroizing};

use super::{Open, Server, Verdict};
use crate::counters::DropReason;
use crate::sa::Secret;
use crate::time::Duration;

/// Octets of MSK (RFC 3748 §7.10).
const KEY_LEN: usize = 64;
/// Octets of each half of it at least. MSCHAPv2's are the shortest.
const MIN_HALF_LEN: usize = 16;
/// Octets of the salt before an encrypted key.
const SALT_LEN: usize = 2;
/// Octets before the attributes that an authenticator does not replace.
const AUTHENTICATOR_AT: usize = 4;
/// The longest packet of EAP that a server should send: it fits into an IKE message that nobody
/// splits.
const MTU: u32 = 1_100;

/// The request for an open question, with a Message-Authenticator as its first attribute.
pub(super) fn request(open: &Open, nas_identifier: &str) -> Vec<u8> {
    let question = &open.question;
    let blank = [0; AUTHENTICATOR_LEN];
    let peer = question.peer.to_string();
    let mut attributes = Vec::new();
    let texts: [(Kind, &[u8]); 4] = [
        (Kind::MessageAuthenticator, &blank),
        (Kind::UserName, &question.user),
        (Kind::NasIdentifier, nas_identifier.as_bytes()),
        (Kind::CallingStationId, peer.as_bytes()),
    ];
    for (kind, octets) in texts {
        attributes.extend(Attribute::of_octets(kind, octets));
    }
    attributes.push(Attribute::of_number(Kind::NasPortType, VIRTUAL_PORT));
    attributes.push(Attribute::of_number(Kind::FramedMtu, MTU));
    attributes.extend(Attribute::of_eap(question.eap.octets()));
    let state = question.state.as_deref().unwrap_or_default();
    attributes.extend(Attribute::of_octets(Kind::State, state));
    let packet = Packet {
        code: Code::AccessRequest,
        id: open.id,
        authenticator: open.authenticator,
        attributes,
    };
    let mut octets = packet.to_vec();
    let mac = Hash::Md5.hmac(&open.server.secret.0, &[&octets]);
    let at = HEAD_LEN + ATTRIBUTE_HEAD_LEN;
    octets[at..at + AUTHENTICATOR_LEN].copy_from_slice(mac.as_ref());
    octets
}

/// Whether the secret has made a response to the request with this authenticator: by its one
/// Message-Authenticator (RFC 3579 §3.2), and by its Response Authenticator (RFC 2865 §3).
pub(super) fn check(
    octets: &[u8],
    packet: &Packet,
    asked: &[u8; AUTHENTICATOR_LEN],
    secret: &Secret,
) -> Result<(), DropReason> {
    let mut at = HEAD_LEN;
    let mut found = None;
    for attribute in &packet.attributes {
        let value = at + ATTRIBUTE_HEAD_LEN..at + ATTRIBUTE_HEAD_LEN + attribute.value.len();
        at = value.end;
        if attribute.kind == Kind::MessageAuthenticator {
            if found.is_some() || value.len() != AUTHENTICATOR_LEN {
                return Err(DropReason::RadiusMalformed);
            }
            found = Some(value);
        }
    }
    let place = found.ok_or(DropReason::RadiusUnsigned)?;
    let (head, tail) = (&octets[..AUTHENTICATOR_AT], &octets[HEAD_LEN..]);
    let mut blank = octets.to_vec();
    blank[AUTHENTICATOR_AT..HEAD_LEN].copy_from_slice(asked);
    blank[place.clone()].fill(0);
    let mac = Hash::Md5.hmac(&secret.0, &[&blank]);
    let whole = Hash::Md5.digest(&[head, asked, tail, &secret.0]);
    let is_genuine =
        is_equal(mac.as_ref(), &octets[place]) && is_equal(whole.as_ref(), &packet.authenticator);
    is_genuine.then_some(()).ok_or(DropReason::RadiusForged)
}

/// What a genuine response says.
pub(super) fn verdict(
    packet: &Packet,
    asked: &[u8; AUTHENTICATOR_LEN],
    server: &Arc<Server>,
) -> Verdict {
    let octets = |kind| packet.all(kind).next().map(<[u8]>::to_vec);
    let eap = Eap::parse(&packet.eap()).ok();
    let of = |code| eap.clone().filter(|it| it.code() == code);
    let unusable = |what: &str| {
        let address = server.address;
        Verdict::Failed(format!("the RADIUS server {address} {what}"))
    };
    match packet.code {
        Code::AccessChallenge => match of(EapCode::Request) {
            Some(eap) => Verdict::Challenge {
                eap,
                state: octets(Kind::State),
                server: Arc::clone(server),
            },
            None => unusable("asks on without a request of EAP"),
        },
        Code::AccessAccept => match of(EapCode::Success) {
            Some(eap) => Verdict::Accept {
                eap,
                user: octets(Kind::UserName),
                key: key(packet, asked, &server.secret),
                lasts: lasts(packet),
            },
            None => unusable("accepts the peer without a success of EAP"),
        },
        _ => Verdict::Reject {
            eap: of(EapCode::Failure),
            server: server.address,
        },
    }
}

/// Session-Timeout (RFC 2865 §5.27). Zero seconds would be no session, and is no limit.
fn lasts(packet: &Packet) -> Option<Duration> {
    let seconds = packet.number(Kind::SessionTimeout)?;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// MSK: what the server receives with, then what it sends with (RFC 2548 §2.4.2, §2.4.3). Zeros
/// follow where a method has less, as MSCHAPv2 has.
fn key(packet: &Packet, asked: &[u8; AUTHENTICATOR_LEN], secret: &Secret) -> Option<Secret> {
    let half = |kind| {
        let clear = decrypt(packet.of_vendor(MICROSOFT, kind)?, asked, secret)?;
        (MIN_HALF_LEN..=KEY_LEN / 2)
            .contains(&clear.len())
            .then_some(clear)
    };
    let (receive, send) = (half(MPPE_RECV_KEY)?, half(MPPE_SEND_KEY)?);
    let mut key = Vec::with_capacity(KEY_LEN);
    key.extend_from_slice(&receive);
    key.extend_from_slice(&send);
    key.resize(KEY_LEN, 0);
    Some(Secret(key))
}

/// A key under the secret: a salt, then blocks. The first octet of the clear text is the length.
pub(super) fn decrypt(
    value: &[u8],
    asked: &[u8; AUTHENTICATOR_LEN],
    secret: &Secret,
) -> Option<Zeroizing<Vec<u8>>> {
    let (salt, blocks) = value.split_at_checked(SALT_LEN)?;
    if blocks.is_empty() || !blocks.len().is_multiple_of(AUTHENTICATOR_LEN) {
        return None;
    }
    let mut clear = Zeroizing::new(Vec::with_capacity(blocks.len()));
    let mut before = [&asked[..], salt].concat();
    for block in blocks.chunks_exact(AUTHENTICATOR_LEN) {
        let mut pad = [0; AUTHENTICATOR_LEN];
        pad.copy_from_slice(Hash::Md5.digest(&[&secret.0, &before]).as_ref());
        clear.extend(block.iter().zip(pad).map(|(one, other)| one ^ other));
        pad.zeroize();
        before = block.to_vec();
    }
    let len = usize::from(clear[0]);
    let key = clear.get(1..=len)?;
    Some(Zeroizing::new(key.to_vec()))
}

//! EAPOL-Key packets with their MIC.

use crypto::hash::is_equal;
use wire::codec::Writer;
use wire::ieee80211::{
    Descriptor, EAPOL_LEN, Eapol, KeyFrame, MIC_LEN, NONCE_LEN, PacketType, key_information,
};

use super::keys::{Setting, TransientKey};
use crate::counters::DropReason;
use crate::work::Work;

/// The version that stations of 2004 and later send.
const EAPOL_VERSION: u8 = 2;

/// A frame without nonce, key data and MIC.
pub(super) fn frame(setting: &Setting, information: u16, replay_counter: u64) -> KeyFrame<'static> {
    KeyFrame {
        descriptor: Descriptor::Ieee80211,
        information: information | setting.version(),
        key_length: 0,
        replay_counter,
        nonce: [0; NONCE_LEN],
        iv: [0; 16],
        receive_sequence: [0; 8],
        mic: [0; MIC_LEN],
        data: &[],
    }
}

/// The EAPOL packet of a frame.
pub(super) fn packet(frame: &KeyFrame<'_>) -> Vec<u8> {
    let mut body = Writer::new();
    frame.write(&mut body);
    let mut w = Writer::new();
    let eapol = Eapol {
        version: EAPOL_VERSION,
        kind: PacketType::Key,
        body: body.as_slice(),
    };
    eapol.write(&mut w);
    w.into_vec()
}

/// The EAPOL packet of a frame, with its MIC.
pub(super) fn signed(frame: &KeyFrame<'_>, key: &TransientKey, work: &mut Work) -> Vec<u8> {
    let mut packet = packet(frame);
    let mic = key.mic(&packet, work);
    packet[KeyFrame::MIC_AT].copy_from_slice(&mic);
    packet
}

/// Whether an EAPOL packet is one of a handshake with a MIC, right or wrong.
pub fn is_signed(packet: &[u8]) -> bool {
    let frame = Eapol::parse(packet).map(|eapol| KeyFrame::parse(eapol.body));
    frame.is_ok_and(|frame| frame.is_ok_and(|it| it.has(key_information::MIC)))
}

/// A packet that was read.
pub(super) struct Received<'a> {
    pub(super) frame: KeyFrame<'a>,
    /// Without the padding of Ethernet.
    packet: &'a [u8],
}

impl<'a> Received<'a> {
    /// Reads a packet of a handshake with these functions.
    pub(super) fn read(packet: &'a [u8], setting: &Setting) -> Result<Self, DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        let eapol = Eapol::parse(packet).map_err(malformed)?;
        if eapol.kind != PacketType::Key {
            return Err(DropReason::UnexpectedMessage);
        }
        let frame = KeyFrame::parse(eapol.body).map_err(malformed)?;
        let is_ours = frame.descriptor == Descriptor::Ieee80211
            && frame.version() == setting.version()
            && !frame.has(key_information::REQUEST);
        if !is_ours {
            return Err(DropReason::UnexpectedMessage);
        }
        let packet = &packet[..EAPOL_LEN + eapol.body.len()];
        Ok(Self { frame, packet })
    }

    /// Checks the MIC.
    pub(super) fn verify(&self, key: &TransientKey, work: &mut Work) -> Result<(), DropReason> {
        let mut zeroed = self.packet.to_vec();
        zeroed[KeyFrame::MIC_AT].fill(0);
        match is_equal(&key.mic(&zeroed, work), &self.frame.mic) {
            true => Ok(()),
            false => Err(DropReason::BadHash),
        }
    }
}

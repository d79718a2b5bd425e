//! Frames of IEEE 802.11-2020 as a wireless link carries them, and EAPOL of IEEE 802.1X-2020.
//!
//! Data frames and the management frames by which stations join have three addresses; frames
//! between access points, with four, are refused. The frame check sequence is the radio's, so
//! frames end before it. Left out: fragments, aggregation, control frames, fast transition
//! (802.11r).

mod address;
mod auth;
mod eapol;
mod elements;
mod header;
mod iv;
mod kde;
mod key_frame;
mod llc;
mod management;
mod rc4_key;
mod rsn;

pub use address::Address;
pub use auth::{Authentication, CommitParts, SAE_ALGORITHM, sae_status};
pub use eapol::{EAPOL_LEN, ETHERTYPE_EAPOL, Eapol, PacketType};
pub use elements::{Element, Elements, element_id, extension, write_extension};
pub use header::{Direction, Header, MAX_HEADER_LEN, control};
pub use iv::{EXTENDED_IV_LEN, ExtendedIv, WEP_IV_LEN, WepIv};
pub use kde::{Gtk, KeyData, KeyDatum, pad_key_data, write_gtk, write_pmkid};
pub use key_frame::{Descriptor, KEY_FRAME_LEN, KeyFrame, MIC_LEN, NONCE_LEN, key_information};
pub use llc::{ETHERNET_LEN, EthernetHeader, SNAP_LEN, snap};
pub use management::{
    AssociationRequest, AssociationResponse, Beacon, OPEN_ALGORITHM, capability, find_element,
    find_extension, read_comeback, read_reason, reason, status, write_comeback,
    write_diffie_hellman, write_rates, write_ssid,
};
pub use rc4_key::{RC4_KEY_LEN, Rc4KeyFrame};
pub use rsn::{AkmSuite, CipherSuite, Rsn};

#[cfg(test)]
mod tests;

//! Where the parts of a packet are, and what of its outer header is authenticated.

use wire::ip::ipv4;
use wire::skip::{
    AH_FIXED_LEN, Algorithms, CryptAlg, ESP_SPI_LEN, MAX_LEN, Nsid, SkipHeader, TRAILER_LEN,
    padding,
};

/// Octets of the longest IPv4 header.
pub(super) const MAX_IP_LEN: usize = 60;
/// Octets of skip-x25519's sequence number, in the place of the IV.
pub(super) const SEQUENCE_LEN: usize = 8;
/// Octets of what AES-GCM-SIV authenticates besides the text: IP and SKIP header, SPI, sequence
/// number.
pub(super) const MAX_ASSOCIATED_LEN: usize = MAX_IP_LEN + MAX_LEN + ESP_SPI_LEN + SEQUENCE_LEN;

/// How long the IV of a block cipher is on the wire (RFC 1829 §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IvLen {
    /// 4 octets; the other half of the block is their complement.
    Short,
    /// A whole block. The default.
    #[default]
    Whole,
}

/// Sizes of the parts behind the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// SKIP header.
    pub(super) skip: usize,
    /// AH, 0 without.
    pub(super) ah: usize,
    /// SPI and IV or sequence number, 0 without ESP.
    pub(super) esp: usize,
    /// What the encrypted text is a multiple of.
    pub(super) block: usize,
    /// Behind the text.
    pub(super) tag: usize,
}

impl Layout {
    /// With these algorithms, between names of these spaces.
    pub fn new(algorithms: Algorithms, names: [Nsid; 2], iv_len: IvLen) -> Self {
        let data = algorithms.mac().data_len();
        Self {
            skip: SkipHeader::header_len(algorithms, names[0], names[1]),
            ah: if data > 0 { AH_FIXED_LEN + data } else { 0 },
            esp: match algorithms.crypt() {
                CryptAlg::None => 0,
                _ => ESP_SPI_LEN + len_of_iv(algorithms, iv_len),
            },
            block: algorithms.crypt().block_len(),
            tag: match algorithms.crypt() {
                CryptAlg::AesGcmSiv => crypto::aead::ICV_LEN,
                _ => 0,
            },
        }
    }

    /// Octets on the wire, from the outer IP header on, of a packet of `packet` octets.
    pub fn wire_bytes(&self, packet: usize) -> usize {
        ipv4::HEADER_LEN + self.sealed(packet)
    }

    /// Octets between the end of the outer IP header and the clear text.
    pub fn clear_at(&self) -> usize {
        self.skip + self.ah + self.esp
    }

    /// Octets of everything behind the outer IP header.
    pub fn sealed(&self, clear: usize) -> usize {
        self.clear_at() + self.text(clear) + self.tag
    }

    /// Octets of clear text, padding and trailer.
    pub(super) fn text(&self, clear: usize) -> usize {
        match self.esp {
            0 => clear,
            _ => clear + padding(clear, self.block) + TRAILER_LEN,
        }
    }

    /// Most clear text for which [`Self::sealed`] is not over `room`. None if not even an empty
    /// one fits.
    pub fn largest_clear(&self, room: usize) -> Option<usize> {
        let text = room.checked_sub(self.clear_at() + self.tag)?;
        match self.esp {
            0 => Some(text),
            _ => (text - text % self.block).checked_sub(TRAILER_LEN),
        }
    }
}

fn len_of_iv(algorithms: Algorithms, iv_len: IvLen) -> usize {
    match (algorithms.crypt(), iv_len) {
        (CryptAlg::None | CryptAlg::Rc4, _) => 0,
        (CryptAlg::AesGcmSiv, _) => SEQUENCE_LEN,
        (_, IvLen::Short) => 4,
        (_, IvLen::Whole) => 8,
    }
}

/// The block that an IV on the wire stands for (RFC 1829 §2). RC4 has none.
pub(super) fn whole_iv(iv: &[u8]) -> [u8; 8] {
    match *iv {
        [a, b, c, d] => [a, b, c, d, !a, !b, !c, !d],
        _ => iv.try_into().unwrap_or([0; 8]),
    }
}

/// A copy of the IPv4 header at the start of a packet, as it is authenticated: TTL and checksum are
/// zero (RFC 1826 §4). With AES-GCM-SIV also what RFC 4302 §3.3.3.1.1 calls mutable: the type of
/// service, flags and fragment offset. `len` is at most [`MAX_IP_LEN`].
pub(super) fn covered_header(
    packet: &[u8],
    len: usize,
    algorithms: Algorithms,
) -> ([u8; MAX_IP_LEN], usize) {
    let mut header = [0; MAX_IP_LEN];
    header[..len].copy_from_slice(&packet[..len]);
    header[8] = 0;
    header[10..12].fill(0);
    if algorithms == Algorithms::HKDF_AES_GCM_SIV {
        header[1] = 0;
        header[6..8].fill(0);
    }
    (header, len)
}

/// The slices one after the other, at the start of `room`.
pub(super) fn concat<'a>(room: &'a mut [u8], slices: &[&[u8]]) -> &'a [u8] {
    let mut len = 0;
    for slice in slices {
        room[len..len + slice.len()].copy_from_slice(slice);
        len += slice.len();
    }
    &room[..len]
}

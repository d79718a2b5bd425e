//! TKIP (IEEE 802.11-2020 §12.5.2): a fresh RC4 key for each packet, mixed from temporal key,
//! transmitter and packet number, and Michael as a MIC. Legacy: the MIC has a strength of about 20
//! bits, which countermeasures of the engine make up for.

mod michael;
mod mixing;

use zeroize::Zeroizing;

use crate::aead::BadIcv;
use crate::wep;
use mixing::{Mixed, mix_packet, mix_transmitter};

pub use michael::{MIC_LEN, MichaelKey};

/// Octets of the temporal key without its two MIC keys.
pub const TEMPORAL_KEY_LEN: usize = 16;
/// Octets of a whole TKIP key: temporal key, MIC key of the authenticator, of the supplicant.
pub const KEY_LEN: usize = 32;

/// A temporal key for one transmitter, wiped on drop. The first phase of the mixing is kept, as it
/// changes only every 65,536 packets.
pub struct TkipKey {
    temporal: Zeroizing<[u8; TEMPORAL_KEY_LEN]>,
    transmitter: [u8; 6],
    mixed: Option<(u32, Mixed)>,
}

impl TkipKey {
    /// A key for packets of this transmitter.
    pub fn new(temporal: &[u8; TEMPORAL_KEY_LEN], transmitter: [u8; 6]) -> Self {
        Self {
            temporal: Zeroizing::new(*temporal),
            transmitter,
            mixed: None,
        }
    }

    /// Writes the ICV to the last four octets of `data`, behind the MIC, and encrypts all in place.
    /// Use each packet number, of 48 bits, only once. Panics if `data` has fewer octets.
    pub fn seal(&mut self, number: u64, data: &mut [u8]) {
        let seed = self.seed(number);
        wep::seal(&seed[..], data);
    }

    /// Decrypts `sealed` in place and checks the ICV, its last four octets. Only the MIC says
    /// whether the packet is authentic.
    pub fn open(&mut self, number: u64, sealed: &mut [u8]) -> Result<(), BadIcv> {
        let seed = self.seed(number);
        wep::open(&seed[..], sealed)
    }

    fn seed(&mut self, number: u64) -> Zeroizing<[u8; 16]> {
        let (high, low) = ((number >> 16) as u32, number as u16);
        let mixed = match &self.mixed {
            Some((of, mixed)) if *of == high => mixed.clone(),
            _ => {
                let mixed = mix_transmitter(&self.temporal, self.transmitter, high);
                self.mixed = Some((high, mixed.clone()));
                mixed
            }
        };
        mix_packet(&mixed, &self.temporal, low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// P802.11i/D7.0 annex I.7.3, also IEEE 802.11-2012 annex M.6.3.
    #[test]
    fn tkip_is_as_published() {
        let temporal = hex("12345678901234567890123456789012").try_into().unwrap();
        let transmitter = [2, 3, 4, 5, 6, 7];
        let mixed = mix_transmitter(&temporal, transmitter, 0);
        let words: Vec<u8> = mixed.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(words, hex("bb58071f9e93b438254b"));
        let seed = mix_packet(&mixed, &temporal, 1);
        assert_eq!(seed[..], hex("0020014cfe67bed27c867b1bf8028b1c"));

        let body = hex(
            "aaaa030000000800450000540000400040 01a555c0a80a02c0a80a0108003ab0\
             00000000cd4c05000000000008090a0b0c0d0e0f101112131415161718191a1b\
             1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
        );
        let mic_key = MichaelKey::new(&hex("3456789012345678").try_into().unwrap());
        let mic = mic_key.sign([2, 3, 4, 5, 6, 8], transmitter, 0, &body);
        assert_eq!(mic[..], hex("6881a3f3d648d03c"));
        let mut data = [body.as_slice(), &mic, &[0; 4]].concat();
        let mut key = TkipKey::new(&temporal, transmitter);
        key.seal(1, &mut data);
        let sealed = hex(
            "c00e14fce7cfabc77547e666e57c0dac704a1e358a88c11c8e2e282e3801027a\
             4656055ee93e9c254702e9735805ddb5769ba73f1ebb56e844ef912285d3dd6e\
             541e82387355 8adba079068abd7f7f50959675acc4b4de9aa99c05f289a7c52f\
             ee5bfc14f6f8e5f8",
        );
        assert_eq!(data, sealed);
        assert_eq!(key.open(2, &mut sealed.clone()), Err(BadIcv));
        assert_eq!(key.open(1 << 16 | 1, &mut sealed.clone()), Err(BadIcv));
        assert_eq!(key.open(1, &mut data), Ok(()));
        assert_eq!(data[..body.len()], body);
    }
}

//! What is counted, so that the lab can price it.

use super::*;

#[test]
fn both_halves_count_what_they_do() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    for _ in 0..10 {
        pair.pass(&[0; 1_006], MID_HOUR);
    }
    let kij = KijAlg::TripleDes;
    // A text of 1,008 octets, 126 blocks of DES. A packet of 20 + 68 + 1,008. K_ijn is 2 calls of
    // MD5 over 37 octets, E_kp and A_kp are 4 over 18.
    let expected = [
        (Task::DeriveSkipKey(kij), 6, 2 * 37 + 4 * 18),
        (Task::WrapPacketKey(kij), 1, 16),
        (Task::SkipCipher(CryptAlg::Des), 10, 10_080),
        (Task::SkipMac(MacAlg::Md5), 10, 10_960),
    ];
    assert_eq!(pair.sealer.work().entries(), expected);
    assert_eq!(pair.opener.work().entries(), expected);
}

/// A forged packet costs a key and a MAC, and no decryption.
#[test]
fn a_forged_packet_is_not_decrypted() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    let mut packet = pair.seal(b"text", MID_HOUR).unwrap();
    *packet.last_mut().unwrap() ^= 1;
    assert_eq!(pair.open(&packet, MID_HOUR), Err(DropReason::BadIcv));
    let entries = pair.opener.work().entries();
    let is_cipher = |entry: &&(Task, u64, u64)| matches!(entry.0, Task::SkipCipher(_));
    assert_eq!(entries.iter().find(is_cipher), None);
    assert!(
        entries
            .iter()
            .any(|entry| entry.0 == Task::SkipMac(MacAlg::Md5))
    );
}

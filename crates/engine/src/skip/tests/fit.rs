//! Which parts fit, how strong they are, and which rules a profile breaks.

use super::*;

fn unfit(profile: Profile, algorithms: Algorithms) -> Option<Unfit> {
    let [mobile, _] = parts_of(profile, algorithms);
    Association::new(mobile).err()
}

/// The draft: the wrapping key may not be weaker than the wrapped one.
#[test]
fn the_draft_wants_3des_for_keys_of_128_bits() {
    for choice in every_choice() {
        let is_own = choice == Algorithms::HKDF_AES_GCM_SIV;
        let is_weak = choice.kij() == KijAlg::Des
            && (matches!(choice.mac(), MacAlg::Md5 | MacAlg::Sha)
                || !matches!(choice.crypt(), CryptAlg::None | CryptAlg::Des));
        let expected = match (is_own, is_weak) {
            (true, _) => Some(Unfit::OtherAlgorithms(Profile::Draft)),
            (false, true) => Some(Unfit::WeakWrapping {
                packet_key_bits: 8 * choice.packet_key_len(),
            }),
            (false, false) => None,
        };
        assert_eq!(unfit(Profile::Draft, choice), expected, "{choice:?}");
        let rules = Profile::Paper.broken_rules(choice);
        let names_it = rules.iter().any(|rule| rule.starts_with("DES encrypts"));
        assert_eq!(names_it, is_weak);
        assert_eq!(rules.len(), 2 + usize::from(is_weak));
        assert!(Profile::Draft.broken_rules(choice).is_empty());
    }
}

#[test]
fn the_paper_wants_a_mac() {
    for choice in every_choice() {
        let expected = match (choice, choice.mac()) {
            (Algorithms::HKDF_AES_GCM_SIV, _) => Some(Unfit::OtherAlgorithms(Profile::Paper)),
            (_, MacAlg::None) => Some(Unfit::NoMac),
            _ => None,
        };
        assert_eq!(unfit(Profile::Paper, choice), expected, "{choice:?}");
    }
}

#[test]
fn skip_x25519_wants_its_algorithms_and_its_group() {
    let own = Algorithms::HKDF_AES_GCM_SIV;
    assert_eq!(unfit(Profile::X25519, own), None);
    let other = unfit(Profile::X25519, algorithms(DES_MD5));
    assert_eq!(other, Some(Unfit::OtherAlgorithms(Profile::X25519)));
    let [mut mobile, _] = parts_of(Profile::X25519, own);
    mobile.master = MasterKey::manual(&[1; 32]);
    assert_eq!(Association::new(mobile).err(), Some(Unfit::OtherGroup));
}

#[test]
fn two_ends_have_two_names() {
    let [mut mobile, _] = parts_of(Profile::Draft, algorithms(DES_MD5));
    mobile.remote = mobile.local;
    let same = Some(Unfit::SameName(mobile.local));
    assert_eq!(Association::new(mobile).err(), same);
}

#[test]
fn strength_is_that_of_the_weakest_link() {
    let strength = |profile, choice| {
        let [mobile, _] = parts_of(profile, choice);
        Association::new(mobile).unwrap().strength()
    };
    let des = strength(Profile::Draft, algorithms(DES_MD5));
    assert_eq!((des.crypt_bits, des.mac_bits), (Some(56), Some(128)));
    assert_eq!((des.kij_bits, des.group_bits), (112, Some(80)));
    assert_eq!(des.bits(), 56);
    let rc2 = algorithms((KijAlg::TripleDes, CryptAlg::Rc2, MacAlg::Md5));
    assert_eq!(strength(Profile::Draft, rc2).bits(), 80);
    let own = strength(Profile::X25519, Algorithms::HKDF_AES_GCM_SIV);
    assert_eq!(own.bits(), 128);
    let mut parts = parts_of(Profile::Draft, rc2)[0].clone();
    parts.master = MasterKey::manual(&[7; 32]);
    let manual = Association::new(parts).unwrap();
    assert_eq!(
        (manual.strength().group_bits, manual.strength().bits()),
        (None, 112)
    );
}

#[test]
fn only_skip_x25519_is_not_legacy_and_only_a_mac_authenticates() {
    for choice in every_fitting_choice() {
        let [mobile, _] = parts_of(profile_of(choice), choice);
        let association = Association::new(mobile).unwrap();
        let is_own = choice == Algorithms::HKDF_AES_GCM_SIV;
        assert_eq!(association.is_legacy(), !is_own);
        let has_mac = choice.mac() != MacAlg::None;
        assert_eq!(association.is_authenticated(), has_mac);
    }
    let names = Profile::ALL.map(Profile::name);
    assert_eq!(names, ["skip-draft", "skip-paper", "skip-x25519"]);
}

//! 802.11: headers, EAPOL-Key frames, elements, key data and SAE's commits that can be read are
//! rewritten to what reads equal, and nothing ends outside the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::codec::{Reader, Writer};
use wire::ieee80211::{
    AssociationRequest, AssociationResponse, Authentication, Beacon, CommitParts, EAPOL_LEN, Eapol,
    Elements, EthernetHeader, ExtendedIv, Header, KeyData, KeyFrame, Rc4KeyFrame, Rsn, WepIv,
    find_element, snap,
};

fuzz_target!(|octets: &[u8]| {
    if let Ok((header, len)) = Header::parse(octets) {
        assert_eq!(written(|w| header.write(w)), octets[..len]);
    }
    if let Ok(iv) = WepIv::read(&mut Reader::new(octets)) {
        assert_eq!(iv.octets()[..3], octets[..3]);
    }
    if let Ok(iv) = ExtendedIv::read(&mut Reader::new(octets)) {
        let again = ExtendedIv::read(&mut Reader::new(&iv.octets()));
        assert_eq!(again, Ok(iv));
    }
    if let Ok(iv) = ExtendedIv::read_tkip(&mut Reader::new(octets)) {
        let again = ExtendedIv::read_tkip(&mut Reader::new(&iv.tkip_octets()));
        assert_eq!(again, Ok(iv));
    }
    if let Ok(header) = EthernetHeader::read(&mut Reader::new(octets)) {
        assert_eq!(header.octets(), octets[..14]);
    }
    if let Ok(ethertype) = snap::read(&mut Reader::new(octets)) {
        assert_eq!(snap::octets(ethertype), octets[..8]);
    }
    if let Ok(eapol) = Eapol::parse(octets) {
        assert_eq!(
            written(|w| eapol.write(w)),
            octets[..EAPOL_LEN + eapol.body.len()]
        );
        keys(eapol.body);
    }
    keys(octets);
    if let Ok(rsn) = Rsn::parse(octets) {
        assert_eq!(Rsn::parse(&written(|w| rsn.write(w))[2..]), Ok(rsn));
    }
    let mut len = 0;
    for element in Elements::new(octets).flatten() {
        assert_eq!(
            written(|w| element.write(w)),
            octets[len..len + 2 + element.body.len()]
        );
        len += 2 + element.body.len();
    }
    assert!(KeyData::new(octets).count() <= octets.len());
    if let Ok(message) = Authentication::parse(octets) {
        assert_eq!(written(|w| message.write(w)), octets);
    }
    management(octets);
    for is_hash_to_element in [false, true] {
        if let Ok(parts) = CommitParts::parse(octets, is_hash_to_element)
            && parts.token.len() < 255
        {
            let again = written(|w| parts.write(is_hash_to_element, w));
            let read = CommitParts::parse(&again, is_hash_to_element);
            assert_eq!(read, Ok(parts));
        }
    }
});

fn management(body: &[u8]) {
    if let Ok(beacon) = Beacon::parse(body) {
        assert_eq!(written(|w| beacon.write(w)), body);
    }
    if let Ok(request) = AssociationRequest::parse(body) {
        assert_eq!(written(|w| request.write(w)), body);
    }
    if let Ok(response) = AssociationResponse::parse(body) {
        let again = written(|w| response.write(w));
        assert_eq!(AssociationResponse::parse(&again), Ok(response));
    }
    for id in 0..=u8::MAX {
        if let Some(found) = find_element(body, id) {
            assert_eq!((found[0], usize::from(found[1]) + 2), (id, found.len()));
        }
    }
}

fn keys(body: &[u8]) {
    if let Ok(frame) = KeyFrame::parse(body) {
        let again = written(|w| frame.write(w));
        assert_eq!(KeyFrame::parse(&again), Ok(frame));
    }
    if let Ok(frame) = Rc4KeyFrame::parse(body) {
        assert_eq!(written(|w| frame.write(w)), body);
    }
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    write(&mut w);
    w.into_vec()
}

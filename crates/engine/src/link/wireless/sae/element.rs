//! The password element: the point that stands for the password (IEEE 802.11-2020 §12.4.4.2).

use crypto::hash::{Hash, HmacKey, expand, extract};
use crypto::p256::{LEN, Point, Scalar, hash_to_point};
use crypto::prf::kdf;
use wire::ieee80211::Address;
use zeroize::Zeroizing;

use crate::work::{Task, Work};

/// How often hunting and pecking looks, found or not: an observer learns no count.
const ROUNDS: u8 = 40;
/// The length of numbers that become points: half as much again as the prime.
const NUMBER_LEN: usize = LEN + LEN / 2;
/// The prime, as the context of a KDF.
const PRIME: [u8; LEN] = {
    let mut prime = [0xff; LEN];
    let mut at = 4;
    while at < 20 {
        prime[at] = if at == 7 { 1 } else { 0 };
        at += 1;
    }
    prime
};

/// A password, wiped on drop.
#[derive(Clone)]
pub struct Password(Zeroizing<Vec<u8>>);

/// The point of a password in a network, from which hash-to-element makes the element of each
/// exchange. Owners keep it: it costs more than the exchange.
#[derive(Clone)]
pub struct PasswordToken(Zeroizing<[u8; 2 * LEN]>);

impl Password {
    /// Takes the octets of a password.
    pub fn new(password: &[u8]) -> Self {
        Self(Zeroizing::new(password.to_vec()))
    }

    /// The element by hunting and pecking, the method before hash-to-element. It takes equally many
    /// rounds for every password, but not equally many steps: its time may tell of the password.
    pub(super) fn hunt(&self, ends: [Address; 2], work: &mut Work) -> Point {
        let key = HmacKey::new(Hash::Sha256, &in_order(ends));
        let mut found = None;
        for counter in 1..=u8::MAX {
            work.count(Task::HashToPoint, LEN as u64);
            let seed = key.sign(&[&self.0, &[counter]]);
            let mut x = Zeroizing::new([0; LEN]);
            let label = "SAE Hunting and Pecking";
            kdf(Hash::Sha256, seed.as_ref(), label, &PRIME, &mut x[..]);
            let is_y_odd = seed.as_ref()[LEN - 1] & 1 == 1;
            let point = Point::of_x(&x, is_y_odd);
            found = found.or(point);
            if counter >= ROUNDS && found.is_some() {
                break;
            }
        }
        found.expect("half of all numbers are a coordinate of a point")
    }

    /// The point of the password in a network of this name. `identifier` names one of several
    /// passwords.
    pub fn token(&self, ssid: &[u8], identifier: &[u8], work: &mut Work) -> PasswordToken {
        let secret = Zeroizing::new([&self.0[..], identifier].concat());
        let seed = extract(Hash::Sha256, ssid, &secret);
        let key = HmacKey::new(Hash::Sha256, seed.as_ref());
        let [one, two] = ["SAE Hash to Element u1 P1", "SAE Hash to Element u2 P2"].map(|label| {
            let mut number = Zeroizing::new([0; NUMBER_LEN]);
            expand(&key, &[label.as_bytes()], &mut number[..]);
            work.count(Task::HashToPoint, NUMBER_LEN as u64);
            hash_to_point(&number[..])
        });
        let sum = one.plus(&two).expect("two points that are not opposite");
        PasswordToken(Zeroizing::new(*sum.octets()))
    }
}

impl PasswordToken {
    /// The element of an exchange between these two.
    pub(super) fn element(&self, ends: [Address; 2], work: &mut Work) -> Point {
        let number = Hash::Sha256.hmac(&[0; LEN], &[&in_order(ends)]);
        let scalar = Scalar::reduced(number.as_ref());
        work.count(Task::ScalePoint, LEN as u64);
        let point = Point::new(&self.0).expect("a point");
        point.times(&scalar).expect("a scalar below the order")
    }
}

/// The larger address, then the smaller.
fn in_order([a, b]: [Address; 2]) -> Vec<u8> {
    [a.max(b).0, a.min(b).0].concat()
}

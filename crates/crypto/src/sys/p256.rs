//! Points of the curve P-256, as two coordinates of 32 octets each.

use aws_lc_sys as lc;
use core::ptr::{NonNull, null};

use super::modp::{Number, Scratch};

/// Octets of a point.
const LEN: usize = 64;

struct Point(NonNull<lc::EC_POINT>);

/// Whether the coordinates are a point of the curve.
pub(crate) fn is_on_curve(point: &[u8; LEN]) -> bool {
    Point::of(point).is_some()
}

/// `scalar * point`, in constant time for the scalar. None if the point is not on the curve or the
/// result is the point at infinity.
pub(crate) fn scale(point: &[u8; LEN], scalar: &[u8; 32]) -> Option<[u8; LEN]> {
    let (point, result) = (Point::of(point)?, Point::new());
    let scalar = Number::from_octets(scalar);
    let scratch = Scratch::new();
    // SAFETY: all objects are valid, belong to the same group and are distinct; without a scalar
    // for the generator only the point counts.
    let is_done = unsafe {
        lc::EC_POINT_mul(
            group(),
            result.0.as_ptr(),
            null(),
            point.0.as_ptr(),
            scalar.0.as_ptr(),
            scratch.0.as_ptr(),
        )
    };
    assert_eq!(is_done, 1, "a scalar of any value is allowed");
    result.coordinates()
}

/// The sum. None if a point is not on the curve or the result is the point at infinity.
pub(crate) fn add_points(a: &[u8; LEN], b: &[u8; LEN]) -> Option<[u8; LEN]> {
    let (a, b, sum) = (Point::of(a)?, Point::of(b)?, Point::new());
    let scratch = Scratch::new();
    // SAFETY: all objects are valid and belong to the same group.
    let is_done = unsafe {
        lc::EC_POINT_add(
            group(),
            sum.0.as_ptr(),
            a.0.as_ptr(),
            b.0.as_ptr(),
            scratch.0.as_ptr(),
        )
    };
    assert_eq!(is_done, 1, "points of one group have a sum");
    sum.coordinates()
}

fn group() -> *const lc::EC_GROUP {
    // SAFETY: returns a static object.
    unsafe { lc::EC_group_p256() }
}

impl Point {
    fn new() -> Self {
        // SAFETY: the group is valid.
        Self(NonNull::new(unsafe { lc::EC_POINT_new(group()) }).expect("memory"))
    }

    /// None if it is not on the curve.
    fn of(octets: &[u8; LEN]) -> Option<Self> {
        let point = Self::new();
        let (x, y) = octets.split_at(LEN / 2);
        let [x, y] = [x, y].map(Number::from_octets);
        let scratch = Scratch::new();
        // SAFETY: all objects are valid; the function checks that the point is on the curve. The
        // error queue is this thread's.
        let is_on_curve = unsafe {
            let is_done = lc::EC_POINT_set_affine_coordinates_GFp(
                group(),
                point.0.as_ptr(),
                x.0.as_ptr(),
                y.0.as_ptr(),
                scratch.0.as_ptr(),
            );
            lc::ERR_clear_error();
            is_done == 1
        };
        is_on_curve.then_some(point)
    }

    /// None at infinity.
    fn coordinates(&self) -> Option<[u8; LEN]> {
        let [x, y] = [(); 2].map(|()| Number::from_octets(&[]));
        let scratch = Scratch::new();
        // SAFETY: all objects are valid and distinct; the point at infinity is refused. The error
        // queue is this thread's.
        let is_finite = unsafe {
            let is_done = lc::EC_POINT_get_affine_coordinates_GFp(
                group(),
                self.0.as_ptr(),
                x.0.as_ptr(),
                y.0.as_ptr(),
                scratch.0.as_ptr(),
            );
            lc::ERR_clear_error();
            is_done == 1
        };
        let mut octets = [0; LEN];
        x.write(&mut octets[..LEN / 2]);
        y.write(&mut octets[LEN / 2..]);
        is_finite.then_some(octets)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EC_POINT_clear_free(self.0.as_ptr()) }
    }
}

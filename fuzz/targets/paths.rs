//! Certificate paths: our check and that of `rustls-webpki` agree where their rules do, and the
//! order of the certificates does not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| fuzz::paths::World::new(script).check());

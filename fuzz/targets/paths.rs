//! Certificate paths: our check and that of `rustls-webpki` agree where their rules do, and the
//! order in which certificates come decides nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| fuzz::paths::World::new(script).check());

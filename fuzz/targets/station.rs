//! A whole station against hostile gateways: connections that are being brought up, renewed and
//! moved, answered with arbitrary octets, changed answers of an honest gateway, and whatever
//! payloads under right keys. What must hold after each step is in `src/station/world.rs`.
#![no_main]

use fuzz::script;
use fuzz::station::world::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stage = Stage::default();
    script::read(input)
        .iter()
        .for_each(|op| drop(stage.play(op)));
    stage.end();
});

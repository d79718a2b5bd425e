//! A whole client of IKEv2 against hostile gateways: its connections come up, renew and move. The
//! gateways answer each exchange with changed messages under the right keys, or with any payloads,
//! and send any request. `src/station/world.rs` checks what must hold after each step.
#![no_main]

use fuzz::script;
use fuzz::station::ikev2::Gateway;
use fuzz::station::world::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stage = Stage::<Gateway>::default();
    script::read(input)
        .iter()
        .for_each(|op| drop(stage.play(op)));
    stage.end();
});

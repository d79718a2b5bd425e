//! A whole client against hostile gateways: its connections come up, renew and move. The gateways
//! send arbitrary octets, changed answers of an honest gateway, and any payloads under the right
//! keys. `src/station/world.rs` checks what must hold after each step.
#![no_main]

use fuzz::script;
use fuzz::station::gateway::Gateway;
use fuzz::station::world::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stage = Stage::<Gateway>::default();
    script::read(input)
        .iter()
        .for_each(|op| drop(stage.play(op)));
    stage.end();
});

//! A firewall between mobile nodes and their home agent, against authentic, damaged, repeated and
//! arbitrary packets. `src/mobility/firewall.rs` checks what must hold after each step.
#![no_main]

use fuzz::mobility::Script;
use fuzz::mobility::firewall::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else {
        return;
    };
    let mut stage = Stage::new(*choice);
    Script::new(rest).play(|kind, script| stage.step(kind, script));
    stage.end();
});

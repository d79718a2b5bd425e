//! A home agent of Mobile IPv4 against authentic, damaged and arbitrary messages.
//! `src/mobility/home_agent.rs` checks what must hold after each step.
#![no_main]

use fuzz::mobility::Script;
use fuzz::mobility::home_agent::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let mut stage = Stage::new(script.octet());
    script.play(|kind, script| stage.step(kind, script));
    stage.end();
});

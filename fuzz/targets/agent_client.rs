//! Client of tunnel agents against authentic, damaged and arbitrary messages, and answers in any
//! order. `src/tunnel_agents/client.rs` checks what must hold after each step.
#![no_main]

use fuzz::mobility::Script;
use fuzz::tunnel_agents::client::Stage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let script = Script::new(input);
    let mut stage = Stage::default();
    script.play(|kind, script| stage.step(kind, script));
    stage.end();
});

//! The whole responder: one gateway, datagrams from several addresses, a clock that moves, and
//! peers that hold keys, so that what stands behind the cipher is reached as well. What must
//! hold after each step is in `src/responder/world.rs`.
#![no_main]

use fuzz::responder::world::Stage;
use fuzz::script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stage = Stage::default();
    script::read(input)
        .iter()
        .for_each(|op| drop(stage.play(op)));
    stage.end();
});

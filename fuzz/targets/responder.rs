//! The whole responder of IKEv1: one gateway, datagrams from several addresses, a moving clock, and
//! peers that hold keys, so that the code behind the encryption is reached as well.
//! `src/responder/world.rs` checks what must hold after each step.
#![no_main]

use fuzz::responder::ikev1::Peer;
use fuzz::responder::world::Stage;
use fuzz::script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stage = Stage::<Peer>::default();
    script::read(input)
        .iter()
        .for_each(|op| drop(stage.play(op)));
    stage.end();
});

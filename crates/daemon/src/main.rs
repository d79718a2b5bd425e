//! The caravan program.
fn main() {}

//! The caravan program: a thin door to the `daemon` library.

fn main() {}

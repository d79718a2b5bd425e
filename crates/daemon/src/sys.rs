//! System calls that no crate wraps without loss: the daemon's only `unsafe` code.

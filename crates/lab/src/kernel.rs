//! The event kernel: everything with feedback, on one queue ordered by time and sequence.

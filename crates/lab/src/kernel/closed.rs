//! Closed forms beside the kernel.

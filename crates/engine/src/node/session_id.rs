//! How tables of a node name a session.

/// Names a session within one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionId(pub(super) u32);

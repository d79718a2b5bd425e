//! What computing and protection cost, with the source of every number.

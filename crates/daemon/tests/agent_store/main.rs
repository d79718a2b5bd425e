//! The databases of tunnel agents: what their tables do against a model, and what is left when
//! processes use one key at once and are killed between any two writes.
//!
//! A database is a file for each test. `CARAVAN_TEST_DATABASE=postgresql://...` makes it a schema
//! of that server for each, and all the same must hold there; `python/tests/test_agent_store.py`
//! starts one.

mod base;
mod model;
mod process;
mod storm;
mod target;

//! The three machines together in virtual time.

mod adversaries;
mod bad_input;
mod gone;
mod ppk;
mod storm;
mod ten_steps;
mod world;

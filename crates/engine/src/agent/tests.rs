//! The three machines together in virtual time.

mod adversaries;
mod bad_input;
mod gone;
mod storm;
mod ten_steps;
mod world;

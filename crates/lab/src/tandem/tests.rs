use super::closed::{Standing, model};
use super::traffic::{ClosedLoop, PacketCall, Share};
use super::*;
use crate::staircase::Step;

mod lanes;
mod laws;
pub(crate) mod tandems;
mod theory;

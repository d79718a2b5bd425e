//! Two ends of IKEv2 in virtual time.

mod authentication;
mod child_collisions;
mod eap;
mod hostile;
mod ike_collisions;
mod init;
mod mobike;
mod phones;
mod storm;
mod world;

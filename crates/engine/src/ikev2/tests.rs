//! Two ends of IKEv2 in virtual time.

mod authentication;
mod child_collisions;
mod child_crossings;
mod child_exchanges;
mod childless;
mod crash;
mod eap;
mod eap_only;
mod full_transcript;
mod hostile;
mod ike_collisions;
mod ike_crossings;
mod init;
mod late;
mod ml_dsa;
mod mobike;
mod phones;
mod post_quantum;
mod ppk;
mod radius;
mod redirect;
mod resumption;
mod signatures;
mod storm;
mod tickets;
mod world;

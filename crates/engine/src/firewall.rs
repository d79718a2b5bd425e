//! The firewall of a mobile private network: who may send through it, and where nodes on the move
//! are (Gupta and Montenegro, Secure and Mobile Networking, 1998).
//!
//! A default-deny firewall between a private network and the internet lets mobile nodes in by keys
//! that are in each packet. Its [access list](access) says which names may come from which
//! addresses, and how their packets are protected. A *nomadic* entry holds for any address: the
//! first authentic packet that fits it [binds](bindings) the entry to the packet's source, which is
//! the node's care-of address from then on. Packets from inside to that address are protected as
//! the entry says.
//!
//! Left out: the packets themselves, which are the packet plane's.

pub mod access;
pub mod bindings;

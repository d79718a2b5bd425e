//! Names of our nftables tables.

use crate::control::check_name;

/// The prefix of a table's name.
pub(super) const PREFIX: &str = "caravan_";
/// The same for the table with blocks for programs that bind to a device.
pub(super) const BOUND_PREFIX: &str = "caravan-";
/// The same for the table of a firewall, or of a mobile node outside of one, which outlives its
/// process.
pub(super) const WALL_PREFIX: &str = "caravan.";

/// Whether it is the table with blocks for programs that bind to a device.
pub fn is_bound(table: &str) -> bool {
    table.starts_with(BOUND_PREFIX)
}

/// Says that the packet filter of a part in Mobile IPv4 outlives its process.
pub fn standing(name: &str) -> String {
    format!("the packet filter stays; `caravan down {name}` removes it")
}

/// The name of the part whose packet filter a table is.
pub fn filtering(table: &str) -> Option<&str> {
    table.strip_prefix(WALL_PREFIX)
}

/// Whether a table has a name of ours.
pub fn is_table_name(table: &str) -> bool {
    let prefixes = [PREFIX, BOUND_PREFIX, WALL_PREFIX].into_iter();
    let mut names = prefixes.filter_map(|prefix| table.strip_prefix(prefix));
    names.any(|name| check_name(name).is_ok())
}

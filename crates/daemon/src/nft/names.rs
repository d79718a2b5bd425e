//! Names of our nftables tables.

use crate::control::check_name;

/// The prefix of a table's name.
pub(super) const PREFIX: &str = "caravan_";
/// The same for the table with blocks for programs that bind to a device.
pub(super) const BOUND_PREFIX: &str = "caravan-";

/// Whether a table has a name of ours.
pub fn is_table_name(table: &str) -> bool {
    let name = table.strip_prefix(PREFIX);
    let name = name.or_else(|| table.strip_prefix(BOUND_PREFIX));
    name.is_some_and(|name| check_name(name).is_ok())
}

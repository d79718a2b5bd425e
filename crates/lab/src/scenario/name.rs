//! Names of nodes, links and flows. They become parts of paths, of namespaces and identities in the
//! testbed, and of keys in edits, so only characters are valid that mean nothing in any of them.

use document::{Fault, Item};

/// With the longest ending that the testbed gives to an identity, a name fits into the 64 letters
/// that the common name of a certificate may have.
const NAME_BYTES_MAX: usize = 48;

/// The name of a node: it begins with a letter or a digit; then also `-` and `_` are valid.
pub(super) fn of_node(item: &Item) -> Result<String, Fault> {
    checked(item, "-_", "'-' or '_'")
}

/// The name of a link or a flow, which may also have spaces.
pub(super) fn of_link(item: &Item) -> Result<String, Fault> {
    checked(item, "-_ ", "'-', '_' or spaces")
}

fn checked(item: &Item, others: &str, told: &str) -> Result<String, Fault> {
    let name = item.text()?;
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    let is_begun = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if is_begun && name.chars().all(is_valid) && name.len() <= NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    Err(item.fault(format!(
        "a name begins with a letter or a digit, then has letters, digits, {told}, and at most \
         {NAME_BYTES_MAX} of them"
    )))
}

//! Children under a mistyped name of a connection: they are told before what both connections lack.

use document::{Fault, Item, Value, nearest, shown};

/// Refuses a connection that has nothing but children while another one has none.
pub(super) fn check(connections: &Item) -> Result<(), Fault> {
    let Value::Table(all) = &connections.value else {
        return Ok(());
    };
    let mut strays = Vec::new();
    let mut childless = Vec::new();
    for (name, item) in all {
        match &item.value {
            Value::Table(keys) if !keys.contains_key("children") => childless.push(&name[..]),
            Value::Table(keys) if keys.len() == 1 => strays.push((name, item)),
            _ => {}
        }
    }
    for (name, item) in strays {
        let meant = match childless[..] {
            [one] => Some(one),
            _ => nearest(name, childless.iter().copied()),
        };
        if let Some(meant) = meant {
            let meant = shown(meant);
            let text = format!("it has nothing but children; did you mean connections.{meant}?");
            return Err(item.fault(text));
        }
    }
    Ok(())
}

//! Modules of the engine that must not know each other.

use crate::tree::{File, Finding, Tree};

const THROUGH_A_SESSION: &str = "a session owns the exchanges";

/// A module, what it must not name, and why.
const RULES: [(&str, &str, &str); 10] = [
    (
        "crates/engine/src/node",
        "wire::isakmp",
        "a version of IKE reads its own messages",
    ),
    ("crates/engine/src/node", "ikev1::phase1", THROUGH_A_SESSION),
    ("crates/engine/src/node", "ikev1::quick", THROUGH_A_SESSION),
    (
        "crates/engine/src/node",
        "ikev1::mode_config",
        THROUGH_A_SESSION,
    ),
    (
        "crates/engine/src/node",
        "ikev1::informational",
        THROUGH_A_SESSION,
    ),
    (
        "crates/engine/src/ikev1",
        "crate::node",
        "a version of IKE does not know who drives it",
    ),
    (
        "crates/engine/src/ike",
        "crate::node",
        "what every version shares does not know who drives it",
    ),
    (
        "crates/engine/src/ike",
        "crate::ikev1",
        "what every version shares names none of them",
    ),
    (
        "crates/engine/src/selector",
        "wire::",
        "each version of IKE writes a selector its own way",
    ),
    (
        "crates/engine/src/identity",
        "wire::",
        "each version of IKE writes an identity its own way",
    ),
];

pub(crate) fn strangers(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(of_file).collect()
}

fn of_file(file: &File) -> Vec<Finding> {
    let is_in = |room: &str| {
        let rest = file.path.strip_prefix(room);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let mut findings = Vec::new();
    for (_, name, why) in RULES.iter().filter(|(room, ..)| is_in(room)) {
        let code = file.lines();
        let code = code.take_while(|(_, line)| !line.starts_with("mod tests {"));
        for (number, line) in code.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if line.contains(name) && !file.is_test() {
                findings.push(file.finding(number, format!("names {name}: {why}")));
            }
        }
    }
    findings
}

#[test]
fn a_name_is_found_in_its_room_alone() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let found = |path: &str, text: &str| of_file(&file(path, text)).len();
    let line = "fn f() {}\nuse wire::isakmp::Header;\n";
    assert_eq!(found("crates/engine/src/node/messages.rs", line), 1);
    assert_eq!(found("crates/engine/src/node.rs", line), 1);
    assert_eq!(found("crates/engine/src/ikev1/phase1.rs", line), 0);
    assert_eq!(found("crates/engine/src/node/tests/storm.rs", line), 0);
    let comment = "// wire::isakmp is not ours\n";
    assert_eq!(found("crates/engine/src/node.rs", comment), 0);
    assert_eq!(
        found("crates/engine/src/ike/fault.rs", "use crate::ikev1::X;"),
        1
    );
}

//! `docs/vpn-sessions.md`: the table of causes has every code of `EndCause`, once, and no other.

use crate::tree::{Finding, Tree};

const PAGE: &str = "docs/vpn-sessions.md";
const SOURCE: &str = "crates/engine/src/node/end_cause.rs";

pub(crate) fn are_explained(tree: &Tree) -> Vec<Finding> {
    let codes = codes(&tree.find(SOURCE).expect("the causes").text);
    let rows = rows(&tree.find(PAGE).expect("the page").text);
    let finding = |line, what| Finding {
        path: PAGE.to_owned(),
        line,
        what,
    };
    let lacks = codes.iter().filter_map(|code| {
        let count = rows.iter().filter(|(_, word)| word == code).count();
        (count != 1).then(|| finding(1, format!("the table has {code} {count} times, not once")))
    });
    let strange = rows.iter().filter_map(|(line, word)| {
        let is_known = codes.contains(word);
        (!is_known).then(|| finding(*line, format!("{word} is no code of {SOURCE}")))
    });
    lacks.chain(strange).collect()
}

/// The words that `EndCause::code` returns.
fn codes(source: &str) -> Vec<String> {
    let body = source.split("pub const fn code").nth(1).expect("code()");
    let body = body.split("\n    }\n").next().expect("its end");
    let codes: Vec<String> = body
        .lines()
        .filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","))
        .map(str::to_owned)
        .collect();
    assert!(!codes.is_empty(), "no code in {SOURCE}");
    codes
}

/// The words in the first column of the table of causes, with their lines.
fn rows(page: &str) -> Vec<(usize, String)> {
    let lines = page.lines().enumerate();
    lines
        .skip_while(|(_, line)| !line.starts_with("| `cause` | meaning |"))
        .skip(2)
        .take_while(|(_, line)| line.starts_with('|'))
        .flat_map(|(number, line)| {
            let column = line.split('|').nth(1).unwrap_or_default();
            let words = column.split('`').skip(1).step_by(2);
            words.map(move |word| (number + 1, word.to_owned()))
        })
        .collect()
}

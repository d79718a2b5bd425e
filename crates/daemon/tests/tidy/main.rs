//! House style as a test: the rules of `CONTRIBUTING.md` that a machine can check.
//!
//! Every finding prints `file:line`, the problem and the remedy. The checks read lines: rustfmt and
//! ruff format give the code a form in which lines suffice. Only `circles` reads syntax trees.

mod causes;
mod circles;
mod conformance;
mod crates;
mod keys;
mod reach;
mod rooms;
mod style;
mod tree;

use tree::{Finding, Tree};

fn demand_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn files_functions_and_lines_are_short() {
    demand_none(&style::lengths(&Tree::read()));
}

#[test]
fn citations_have_one_form() {
    demand_none(&style::citation_forms(&Tree::read()));
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    demand_none(&style::banned_words(&Tree::read()));
}

#[test]
fn nothing_names_a_machine_or_a_mirror() {
    demand_none(&style::banned_places(&Tree::read()));
}

#[test]
fn unsafe_stays_in_its_two_files() {
    demand_none(&style::unsafe_exceptions(&Tree::read()));
}

#[test]
fn every_file_is_reachable() {
    let tree = Tree::read();
    demand_none(&reach::rust_files(&tree));
    demand_none(&reach::python_files(&tree));
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    demand_none(&circles::of_files(&Tree::read()));
}

#[test]
fn rooms_know_nothing_of_what_they_must_not() {
    demand_none(&rooms::strangers(&Tree::read()));
}

#[test]
fn every_document_is_linked_and_every_link_leads_somewhere() {
    demand_none(&reach::documents(&Tree::read()));
}

#[test]
fn crates_use_only_those_above_them() {
    demand_none(&crates::directions(&crates::metadata()));
}

#[test]
fn licences_are_on_the_list() {
    demand_none(&crates::licences(&crates::metadata()));
}

#[test]
fn lock_files_name_only_the_public_registries() {
    demand_none(&crates::lock_sources(&Tree::read()));
}

#[test]
fn the_conformance_table_is_current() {
    demand_none(&conformance::is_current(&Tree::read()));
}

#[test]
fn every_cause_of_an_end_is_explained() {
    demand_none(&causes::are_explained(&Tree::read()));
}

#[test]
fn the_page_of_keys_is_current() {
    demand_none(&keys::is_current(&Tree::read()));
}

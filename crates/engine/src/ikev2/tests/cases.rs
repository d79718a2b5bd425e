//! The lists of strongSwan's cases in `child_collisions.rs` and `ike_collisions.rs` name tests that
//! exist.

const FILES: [(&str, &str); 6] = [
    ("child_collisions", include_str!("child_collisions.rs")),
    ("child_crossings", include_str!("child_crossings.rs")),
    ("child_exchanges", include_str!("child_exchanges.rs")),
    ("ike_collisions", include_str!("ike_collisions.rs")),
    ("ike_crossings", include_str!("ike_crossings.rs")),
    ("post_quantum", include_str!("post_quantum.rs")),
];

fn text_of(file: &str) -> &'static str {
    let mut files = FILES.iter();
    let found = files.find(|(name, _)| *name == file);
    found.unwrap_or_else(|| panic!("no file {file}")).1
}

/// What stands between the quotes of a line of a list.
fn quoted<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.split('`').next()
}

#[test]
fn every_case_has_its_test() {
    for (list, cases) in [("child_collisions", 30), ("ike_collisions", 18)] {
        let lines: Vec<&str> = text_of(list).lines().collect();
        let mut seen = 0;
        for pair in lines.windows(2) {
            let Some(case) = quoted(pair[0], "//! - `") else {
                continue;
            };
            let test = quoted(pair[1], "//!   `").expect("the test after its case");
            let (file, name) = test.split_once("::").unwrap_or((list, test));
            let is_there = text_of(file).contains(&format!("#[test]\nfn {name}() {{"));
            assert!(is_there, "{case}: {file} has no test {name}");
            seen += 1;
        }
        assert_eq!(seen, cases, "{list}");
    }
}

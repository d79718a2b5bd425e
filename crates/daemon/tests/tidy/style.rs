//! Lengths, citations and words.

use crate::tree::{File, Finding, Tree};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;

/// Limits for files without their tests, for functions, and for the width of lines.
pub(crate) fn lengths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let functions = if file.has_extension("rs") {
            rust_functions(&file.text)
        } else if file.has_extension("py") {
            python_functions(&file.text)
        } else {
            continue;
        };
        let lines = lines_without_tests(file);
        if !file.is_test() && lines > FILE_LINES_MAX {
            let what = format!("{lines} lines, limit {FILE_LINES_MAX}: split it by concern");
            findings.push(file.finding(FILE_LINES_MAX + 1, what));
        }
        for function in functions.iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
            let Function { name, line, lines } = function;
            let what = format!("{name}: {lines} lines, limit {FUNCTION_LINES_MAX}: name its parts");
            findings.push(file.finding(*line, what));
        }
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                let what = format!("{columns} columns, limit {LINE_COLUMNS_MAX}: break the line");
                findings.push(file.finding(number, what));
            }
        }
    }
    findings
}

/// Lines before the module of tests that closes a Rust file.
fn lines_without_tests(file: &File) -> usize {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(is_tests).unwrap_or(lines.len())
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// rustfmt closes a function at the same indent as its start.
fn rust_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = rust_function_name(line) else {
            continue;
        };
        let close = format!("{}}}", &line[..indent(line)]);
        let Some(length) = lines[index..].iter().position(|l| **l == close) else {
            continue;
        };
        // A declaration without a body, or a body on one line, ends before any closing brace.
        let is_short = line.ends_with(';') || line.ends_with('}');
        if !is_short {
            functions.push(Function {
                name,
                line: index + 1,
                lines: length + 1,
            });
        }
    }
    functions
}

fn rust_function_name(line: &str) -> Option<String> {
    let mut rest = line.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("fn ") {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(after[..end].to_owned());
        }
        let word = rest.split(' ').next()?;
        let is_modifier = ["const", "async", "unsafe", "extern", "\"C\""].contains(&word);
        if !is_modifier && !word.starts_with("pub") {
            return None;
        }
        rest = rest[word.len()..].trim_start();
    }
}

/// A function ends before the next line that is not indented deeper than its `def`, apart from its
/// signature and strings in triple quotes.
fn python_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let start = line.trim_start();
        let start = start.strip_prefix("async ").unwrap_or(start);
        let Some(after) = start.strip_prefix("def ") else {
            continue;
        };
        let name = after.split('(').next().unwrap_or(after).to_owned();
        functions.push(Function {
            name,
            line: index + 1,
            lines: python_length(&lines[index..]),
        });
    }
    functions
}

fn python_length(lines: &[&str]) -> usize {
    let depth = indent(lines[0]);
    let mut in_signature = true;
    let mut in_string = false;
    let mut last = 0;
    for (index, line) in lines.iter().enumerate() {
        let is_outside = !in_signature && !in_string && indent(line) <= depth;
        if is_outside && !line.trim().is_empty() {
            break;
        }
        in_signature &= !line.trim_end().ends_with(':');
        // Triple quotes inside single quotes are text.
        let quotes = line.replace("'\"\"\"'", "");
        in_string ^= quotes.matches("\"\"\"").count() % 2 == 1;
        if !line.trim().is_empty() {
            last = index;
        }
    }
    last + 1
}

/// A citation: `RFC 7296 §2.8`, or `RFC 2409 appendix B`.
pub(crate) struct Citation {
    pub(crate) rfc: u32,
    pub(crate) section: Option<String>,
}

/// Parses the text after the letters RFC: a citation, or why it is not in our form.
fn parse_citation(rest: &str) -> Result<Option<Citation>, &'static str> {
    // x509-parser has a variant with this name.
    if rest.starts_with("822Name") {
        return Ok(None);
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) || rest.starts_with('-') {
        return Err("a citation has a space after RFC: `RFC 7296`");
    }
    let Some(rest) = rest.strip_prefix(' ') else {
        return Ok(None);
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let Ok(rfc) = rest[..digits].parse() else {
        return Ok(None);
    };
    let rest = &rest[digits..];
    let tail = rest.trim_start_matches([',', ' ', '(']).to_lowercase();
    if tail.starts_with("sect") || tail.starts_with("sec.") || tail.starts_with("chapter") {
        return Err("a section is cited as `RFC 7296 §2.8`");
    }
    if let Some(after) = rest.strip_prefix(" §") {
        let section = section_number(after);
        return match section.is_empty() {
            true => Err("§ is followed by its number, without a space: `RFC 7296 §2.8`"),
            false => Ok(Some(Citation {
                rfc,
                section: Some(section),
            })),
        };
    }
    if tail.starts_with('§') {
        return Err("one space before §: `RFC 7296 §2.8`");
    }
    if let Some(after) = rest.strip_prefix(" appendix ") {
        let section = format!("appendix {}", section_number(after));
        return Ok(Some(Citation {
            rfc,
            section: Some(section),
        }));
    }
    Ok(Some(Citation { rfc, section: None }))
}

fn section_number(text: &str) -> String {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// Each citation of a line, or the error in its form. `[RFC4106]` is Wireshark's name of an
/// algorithm, and an identifier is no citation.
pub(crate) fn citations(line: &str) -> Vec<Result<Citation, &'static str>> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("RFC") {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '[') {
            continue;
        }
        found.extend(parse_citation(&line[at + 3..]).transpose());
    }
    let lower = line.to_lowercase();
    if let Some((before, _)) = lower.split_once(" of rfc")
        && before
            .rsplit(' ')
            .nth(1)
            .is_some_and(|word| word.ends_with("section"))
    {
        found.push(Err("a section is cited as `RFC 7296 §2.8`"));
    }
    found
}

/// Files whose citations are read: all written by hand, except this test's own examples.
pub(crate) fn citing_files(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        let is_prose = file.has_extension("md") && file.path != "docs/conformance.md";
        (file.is_code() || is_prose) && !file.path.starts_with("crates/daemon/tests/tidy/")
    })
}

/// Citations that are not in the one form.
pub(crate) fn citation_forms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in citing_files(tree) {
        for (number, line) in file.lines() {
            let faults = citations(line).into_iter().filter_map(Result::err);
            findings.extend(faults.map(|what| file.finding(number, what)));
        }
    }
    findings
}

/// Unfinished work and disabled tests. The halves keep this file free of the words.
pub(crate) fn banned_words(tree: &Tree) -> Vec<Finding> {
    let anywhere = [
        (["to", "do!"], "write it"),
        (["unimple", "mented!"], "write it"),
        (["db", "g!("], "remove it"),
        (["place", "holder"], "write the real thing"),
        (["#[ign", "ore"], "a test runs, or is not there"),
        (["mark.sk", "ip"], "a test runs, or is not there"),
        (["pytest.sk", "ip"], "what is missing fails"),
        (["import", "orskip"], "what is missing fails"),
        (["xf", "ail"], "a test passes, or is not there"),
        (
            ["no lon", "ger "],
            "write for a reader who never saw the change",
        ),
    ]
    .map(|(halves, remedy)| (halves.concat(), remedy));
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|h| h.concat());
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_code()) {
        for (number, line) in file.lines() {
            for (word, remedy) in anywhere.iter().filter(|(word, _)| line.contains(word)) {
                let is_measure = line.contains(&format!("{word}than"));
                let is_missing_peer = file.path.ends_with("tests/newer_peers.py");
                if !is_measure && !is_missing_peer {
                    findings.push(file.finding(number, format!("\"{word}\": {remedy}")));
                }
            }
            let is_word = |word: &str| {
                let mut all = line.split(|c: char| !c.is_alphanumeric());
                line.contains(word) && all.any(|w| w == word)
            };
            for word in words.iter().filter(|word| is_word(word)) {
                findings.push(file.finding(number, format!("{word}: do it, or file it")));
            }
        }
    }
    findings
}

/// Paths of one machine, and hosts of package registries and mirrors.
pub(crate) fn banned_places(tree: &Tree) -> Vec<Finding> {
    let places = [
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        ["/opt/", "wheels"],
        [".pkg", ".dev"],
        ["deb.", "debian.org"],
        ["archive.", "ubuntu.com"],
        ["index.", "crates.io"],
        ["static.", "crates.io"],
        ["proxy.", "golang.org"],
        ["find-", "links"],
    ];
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            for place in places.map(|halves| halves.concat()) {
                if line.contains(&place) {
                    let what = format!("\"{place}\" names one machine or mirror: remove it");
                    findings.push(file.finding(number, what));
                }
            }
        }
    }
    findings
}

/// The two files that may switch the lint off, and their submodules.
const UNSAFE_FILES: [&str; 2] = ["crates/crypto/src/sys", "crates/daemon/src/sys"];

/// The compiler refuses unsafe code. This finds files that allow it.
pub(crate) fn unsafe_exceptions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lint = ["unsafe", "_code"].concat();
    for file in tree.with_extension("rs") {
        if UNSAFE_FILES
            .iter()
            .any(|allowed| file.path.starts_with(allowed))
        {
            continue;
        }
        for (number, line) in file.lines() {
            let is_refusal = line.contains("forbid(") || line.contains("deny(");
            if line.contains(&lint) && !is_refusal {
                let what = "unsafe code lives in the sys.rs of crypto and of daemon: move it there";
                findings.push(file.finding(number, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(line: &str) -> usize {
        citations(line).iter().filter(|c| c.is_err()).count()
    }

    #[test]
    fn citation_forms_are_told_apart() {
        for good in [
            "RFC 7296 §2.8",
            "(RFC 3948)",
            "RFC 2409 appendix B",
            "\"ICV [RFC4106]\"",
        ] {
            assert_eq!(faults(good), 0, "{good}");
        }
        for bad in [
            "RFC7296",
            "RFC-7296",
            "RFC 7296, section 2.8",
            "RFC 7296 section 2.8",
            "RFC 7296 § 2.8",
            "RFC 7296, §2.8",
            "section 2.8 of RFC 7296",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn sections_are_read_without_the_stop_that_follows() {
        let found = citations("as RFC 7296 §2.8.1. says");
        let Ok(Citation { rfc, section }) = &found[0] else {
            panic!("a good form")
        };
        assert_eq!((*rfc, section.as_deref()), (7296, Some("2.8.1")));
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = concat!(
            "impl A {\n",
            "    pub(crate) async fn long(\n        a: u8,\n    ) {\n        b();\n    }\n\n",
            "    fn short() {}\n}\n",
        );
        let functions = rust_functions(text);
        assert_eq!(functions.len(), 1);
        assert_eq!(
            (functions[0].name.as_str(), functions[0].lines),
            ("long", 5)
        );
    }

    #[test]
    fn python_functions_end_where_the_indent_does() {
        let text = concat!(
            "def f(\n    a: int,\n) -> str:\n",
            "    t = \"\"\"\nleft\n\"\"\"\n    return t\n\n\nx = 1\n",
        );
        assert_eq!(python_functions(text)[0].lines, 7);
        let text = "def f() -> str:\n    return '\"\"\"'\n\n\nx = 1\n";
        assert_eq!(python_functions(text)[0].lines, 2);
    }
}

//! `caravan tunnel-agent tables`: the paper's Tables 1 to 4, as the machines have them, and what
//! today says of them.

use engine::agent::objectives::{READING, Table, table};
use serde_json::json;

/// The tables, by the paper's numbers.
const TABLES: [(&str, Table); 4] = [
    ("Security objectives", Table::Objectives),
    (
        "Threats, and the objectives that counter them",
        Table::Threats,
    ),
    (
        "IPsec options, and the objectives that they satisfy",
        Table::Options,
    ),
    (
        "Authentication, authorization and accounting, by step",
        Table::Aaa,
    ),
];

/// The text to print.
pub(super) fn run(is_json: bool) -> String {
    if is_json {
        let tables = TABLES.iter().zip(1..).map(|((title, which), number)| {
            json!({ "number": number, "title": title, "rows": table(*which) })
        });
        let reading = READING
            .iter()
            .map(|(says, source)| json!({ "says": says, "source": source }));
        let all = json!({
            "tables": tables.collect::<Vec<_>>(),
            "today": reading.collect::<Vec<_>>(),
        });
        return format!("{all}\n");
    }
    let tables = TABLES.iter().zip(1..).map(|((title, which), number)| {
        format!("Table {number}. {title}\n\n{}\n", columns(&table(*which)))
    });
    let reading = READING
        .iter()
        .map(|(says, source)| format!("- {says} ({source})\n"));
    let tables: String = tables.collect();
    format!("{tables}Today's reading\n\n{}", reading.collect::<String>())
}

/// Cells below each other.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(String::len)
            .max()
    };
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_every_cell() {
        let (text, data) = (run(false), run(true));
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        for (at, (_, which)) in TABLES.into_iter().enumerate() {
            for (row, cells) in table(which).into_iter().enumerate() {
                for (column, cell) in cells.into_iter().enumerate() {
                    assert!(text.contains(&cell), "{cell}");
                    assert_eq!(data["tables"][at]["rows"][row][column], *cell);
                }
            }
        }
        for (_, source) in READING {
            assert!(text.contains(source));
        }
    }
}

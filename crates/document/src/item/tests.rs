//! Texts that nobody writes by hand.

use super::*;

fn refused(text: &str) -> String {
    parse("f", text).unwrap_err().to_string()
}

#[test]
fn a_key_that_is_too_long_is_refused_with_its_place_and_is_not_repeated() {
    let long = "k".repeat(1 << 16);
    let sentence = "f:2:1: a: a key of 65538 bytes with its tables, limit 256";
    assert_eq!(refused(&format!("[a]\n{long} = [1, 2]")), sentence);
    let sentence = "f:1:6: a: a key of 65538 bytes with its tables, limit 256";
    assert_eq!(refused(&format!("a = [{{name = '{long}'}}]")), sentence);
    let most = "k".repeat(KEY_BYTES_MAX - "a.".len());
    assert!(parse("f", &format!("[a]\n{most} = 1")).is_ok());
    let deep = ["k".repeat(60).as_str(); 5].join(".");
    assert!(refused(&format!("{deep} = 1")).ends_with("limit 256"));
}

#[test]
fn a_text_of_one_line_takes_no_longer_than_one_of_many() {
    let text = format!("a = [{}]", "1,".repeat(1 << 17));
    let top = parse("f", &text).unwrap();
    let list = top.table().unwrap().need("a").unwrap().list().unwrap();
    let last = list.last().unwrap();
    let column = "a = [".len() + 2 * list.len() - 1;
    assert_eq!(
        (last.place.line, last.place.column),
        (Some(1), Some(column))
    );
}

#[test]
fn what_nests_without_end_is_refused() {
    let (lists, tables) = ("[".repeat(1 << 20), "{b=".repeat(1 << 20));
    for text in [
        format!("a = {lists}"),
        format!("a = {tables}"),
        format!("{}a = 1", "a.".repeat(1 << 20)),
        format!("[{}a]", "a.".repeat(1 << 20)),
        format!(
            "a = {}1{}",
            &lists[..DEPTH_MAX + 1],
            "]".repeat(DEPTH_MAX + 1)
        ),
    ] {
        assert!(refused(&text).len() < 200);
    }
}

#[test]
fn a_dotted_key_leads_to_its_place_or_to_the_table_around_it() {
    let text = "[connections.home]\nlocal = { id = \"a\" }\n[[publish]]\nport = 1\n\
                [[publish]]\nport = 2\n";
    let top = parse("f", text).unwrap();
    let line = |key: &str| top.place_of(key).line;
    assert_eq!(line("connections.home.local.id"), Some(2));
    assert_eq!(line("connections.home.remote.id"), Some(1));
    assert_eq!(line("publish.1.port"), Some(6));
    assert_eq!(line("publish.7.port"), Some(3));
}

#[test]
fn the_first_strange_key_of_the_text_is_told_before_others_are_read() {
    let top = parse("f", "b = 1\n[z]\n[a]\n").unwrap();
    let table = top.table().unwrap();
    assert_eq!(table.only(&["a", "b", "z"]), Ok(()));
    let fault = table.only(&["b", "n"]).unwrap_err();
    assert!(
        fault.to_string().starts_with("f:2:2: z: unknown key 'z'"),
        "{fault}"
    );
}

#[test]
fn a_slip_of_a_needed_key_is_told_where_it_is() {
    let top = parse("f", "adress = 1\noutside_interface = 2\n").unwrap();
    let table = top.table().unwrap();
    assert_eq!(
        table.need("address").unwrap_err().to_string(),
        "f:1:1: adress: did you mean 'address'? That key is missing"
    );
    // That one may be meant as it is.
    let plain = table.need("outside").unwrap_err().to_string();
    assert!(plain.ends_with("the key 'outside' is missing"), "{plain}");
    // A table may be less alike, but not the name of another thing.
    let top = parse("f", "[childs.net]\n[links_of.all]\n").unwrap();
    let table = top.table().unwrap();
    let said = table.need("children").unwrap_err().to_string();
    assert!(
        said.starts_with("f:1:2: childs: did you mean 'children'?"),
        "{said}"
    );
    let said = table.need("links").unwrap_err().to_string();
    assert!(said.ends_with("the key 'links' is missing"), "{said}");
}

#[test]
fn a_text_that_a_terminal_would_obey_is_refused_but_not_a_secret() {
    let top = parse(
        "f",
        "a = \"x\\u001b[31m\"\nb = \"one\\ntwo\\té\"\nc = \"\\u202e\"",
    )
    .unwrap();
    let table = top.table().unwrap();
    let refused = |key| table.need(key).unwrap().text().unwrap_err().what;
    assert!(refused("a").contains("U+001B"), "{}", refused("a"));
    assert!(refused("c").contains("U+202E"));
    assert_eq!(table.need("b").unwrap().text(), Ok("one\ntwo\té"));
    assert_eq!(table.need("a").unwrap().octets(), Ok("x\u{1b}[31m"));
}

#[test]
fn a_text_has_a_bounded_number_of_values() {
    let text = format!("{} = [{}]", "k".repeat(200), "1,".repeat(ITEMS_MAX));
    assert!(refused(&text).ends_with("more than 200000 values"));
}

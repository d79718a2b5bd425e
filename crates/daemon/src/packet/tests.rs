use super::*;

fn ask(lines: &[String]) -> Vec<serde_json::Value> {
    let text = lines.join("\n");
    let mut answers = Vec::new();
    answer(None, &mut text.as_bytes(), &mut answers).expect("good lines");
    let answers = String::from_utf8(answers).expect("text");
    let each = answers.lines();
    each.map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// An IPv4 UDP packet from 10.0.0.1 to 10.0.0.2.
fn clear() -> Vec<u8> {
    let (from, to) = ("10.0.0.1:5", "10.0.0.2:6");
    let address = |text: &str| text.parse().expect("an address");
    udp_packet(address(from), address(to), 0, b"in the clear")
}

fn association(
    protocol: &str,
    mode: &str,
    suite: &str,
    keys: (usize, usize),
    rest: &str,
) -> String {
    let (encryption, integrity) = ("11".repeat(keys.0), "22".repeat(keys.1));
    format!(
        "{{\"protocol\":\"{protocol}\",\"mode\":\"{mode}\",\"spi\":4096,\"suite\":\"{suite}\",\
         \"encryption_key\":\"{encryption}\",\"integrity_key\":\"{integrity}\",\
         \"tunnel_src\":\"10.0.0.1\",\"tunnel_dst\":\"10.0.0.2\",\"replay_window\":64{rest}}}"
    )
}

#[test]
fn what_is_sealed_opens_once() {
    for (association, protocol, len) in [
        (
            association("esp", "tunnel", "aes128gcm16", (20, 0), ""),
            50,
            96,
        ),
        (
            association(
                "esp",
                "tunnel",
                "aes128gcm16",
                (20, 0),
                ",\"encap\":[4500,4501]",
            ),
            17,
            104,
        ),
        (
            association("esp", "transport", "aes128-sha256", (16, 32), ""),
            50,
            92,
        ),
        (
            association(
                "ah",
                "transport",
                "ah-sha1",
                (0, 20),
                ",\"esn\":true,\"seq_high\":1",
            ),
            51,
            64,
        ),
    ] {
        let packet = clear();
        let seal = format!("{{\"seal\":\"{}\"}}", hex(&packet));
        let sealed = ask(&[association.clone(), seal]).remove(0);
        let sealed = sealed["packet"].as_str().expect("sealed").to_owned();
        let octets = octets(&sealed).expect("hexadecimal");
        assert_eq!((octets[9], octets.len()), (protocol, len), "{association}");
        let open = format!("{{\"open\":\"{sealed}\"}}");
        let opened = ask(&[association, open.clone(), open]);
        let clear = opened[0]["packet"].as_str().expect("opened");
        // A header without identification gets one.
        assert_eq!(clear[40..], hex(&packet)[40..]);
        assert_eq!(opened[1]["drop"], "replayed");
    }
}

#[test]
fn sequence_numbers_go_on_from_where_they_are_told() {
    let association = association("esp", "tunnel", "aes128gcm16", (20, 0), ",\"seq\":42");
    let sealed = ask(&[association, format!("{{\"seal\":\"{}\"}}", hex(&clear()))]);
    let sealed = octets(sealed[0]["packet"].as_str().expect("sealed")).expect("hexadecimal");
    assert_eq!(sealed[24..28], [0, 0, 0, 42]);
}

#[test]
fn bad_lines_are_errors() {
    for text in [
        "{\"seal\":\"00\"}",
        "{",
        &association("esp", "tunnel", "aes128gcm16", (19, 0), ""),
        &association("esp", "tunnel", "aes128gcm16", (20, 0), ",\"mtu\":1"),
    ] {
        assert!(
            answer(None, &mut text.as_bytes(), &mut Vec::new()).is_err(),
            "{text}"
        );
    }
}

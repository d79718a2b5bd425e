//! Records of TLS, by hand.

use document::parse;

use super::*;

fn records(version: &str, suite: &str, is_legacy: bool) -> Result<Records, String> {
    let text = format!("version = \"{version}\"\nsuite = \"{suite}\"\n");
    let document = parse("x", &text).expect("text");
    let table = document.table().expect("a table");
    let version = TlsVersion::read(table.need("version").expect("a key"));
    let version = version.map_err(|fault| fault.to_string())?;
    let suite = table.need("suite").expect("a key");
    Records::read(version, suite, is_legacy).map_err(|fault| fault.to_string())
}

/// GCM as OpenSSL 3.0.19 was measured to send it; the others by RFC 5246 §6.2.3.2 and RFC 7905 §2.
#[test]
fn a_record_has_its_header_nonce_tag_and_padding() {
    for (version, suite, plain, octets) in [
        ("tls-1.3", "aes256gcm16", 16_384, 16_406),
        ("tls-1.2", "aes256gcm16", 16_384, 16_413),
        ("tls-1.3", "chacha20poly1305", 1, 23),
        ("tls-1.2", "chacha20poly1305", 100, 121),
        // IV of 16; 100 and a MAC of 20 and at least one octet of padding are eight blocks
        ("tls-1.2", "aes128-sha1", 100, 5 + 16 + 128),
        ("tls-1.2", "aes128-sha1", 107, 5 + 16 + 128),
        ("tls-1.2", "aes128-sha1", 108, 5 + 16 + 144),
        ("tls-1.2", "aes256-sha384", 100, 5 + 16 + 160),
        ("tls-1.2", "3des-sha1", 100, 5 + 8 + 128),
    ] {
        let form = records(version, suite, true).expect("a form");
        assert_eq!(form.octets(plain), octets, "{version} {suite} {plain}");
    }
    for (version, suite, said) in [
        ("tls-1.3", "aes128-sha1", "unknown suite of this TLS"),
        ("tls-1.2", "aes192gcm16", "unknown suite of this TLS"),
        (
            "tls-1.2",
            "3des-sha1",
            "legacy = true is needed for 3des-sha1",
        ),
        ("tls-1.1", "3des-sha1", "unknown version of TLS 'tls-1.1'"),
    ] {
        let fault = records(version, suite, false).expect_err(said);
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn a_record_costs_what_its_primitives_take() {
    let text = "kind = \"cycles\"\nname = \"x\"\ntitle = \"x\"\nclock_mhz = { value = 1, source = \
                \"x\" }\nper_packet = { value = 9999, source = \"x\" }\n[per_byte]\naes128-gcm = { \
                value = 10, source = \"x\" }\naes256-ctr = { value = 4, source = \"x\" }\nghash = \
                { value = 3, source = \"x\" }\naes128-cbc = { value = 25, source = \"x\" }\nsha1 = \
                { value = 2, source = \"x\" }\n";
    let profile = Profile::parse("x", text).expect("a profile");
    let device = Device::new(profile, None).expect("a device");
    let cost = |version, suite, bytes| {
        let form = records(version, suite, true).expect("a form");
        let cycles = device.record(&form, Direction::Seal);
        cycles.map(|cycles| (cycles.at(bytes) * 1e6).round())
    };
    // TLS 1.3 encrypts the type of the content with it.
    assert_eq!(cost("tls-1.3", "aes128gcm16", 1000.0), Ok(10_010.0));
    assert_eq!(cost("tls-1.2", "aes128gcm16", 1000.0), Ok(10_000.0));
    // One block for the tag; three blocks of associated data and lengths.
    let halves = 4.0 * 1016.0 + 3.0 * 1048.0;
    assert_eq!(cost("tls-1.2", "aes256gcm16", 1000.0), Ok(halves));
    // 1000, MAC 20 and padding are 64 blocks; 1000, 13 and nine octets are 16 of SHA-1, and one
    // more.
    let cbc = 25.0 * 1024.0 + 2.0 * 64.0 * 17.0;
    assert_eq!(cost("tls-1.2", "aes128-sha1", 1000.0), Ok(cbc));
    let missing = cost("tls-1.3", "chacha20poly1305", 1000.0).expect_err("no source");
    assert_eq!(
        missing.cell,
        "per_byte.chacha20-poly1305 or per_byte.chacha20"
    );
}

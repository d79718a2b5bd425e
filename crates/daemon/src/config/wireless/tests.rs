use std::fs;
use std::path::PathBuf;

use super::*;

/// A folder of its own with a secret that only we can read.
fn folder(name: &str, secret: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("caravan-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("secret");
    fs::write(&path, secret).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    folder
}

fn read(folder: &Path, text: &str) -> Result<WirelessConfig, String> {
    let path = folder.join("wlan.toml");
    let ssid = if text.contains("ssid") {
        ""
    } else {
        "ssid = \"caravan\""
    };
    let start = "role = \"station\"\nair = \"sta0\"\n";
    fs::write(&path, format!("{start}{ssid}\n{text}")).unwrap();
    load(&path).map_err(|fault| {
        let text = fault.to_string();
        text.strip_prefix(&format!("{}: ", path.display()))
            .unwrap_or(&text)
            .to_owned()
    })
}

fn refused(folder: &Path, text: &str) -> String {
    read(folder, text).err().expect("it is refused")
}

#[test]
fn every_security_has_its_cipher_and_its_secret() {
    let place = folder("kinds", "0102030405060708090a0b0c0d\n");
    let cipher = |text: &str| {
        let config = read(&place, text).unwrap();
        config.network.security.cipher().map(LinkCipher::name)
    };
    assert_eq!(cipher("security = \"open\""), None);
    let wep = "security = \"wep\"\nlegacy = true\nsecret_file = \"secret\"";
    assert_eq!(cipher(wep), Some("wep-104"));
    assert_eq!(
        cipher("security = \"dynamic-wep\"\nlegacy = true"),
        Some("wep-104")
    );
    // 26 digits are a passphrase too.
    let psk = "security = \"psk\"\nsecret_file = \"secret\"";
    assert_eq!(cipher(psk), Some("ccmp-128"));
    let sae = "security = \"sae\"\nsecret_file = \"secret\"\ncipher = \"gcmp-256\"";
    assert_eq!(cipher(sae), Some("gcmp-256"));
    for security in ["802.1x", "802.1x-sha256", "owe"] {
        assert_eq!(
            cipher(&format!("security = {security:?}")),
            Some("ccmp-128")
        );
    }
    let config = read(&place, psk).unwrap();
    assert_eq!(
        (config.role, config.security, config.mtu),
        (End::Station, "psk", 1500)
    );
    fs::remove_dir_all(place).unwrap();
}

/// The end of a file, and how its error begins.
const WRONG: [(&str, &str); 25] = [
    ("security = \"wpa\"", "line 4: security: "),
    ("security = \"open\"\ncolour = 1", "line 5: colour: "),
    (
        "security = \"wep\"\nsecret_file = \"secret\"",
        "line 4: security: legacy = true is needed for wep-104",
    ),
    (
        "security = \"psk\"\ncipher = \"tkip\"",
        "line 5: cipher: legacy = true is needed for tkip",
    ),
    (
        "security = \"psk\"\ncipher = \"wep-40\"",
        "line 5: cipher: wep-40 does not go",
    ),
    (
        "security = \"open\"\ncipher = \"tkip\"",
        "line 5: cipher: without security",
    ),
    (
        "security = \"open\"\nrelay = true",
        "line 5: relay: this belongs to an access point",
    ),
    (
        "security = \"owe\"\ngroup_key_renewal = \"1h\"",
        "line 5: group_key_renewal: this belongs to an access point that gives keys",
    ),
    (
        "security = \"open\"\nkey_id = 0",
        "line 5: key_id: this belongs to security = \"wep\"",
    ),
    (
        "security = \"owe\"\nhunting_and_pecking = false",
        "line 5: hunting_and_pecking: this belongs to security = \"sae\"",
    ),
    (
        "security = \"psk\"",
        "line 4: security: this security needs a file",
    ),
    (
        "security = \"owe\"\nsecret_file = \"secret\"",
        "line 5: secret_file: with this security",
    ),
    (
        "security = \"psk\"\nsecret_file = \"none\"",
        "line 5: secret_file: cannot read",
    ),
    (
        "security = \"psk\"\nsecret_file = \"secret\"",
        "line 5: secret_file: a passphrase has 8 to 63",
    ),
    (
        "security = \"wep\"\nlegacy = true\nsecret_file = \"secret\"",
        "line 6: secret_file: a key of wep-104 is 26",
    ),
    (
        "security = \"open\"\nmtu = 9000",
        "line 5: mtu: 9000 is outside",
    ),
    (
        "security = \"wep\"\nkey_id = 4",
        "line 5: key_id: a number is outside",
    ),
    (
        "security = \"open\"\nssid = \"a name of more than thirty-two octets\"",
        "line 5: ssid: a name has at most 32 octets",
    ),
    (
        "security = \"open\"\nssid = \"\"",
        "line 5: ssid: this text is empty",
    ),
    (
        "security = \"psk-sha256\"\nlegacy = true\ncipher = \"tkip\"",
        "line 6: cipher: tkip goes with \"psk\" and \"802.1x\" alone",
    ),
    (
        "security = \"802.1x-sha256\"\nlegacy = true\ncipher = \"tkip\"",
        "line 6: cipher: tkip goes with",
    ),
    (
        "security = \"sae\"\nlegacy = true\ncipher = \"tkip\"",
        "line 6: cipher: tkip goes with",
    ),
    (
        "security = \"owe\"\nlegacy = true\ncipher = \"tkip\"",
        "line 6: cipher: tkip goes with",
    ),
    (
        "security = \"open\"\ndevice = \"sta0\"",
        "line 5: device: this is the air",
    ),
    (
        "security = \"open\"\ndevice = \"wlan%d\"",
        "line 5: device: \"wlan%d\" is not",
    ),
];

#[test]
fn what_is_wrong_has_a_place_and_a_remedy() {
    let place = folder("wrong", "short");
    for (text, expected) in WRONG {
        let found = refused(&place, text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let missing = refused(&place, "");
    assert!(missing.contains("security = \"psk\""), "{missing}");
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_secret_that_others_may_read_is_refused() {
    let place = folder("mode", "a long secret");
    let text = "security = \"psk\"\nsecret_file = \"secret\"";
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(place.join("secret"), fs::Permissions::from_mode(mode)).unwrap();
        let found = refused(&place, text);
        assert!(found.contains("chmod 600"), "{found}");
    }
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn an_access_point_that_gives_keys_renews_that_of_groups() {
    let place = folder("renewal", "");
    let config = |text: &str| {
        let path = place.join("wlan.toml");
        let start = "role = \"access-point\"\nair = \"radio0\"\nssid = \"caravan\"\n";
        fs::write(&path, format!("{start}{text}")).unwrap();
        load(&path).map(|it| it.group_key_renewal)
    };
    let hours = |count: u64| Some(Duration::from_secs(count * 3_600));
    assert_eq!(config("security = \"owe\"").unwrap(), hours(24));
    let text = "security = \"802.1x\"\ngroup_key_renewal = \"2h\"";
    assert_eq!(config(text).unwrap(), hours(2));
    assert_eq!(config("security = \"open\"").unwrap(), None);
    let fault = config("security = \"owe\"\ngroup_key_renewal = \"9s\"").unwrap_err();
    assert!(fault.to_string().contains("less than 10 s"), "{fault}");
    fs::remove_dir_all(place).unwrap();
}

/// None is cut: the two ends would have different keys and no word about it.
#[test]
fn a_secret_has_a_limit() {
    let place = folder("long", "");
    let text = "security = \"sae\"\nsecret_file = \"secret\"";
    fs::write(place.join("secret"), vec![b'x'; 4_096]).unwrap();
    assert!(read(&place, text).is_ok());
    fs::write(place.join("secret"), vec![b'x'; 4_097]).unwrap();
    let found = refused(&place, text);
    assert!(found.contains("more than 4096 octets"), "{found}");
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn digits_are_octets() {
    assert_eq!(octets_of("01fF").as_deref(), Some(&vec![1, 0xff]));
    for bad in ["0", "+1", "0g", "é1"] {
        assert!(octets_of(bad).is_none(), "{bad}");
    }
    assert_eq!(octets_of("").as_deref(), Some(&vec![]));
}

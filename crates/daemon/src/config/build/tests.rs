use engine::suite::Ikev2Suite;

use super::proposals::DEFAULT_IKEV2;
use super::*;

fn child(mode: &str, selector: &str) -> Result<Arc<Connection>, String> {
    let text = format!(
        "[connections.road]\nlegacy = true\nremote_addrs = [\"192.0.2.1\"]\n\
         local = {{ auth = \"psk\", secret = \"s\", id = \"ms.example\" }}\n\
         remote = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
         [connections.road.children.net]\nmode = \"{mode}\"\nremote_ts = [\"{selector}\"]\n"
    );
    let path = Path::new("road.toml");
    let file = file::parse(path, &text).expect("a file");
    let built =
        build(path, file, (Names::Needed, Origin::Files)).map_err(|fault| fault.to_string());
    built.map(|loaded| Arc::clone(&loaded.engine.connections[0]))
}

#[test]
fn a_child_has_no_more_selectors_than_are_agreed() {
    let all: Vec<String> = (0..33).map(|it| format!("10.{it}.0.0/16")).collect();
    let of = |count: usize| child("tunnel", &all[..count].join("\", \""));
    assert_eq!(of(32).expect("a child").children[0].remote.len(), 32);
    let refused = of(33).err().expect("refused");
    let what = "connections.road.children.net.remote_ts: 33 are more than 32: write more children";
    assert!(refused.contains(what), "{refused}");
}

#[test]
fn encap_is_auto_true_or_false() {
    let with = |line: &str| {
        let text = format!(
            "[connections.road]\n{line}\n\
             local = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
             remote = {{ auth = \"psk\", id = \"ms.example\" }}\n[connections.road.children.net]\n\
             local_ts = [\"10.10.0.0/24\"]\n"
        );
        let path = Path::new("road.toml");
        let file = file::parse(path, &text).map_err(|fault| fault.to_string())?;
        let built = build(path, file, (Names::Needed, Origin::Files));
        let built = built.map_err(|fault| fault.to_string())?;
        Ok::<_, String>(built.engine.connections[0].encapsulation)
    };
    assert_eq!(with(""), Ok(Encapsulation::Auto));
    assert_eq!(with("encap = \"auto\""), Ok(Encapsulation::Auto));
    assert_eq!(with("encap = true"), Ok(Encapsulation::Always));
    assert_eq!(with("encap = false"), Ok(Encapsulation::ThroughNat));
    for wrong in ["encap = \"true\"", "encap = 1"] {
        let said = with(wrong).expect_err("refused");
        let what = "line 2: connections.road.encap: ";
        assert!(
            said.contains(what) && said.contains("\"auto\", true or false"),
            "{said}"
        );
    }
}

#[test]
fn dynamic_has_a_protocol_and_a_port_in_transport_mode_alone() {
    let connection = child("transport", "dynamic[tcp/80]").expect("a child");
    let [remote] = connection.children[0].remote[..] else {
        panic!("one selector")
    };
    let station = "192.0.2.1".parse().expect("an address");
    assert_eq!(remote.at(station).to_string(), "192.0.2.1[tcp/80]");
    let plain = child("transport", "dynamic").expect("a child");
    assert!(plain.children[0].remote.is_empty());
    let refused = child("tunnel", "dynamic[tcp/80]").err().expect("refused");
    assert!(refused.contains("only in transport mode"), "{refused}");
    assert!(child("transport", "dynamic[tcp/80").is_err());
}

#[test]
fn a_client_probes_a_silent_peer_sooner_than_a_gateway() {
    let delay = |peer: &str, line: &str| {
        let text = format!(
            "[connections.road]\nlegacy = true\n{peer}\n{line}\n\
             local = {{ auth = \"psk\", secret = \"s\", id = \"ms.example\" }}\n\
             remote = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
             [connections.road.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n"
        );
        let path = Path::new("road.toml");
        let file = file::parse(path, &text).expect("a file");
        let built = build(path, file, (Names::Needed, Origin::Files)).expect("a configuration");
        built.engine.connections[0].dpd_delay
    };
    let seconds = |count| Some(core::time::Duration::from_secs(count));
    let client = "remote_addrs = [\"192.0.2.1\"]";
    // the times of docs/vpn-configuration.md
    assert_eq!(delay(client, ""), seconds(20));
    assert_eq!(delay("", ""), seconds(60));
    assert_eq!(delay(client, "dpd_delay = \"9s\""), seconds(9));
    assert_eq!(delay(client, "dpd_delay = \"0\""), None);
}

/// A configuration of a gateway whose folder has certificates, and a secret with these rights.
fn radius(remote: &str, table: &str, mode: u32) -> Result<Loaded, String> {
    use std::os::unix::fs::PermissionsExt;

    let own = (std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(format!("caravan-radius-{own:?}"));
    let text = format!(
        "[connections.road]\nversion = 2\n\
         local = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
         remote = {{ {remote} }}\n\
         [connections.road.children.net]\nlocal_ts = [\"10.10.0.0/24\"]\n{table}"
    );
    let path = folder.join("road.toml");
    let file = file::parse(&path, &text).map_err(|fault| fault.to_string())?;
    std::fs::create_dir_all(&folder).expect("a folder");
    let secret = folder.join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").expect("written");
    let rights = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&secret, rights).expect("set");
    let built = build(&path, file, (Names::Needed, Origin::Files));
    std::fs::remove_dir_all(&folder).expect("removed");
    built.map_err(|fault| fault.to_string())
}

const PSK: &str = "auth = \"psk\", id = \"ms.example\"";
const SERVERS: &str = "[radius]\nservers = [\"10.1.0.5\", \"fd00::5\"]\nsecret_file = \"secret\"\n";

#[test]
fn servers_of_radius_are_addresses_and_their_secret_is_private() {
    let loaded = radius(PSK, SERVERS, 0o600).expect("a configuration");
    let servers = loaded.engine.radius.expect("servers");
    let found: Vec<String> = servers
        .all
        .iter()
        .map(|it| it.address.to_string())
        .collect();
    assert_eq!(found, ["10.1.0.5:1812", "[fd00::5]:1812"]);
    assert_eq!(servers.all[0].secret.0, b"0123456789abcdef0123456789abcdef");
    assert_eq!(servers.nas_identifier, "caravan");
    let told = "RADIUS servers: 10.1.0.5:1812, then [fd00::5]:1812";
    assert!(loaded.details.iter().any(|it| it == told));
    let idle = |(place, text): &(String, String)| {
        place == "radius" && text.contains("no connection asks these servers")
    };
    assert!(loaded.warnings.iter().any(idle));
    for (table, mode, wanted) in [
        (SERVERS.to_owned(), 0o640, "chmod 600"),
        (
            SERVERS.replace("10.1.0.5", "radius.example"),
            0o600,
            "names are not resolved",
        ),
        (SERVERS.replace("10.1.0.5", "fd00::5"), 0o600, "named twice"),
        (
            SERVERS.replace("\"10.1.0.5\", \"fd00::5\"", ""),
            0o600,
            "name 1 to 8 servers",
        ),
        (
            SERVERS.replace("\"secret\"", "\"none\""),
            0o600,
            "cannot read",
        ),
        (format!("{SERVERS}nas_id = \"\"\n"), 0o600, "radius.nas_id"),
        (
            "[radius]\nservers = [\"10.1.0.5\"]\n".to_owned(),
            0o600,
            "'secret_file' is missing",
        ),
        (
            format!("{SERVERS}secret = \"s\"\n"),
            0o600,
            "unknown key 'secret'",
        ),
    ] {
        let said = radius(PSK, &table, mode).err().expect("refused");
        assert!(said.contains(wanted), "{said}\nwanted {wanted}");
    }
}

#[test]
fn a_gateway_that_asks_servers_names_them_and_has_a_certificate() {
    let asks = "auth = \"eap-radius\"";
    let said = radius(asks, "", 0o600).err().expect("refused");
    assert!(said.contains("add the table with servers"), "{said}");
    // It has a pre-shared key here.
    let said = radius(asks, SERVERS, 0o600).err().expect("refused");
    assert!(
        said.contains("only to a gateway with a certificate"),
        "{said}"
    );
}

#[test]
fn a_post_quantum_pre_shared_key_has_a_name_a_private_file_and_ikev2() {
    use std::os::unix::fs::PermissionsExt;

    let folder = std::env::temp_dir().join(format!("caravan-ppk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let key = folder.join("fleet.ppk");
    let write = |text: &str, mode: u32| {
        std::fs::write(&key, text).expect("written");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&key, mode).expect("set");
    };
    let with = |version: u8, lines: &str| {
        let text = format!(
            "[connections.road]\nversion = {version}\n{lines}\n\
             local = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
             remote = {{ auth = \"psk\", id = \"ms.example\" }}\n[connections.road.children.net]\n\
             local_ts = [\"10.10.0.0/24\"]\n"
        );
        let path = folder.join("road.toml");
        let file = file::parse(&path, &text).map_err(|fault| fault.to_string())?;
        let built = build(&path, file, (Names::Needed, Origin::Files));
        let built = built.map_err(|fault| fault.to_string())?;
        Ok::<_, String>(built.engine.connections[0].ppk.clone())
    };
    let both = "ppk_id = \"fleet\"\nppk_file = \"fleet.ppk\"";
    let secret = "0123456789abcdef".repeat(4);
    let secret = secret.as_str();
    write(&format!("{secret}\n"), 0o600);
    let ppk = with(2, both).expect("a key").expect("one");
    assert_eq!((&ppk.id[..], ppk.is_required), ("fleet", true));
    assert!(ppk.is_early);
    let late = format!("{both}\nppk_intermediate = false");
    assert!(!with(2, &late).expect("a key").expect("one").is_early);
    assert_eq!(ppk.key.0, secret.as_bytes());
    let optional = format!("{both}\nppk_required = false");
    assert!(!with(2, &optional).expect("a key").expect("one").is_required);
    assert!(with(2, "").expect("a connection").is_none());
    let refusal = |version, lines: &str| with(version, lines).err().expect("refused");
    assert!(refusal(1, both).contains("is IKEv2's"));
    assert!(refusal(2, "ppk_id = \"fleet\"").contains("ppk_file"));
    assert!(refusal(2, "ppk_file = \"fleet.ppk\"").contains("ppk_id"));
    for id in ["", &"x".repeat(129)] {
        refusal(2, &format!("ppk_id = \"{id}\"\nppk_file = \"fleet.ppk\""));
    }
    write(secret, 0o640);
    assert!(refusal(2, both).contains("chmod 600"));
    write("too short\n", 0o600);
    assert!(refusal(2, both).contains("has 9 octets:"));
    write(&secret[..32], 0o600);
    assert!(refusal(2, both).contains("has 16 octets in hexadecimal:"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn the_hybrid_is_offered_first_and_classical_suites_after_it() {
    let suites = ours::<Ikev2Suite, 9>(DEFAULT_IKEV2);
    assert_eq!(
        suites[0].to_string(),
        "aes256gcm16-prfsha384-curve25519-ke1_mlkem768"
    );
    let first_classical = suites.iter().position(|it| !it.is_post_quantum());
    assert_eq!(first_classical, Some(2));
    assert!(suites[2..].iter().all(|it| !it.is_post_quantum()));
    // All begin with the same method, so a peer without ML-KEM needs no second message.
    assert!(suites[..3].iter().all(|it| it.method == suites[0].method));
}

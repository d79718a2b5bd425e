use std::path::PathBuf;

use crypto::ed25519::VerifyKey;
use crypto::hpke::PublicKey;

use super::*;

fn identity(octet: u8) -> Identity {
    Identity {
        sealing: PublicKey([octet; 32]),
        signing: VerifyKey([octet + 1; 32]),
    }
}

fn parse(text: &str) -> Result<AgentConfig, Fault> {
    let item = document::parse("", text)?;
    AgentTable::read(&item).and_then(|table| table.check(&item, Path::new("/etc/caravan")))
}

fn host(more: &str) -> String {
    format!("role = \"host\"\naddresses = [\"host.example:51516\"]\n{more}")
}

fn target(more: &str) -> String {
    let more = match more.contains("back_end") {
        true => more.to_owned(),
        false => format!("back_end = {{ connection = \"own\", folder = \"tunnels\" }}\n{more}"),
    };
    format!(
        "role = \"target\"\naddresses = [\"192.0.2.9\"]\nidentity = \"target.example\"\n\
         certificate_file = \"t.pem\"\nprivate_key_file = \"t.key\"\nauthority = \"pki\"\n{more}"
    )
}

#[test]
fn an_identity_reads_back() {
    let text = identity_text(&identity(7));
    assert_eq!(identity_of(&text), Some(identity(7)));
    for wrong in [&text[1..], &text[2..], "", &format!("{text}00")] {
        assert_eq!(identity_of(wrong), None);
    }
}

#[test]
fn names_of_files_are_relative_to_the_file() {
    let id = identity_text(&identity(1));
    let more = format!("[targets.office]\nidentity = \"{id}\"\naddress = \"192.0.2.9:51516\"\n");
    let Ok(AgentConfig::Host(config)) = parse(&host(&more)) else {
        panic!("it is Host's");
    };
    assert_eq!(config.keys_file, PathBuf::from("/etc/caravan/host.keys"));
    assert_eq!(config.listen.port(), PORT);
    assert_eq!(config.targets["office"].0, identity(1));
    let Ok(AgentConfig::Target(config)) = parse(&target("")) else {
        panic!("it is Target's");
    };
    assert_eq!(config.authority, PathBuf::from("/etc/caravan/pki"));
    assert!(matches!(
        parse("role = \"client\""),
        Ok(AgentConfig::Client(_))
    ));
}

/// A wrong value is refused with its line and key.
#[test]
fn what_cannot_work_is_refused_at_its_place() {
    let id = identity_text(&identity(1));
    let twice = format!(
        "[hosts.a]\nidentity = \"{id}\"\naddresses = [\"192.0.2.1\"]\n[hosts.b]\nidentity = \
         \"{id}\"\naddresses = [\"192.0.2.2\"]\n"
    );
    let spaced = format!("[hosts.\"a b\"]\nidentity = \"{id}\"\naddresses = [\"192.0.2.1\"]\n");
    let shared = spaced.replace("\"a b\"", "a") + "legacy = true\n";
    for (text, key, says) in [
        ("role = \"hots\"".to_owned(), "role", "host"),
        (host("databse = \"x\""), "databse", "database"),
        (
            host("targets = { o = { identity = \"00\", address = \"192.0.2.9:1\" } }"),
            "targets.o.identity",
            "init",
        ),
        (host("").replace(":51516", ""), "addresses", "NAME:PORT"),
        (
            target("").replace("192.0.2.9", "0.0.0.0"),
            "addresses",
            "nobody can reach",
        ),
        (target("proposals = []"), "proposals", "1 to 8"),
        (
            target("proposals = [\"3des-md5\"]"),
            "proposals",
            "legacy = true",
        ),
        (
            target("back_end = { writer = \"setkey\" }"),
            "back_end.writer",
            "files",
        ),
        (
            target("back_end = { kind = \"files\" }"),
            "back_end.kind",
            "writer",
        ),
        (
            target("back_end = { kind = \"files\", writer = \"windws\" }"),
            "back_end.writer",
            "windows",
        ),
        (
            target("back_end = { folder = \"tunnels\" }"),
            "back_end",
            "needs connection",
        ),
        (target("pool = \"10.77.0.0/33\""), "pool", "is no pool"),
        (target(&twice), "hosts.b", "of a too"),
        (
            host("targets = { o = { address = \"192.0.2.9:1\" } }"),
            "targets.o",
            "identity_file",
        ),
        (target(&spaced), "hosts.a b", "USER@NAME"),
        (target(&shared), "hosts.a.legacy", "the file needs"),
    ] {
        let Err(fault) = parse(&text) else {
            panic!("{text}");
        };
        assert_eq!(fault.place.key, key, "{}", fault.what);
        assert!(fault.what.contains(says), "{}", fault.what);
        assert!(fault.place.line.is_some());
    }
}

#[test]
fn a_target_whose_suites_are_none_of_a_version_that_it_offers_is_refused() {
    // It is IKEv2's alone.
    let text = "proposals = [\"ike-aes256gcm16-prfsha384-curve25519\", \"aes128gcm16\"]";
    for version in [0, 1] {
        let Err(fault) = parse(&target(&format!("version = {version}\n{text}"))) else {
            panic!("version {version} has no suite of IKEv1");
        };
        let says = "none is of IKEv1: add one of it, such as \"ike-aes128-sha256-modp2048\"";
        assert_eq!(fault.place.key, "proposals");
        assert!(fault.what.contains(says), "{}", fault.what);
    }
    for good in [text, "version = 0\nproposals = [\"aes128gcm16\"]"] {
        assert!(parse(&target(good)).is_ok(), "{good}");
    }
}

#[test]
fn a_slip_in_the_role_makes_no_file_of_another_process() {
    let name = format!("caravan-agent-role-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let is_ours = |text: &str| {
        std::fs::write(&path, text).expect("written");
        is_agent(&path)
    };
    for text in [
        "role = \"clinet\"",
        "[clinet]",
        "[back_ned]",
        "[hosts.a]",
        &host(""),
    ] {
        assert!(is_ours(text), "{text}");
    }
    for text in [
        "[connections.client]",
        "[daemon]\ntun = \"target\"",
        "[home_agents.a]\n[mobile]",
        "role = \"station\"\nair = \"x\"\nssid = \"y\"",
        "",
    ] {
        assert!(!is_ours(text), "{text}");
    }
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn the_paper_s_own_form_is_a_warning_for_each_weakness() {
    let Ok(config) = parse("role = \"client\"\nlegacy = true") else {
        panic!("it is right");
    };
    let warnings = config.warnings();
    assert_eq!(warnings.len(), engine::agent::legacy::WEAKNESSES.len());
    let Ok(config) = parse(&host("")) else {
        panic!("it is right");
    };
    assert!(config.warnings()[0].contains("targets: none"));
}

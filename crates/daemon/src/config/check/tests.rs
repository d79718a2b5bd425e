use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crypto::cert::{Authority, KeyMaterial, Request, SigningKey};
use engine::config::Redirects;

use super::super::{Names, load};
use super::*;

const PSK: &str = "[connections.home]
legacy = true
remote_addrs = [\"192.0.2.1\"]
local = { auth = \"psk\", secret = \"s\", id = \"ms.example\" }
remote = { auth = \"psk\", id = \"sg.example\" }
[connections.home.children.net]
remote_ts = [\"10.10.0.0/24\"]
";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("caravan-check-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("a folder");
        folder
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    fn load(&self, text: &str) -> Result<Loaded, String> {
        self.write("x.toml", text, 0o600);
        load(&self.0.join("x.toml"), Names::Wanted).map_err(|fault| fault.to_string())
    }

    fn refuses(&self, text: &str) -> String {
        self.load(text)
            .err()
            .unwrap_or_else(|| panic!("good:\n{text}"))
    }

    fn warns(&self, text: &str) -> String {
        let loaded = self.load(text).unwrap_or_else(|fault| panic!("{fault}"));
        format!("{:?}", loaded.warnings)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_gateway_s_address_is_one_machine_s_without_a_port() {
    let folder = Folder::new("gateways");
    for (address, wanted) in [
        (
            "192.0.2.1:4500",
            "write \"192.0.2.1\", and remote_port = 4500",
        ),
        (
            "sg.example:4500",
            "write \"sg.example\", and remote_port = 4500",
        ),
        ("[2001:db8::1]:4500", "write \"2001:db8::1\""),
        ("192.0.2.0/24", "is a network"),
        ("%any", "a gateway's connection has no remote_addrs"),
        ("", "this text is empty"),
        ("a b", "neither an address nor a name"),
        ("192.0.2.300", "is no address, such as 192.0.2.1"),
        ("192.0.2", "is no address, such as 192.0.2.1"),
        ("2001:db8::zz", "is no address, such as 192.0.2.1"),
        ("0.0.0.0", "not the address of a host"),
        ("224.0.0.1", "not the address of a host"),
        ("255.255.255.255", "not the address of a host"),
    ] {
        let said = folder.refuses(&PSK.replace("\"192.0.2.1\"", &format!("{address:?}")));
        assert!(
            said.contains("line 3: connections.home.remote_addrs"),
            "{said}"
        );
        assert!(said.contains(wanted), "{said}");
    }
    for address in ["2001:db8::1", "fe80::1", "localhost"] {
        let text = PSK.replace("\"192.0.2.1\"", &format!("{address:?}"));
        assert!(folder.load(&text).is_ok(), "{address}");
    }
}

#[test]
fn what_a_gateway_would_not_keep_apart_or_take_is_told() {
    let folder = Folder::new("rivals");
    assert!(!folder.warns(PSK).contains("same gateway and identity"));
    let other = PSK.replace("home", "work");
    let both = format!("{PSK}{other}");
    assert!(
        folder
            .warns(&both)
            .contains("the same gateway and identity as home")
    );
    let elsewhere = format!("{PSK}{}", other.replace("192.0.2.1", "192.0.2.9"));
    assert!(
        !folder
            .warns(&elsewhere)
            .contains("same gateway and identity")
    );

    let networks: Vec<String> = (0..65).map(|it| format!("\"10.10.{it}.0/24\"")).collect();
    let v1 = PSK.replace("legacy = true", "legacy = true\nversion = 1");
    let many = |number| v1.replace("\"10.10.0.0/24\"", &networks[..number].join(", "));
    assert!(
        folder
            .warns(&many(65))
            .contains("65 pairs of local_ts and remote_ts")
    );
    assert!(!folder.warns(&many(64)).contains("pairs of local_ts"));
    // In IKEv2 a child has many of them.
    let pairs = PSK.replace(
        "remote_ts",
        &format!("local_ts = [{}]\nremote_ts", networks[..9].join(", ")),
    );
    let pairs = pairs.replace(
        "\"10.10.0.0/24\"]",
        &format!("{}]", networks[..9].join(", ")),
    );
    assert!(!folder.warns(&pairs).contains("accepts"));
    let (connection, _) = PSK
        .split_once("[connections.home.children")
        .expect("a child");
    let children = |number| {
        networks[..number]
            .iter()
            .enumerate()
            .fold(connection.to_owned(), |text, (at, network)| {
                text + &format!("[connections.home.children.n{at}]\nremote_ts = [{network}]\n")
            })
    };
    assert!(folder.warns(&children(65)).contains("65 children"));
    assert!(!folder.warns(&children(64)).contains("accepts"));
}

#[test]
fn addresses_that_no_peer_can_have_are_not_lent() {
    let folder = Folder::new("lent");
    for (pool, wanted) in [
        ("addrs = \"127.0.0.0/8\"", "127.0.0.1 cannot be a peer's"),
        ("addrs = \"224.0.0.0/24\"", "224.0.0.1 cannot be a peer's"),
        (
            "addrs = \"10.9.0.0/24\"\ndns = [\"0.0.0.0\"]",
            "pools.lent.dns: 0.0.0.0 cannot be a resolver",
        ),
    ] {
        let said = folder.refuses(&format!("{PSK}[pools.lent]\n{pool}\n"));
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_file_without_an_end_and_one_that_is_no_text_are_refused() {
    let said = load(Path::new("/dev/zero"), Names::Wanted).map(|_| ());
    assert!(
        said.expect_err("no end")
            .to_string()
            .contains("longer than 16 MiB")
    );
    let folder = Folder::new("octets");
    fs::write(folder.0.join("ca.der"), [0x30, 0x82, 0xff]).expect("written");
    let text = PSK.replace(
        "remote = { auth = \"psk\", id",
        "remote = { cacerts = [\"ca.der\"], id",
    );
    let said = folder.refuses(&text);
    assert!(said.contains("openssl x509 -inform der"), "{said}");
}

#[test]
fn values_that_cannot_work_are_refused_with_line_and_key() {
    let folder = Folder::new("values");
    assert_eq!(folder.load(PSK).expect("good").engine.connections.len(), 1);
    let server = "to = \"10.10.0.2:80\"";
    for (more, wanted) in [
        (
            "[daemon]\ntun = \"a-name-that-is-too-long\"",
            "line 9: daemon.tun: \"a-name",
        ),
        ("[daemon]\ntun = \"a b\"", "is not an interface name"),
        ("[daemon]\nhalf_open = 0", "daemon.half_open: 0 would drop"),
        ("[daemon]\nfwmark = 0", "daemon.fwmark: 0 is not a mark"),
        ("[daemon]\ntable = 254", "daemon.table: 254 is the system's"),
        (
            &format!("[[publish]]\nport = 0\n{server}"),
            "publish.0.port: 0 is not a port",
        ),
        (
            "[[publish]]\nport = 80\nto = \"10.10.0.2:0\"",
            "publish.0.to: 10.10.0.2:0 has",
        ),
        (
            "[[publish]]\nport = 80\nto = \"127.0.0.1:80\"",
            "publish.0.to: 127.0.0.1 cannot be a server",
        ),
        (
            "[[publish]]\nport = 80\nto = \"[fe80::2%3]:80\"",
            "publish.0.to: [fe80::2%3]:80 is known on one link alone",
        ),
        (
            "[[publish]]\nport = 80\nto = \"[fe80::2]:80\"",
            "publish.0.to: [fe80::2]:80 is known on one link alone",
        ),
        (
            "[[publish]]\nport = 80\nto = \"[2001:db8::2%3]:80\"",
            "publish.0.to: [2001:db8::2%3]:80 is known on one link alone",
        ),
        (
            &format!("[[publish]]\nprotocol = \"udp\"\nport = 4500\n{server}"),
            "IKE uses udp 4500",
        ),
        (
            &format!("[[publish]]\nport = 80\n{server}\n[[publish]]\nport = 80\n{server}"),
            "line 12: publish.1.port: tcp 80 is published twice",
        ),
        (
            "[pools.a]\naddrs = \"10.99.0.0/24\"\n[pools.b]\naddrs = \"10.99.0.9-10.99.0.20\"",
            "pools.b.addrs: shares addresses with [pools.a]",
        ),
    ] {
        let said = folder.refuses(&format!("{PSK}{more}\n"));
        assert!(said.contains(wanted), "{said}\nwanted {wanted}");
    }
}

#[test]
fn times_are_between_a_second_and_a_year_and_0_is_never_where_that_is_said() {
    let folder = Folder::new("times");
    let at = |key: &str, value: &str| match key.strip_prefix("net.") {
        Some(key) => format!("{PSK}{key} = \"{value}\"\n"),
        None => PSK.replace(
            "legacy = true",
            &format!("legacy = true\n{key} = \"{value}\""),
        ),
    };
    let keys = [
        ("rekey_time", Some("switches renewal off in swanctl")),
        ("over_time", Some("leaves no time to renew")),
        (
            "dpd_timeout",
            Some("gives a peer up as soon as it is probed"),
        ),
        ("dpd_delay", None),
        ("keepalive", None),
        ("net.rekey_time", Some("switches renewal off in swanctl")),
        ("net.over_time", Some("leaves no time to renew")),
    ];
    for (key, zero) in keys {
        for (value, wanted) in [
            ("0s", zero),
            ("0", zero),
            ("999ms", Some("\"999ms\" is too short")),
            ("1s", None),
            ("365d", None),
            ("366d", Some("366 days is too long")),
            ("213503982334d", Some("213503982334 days is too long")),
        ] {
            let said = folder.load(&at(key, value)).err();
            let Some(wanted) = wanted else {
                assert_eq!(said, None, "{key} = {value}");
                continue;
            };
            let said = said.unwrap_or_else(|| panic!("{key} = {value} is good"));
            let (line, place) = match key.strip_prefix("net.") {
                Some(key) => (8, format!("connections.home.children.net.{key}")),
                None => (3, format!("connections.home.{key}")),
            };
            let place = format!("x.toml: line {line}: {place}: ");
            assert!(said.contains(&place) && said.contains(wanted), "{said}");
        }
    }
    let open = folder.warns(&format!("{PSK}replay_window = 0\n"));
    assert!(
        open.contains("children.net.replay_window: 0 accepts replayed packets"),
        "{open}"
    );
}

#[test]
fn a_connection_lends_from_one_pool_of_each_family() {
    let folder = Folder::new("families");
    let gateway = |names: &str| {
        PSK.replace(
            "remote_addrs = [\"192.0.2.1\"]",
            &format!("pools = [{names}]"),
        ) + "[pools.a]\naddrs = \"10.99.0.0/24\"\n[pools.b]\naddrs = \"10.98.0.0/24\"\n\
             [pools.c]\naddrs = \"fd99::/112\"\n"
    };
    let loaded = folder.load(&gateway("\"c\", \"a\"")).expect("good");
    assert_eq!(loaded.engine.connections[0].pools, [2, 0]);
    let said = folder.refuses(&gateway("\"a\", \"b\""));
    assert!(
        said.contains("a and b have the same address family"),
        "{said}"
    );
    let said = folder.refuses(&gateway("\"d\""));
    assert!(said.contains("there is no [pools.d]"), "{said}");
    // Its own fault is told alone.
    for (good, wrong, key) in [
        ("fd99::/112", "fd99::/129", "addrs"),
        (
            "fd99::/112\"",
            "fd99::/112\"\ndomains = [\"a.example\"]",
            "domains",
        ),
    ] {
        let said = folder.refuses(&gateway("\"c\", \"a\"").replace(good, wrong));
        assert!(said.contains(&format!("pools.c.{key}: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn every_mistake_is_told_at_once() {
    let folder = Folder::new("several");
    let text = "[daemon]\nhalf_open = 0\n[connections.a]\n\
                local = { certs = [\"no.pem\"], key = \"no.key\" }\n\
                remote = { cacerts = [\"none.pem\"], id = \"*\" }\n\
                [connections.a.children.net]\nlocal_ts = [\"10.10.0.0/24\"]\n";
    let said = folder.refuses(text);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].contains("line 2: daemon.half_open"), "{said}");
    assert!(
        lines[1].contains("line 4: connections.a.local.certs: cannot read"),
        "{said}"
    );
    assert!(
        lines[2].contains("line 5: connections.a.remote.cacerts: cannot read"),
        "{said}"
    );
    assert!(lines[2].contains("none.pem: No such file"), "{said}");
    assert_eq!(said.matches("No such file").count(), 2, "{said}");
}

#[test]
fn what_is_unwise_here_is_a_warning() {
    let folder = Folder::new("warnings");
    assert_eq!(folder.warns(PSK).matches("chmod").count(), 0);
    folder.write("psk", "secret\n", 0o644);
    let open = PSK.replace("secret = \"s\"", "secret_file = \"psk\"");
    let said = folder.warns(&open);
    assert!(
        said.contains("everybody on this machine can read"),
        "{said}"
    );
    folder.write("psk", "secret\n", 0o600);
    assert!(!folder.warns(&open).contains("chmod"));
    folder.write("psk", "secret\n", 0o620);
    let said = folder.warns(&open);
    assert!(said.contains("other users can change"), "{said}");
    folder.write("psk", "secret\n", 0o600);
    let user = format!("{PSK}[daemon]\nuser = \"nosuch-user\"\n");
    assert!(folder.warns(&user).contains("useradd --system nosuch-user"));
    let pool = format!("{PSK}[pools.a]\naddrs = \"10.10.0.128/25\"\n");
    assert!(folder.warns(&pool).contains("lies in 10.10.0.0/24"));
    for other in ["10.99.0.0/24", "fd00::/64"] {
        let pool = format!("{PSK}[pools.a]\naddrs = \"{other}\"\n");
        assert!(!folder.warns(&pool).contains("lies in"), "{other}");
    }
    let beside = PSK
        .replace("remote_addrs = [\"192.0.2.1\"]", "pools = [\"a\"]")
        .replace("remote_ts = [", "local_ts = [\"10.99.0.0/24\", ");
    let pool = format!("{beside}[pools.a]\naddrs = \"10.99.0.0/24\"\n");
    assert!(
        !folder.warns(&pool).contains("lies in"),
        "stations may reach each other"
    );
}

#[test]
fn values_of_a_connection_that_cannot_work_are_refused() {
    let folder = Folder::new("connection");
    let renewed = |key: &str| format!("{PSK}{key}\n");
    let port = "remote_addrs = [\"192.0.2.1\"]\nremote_port = 0";
    for (text, wanted) in [
        (
            PSK.replace("remote_addrs = [\"192.0.2.1\"]", port),
            "line 4: connections.home.remote_port: 0 is not a port",
        ),
        (
            renewed("rekey_packets = 0"),
            "line 8: connections.home.children.net.rekey_packets: 0 would",
        ),
        (
            renewed("rekey_bytes = \"0\""),
            "net.rekey_bytes: \"0\" would",
        ),
        (
            PSK.replace("connections.home", "connections.\"a b/../c\""),
            "\"a b/../c\" cannot be a connection's name",
        ),
    ] {
        let said = folder.refuses(&text);
        assert!(said.contains(wanted), "{said}\nwanted {wanted}");
    }
    let quiet = PSK.replace("legacy = true", "legacy = true\nkeepalive = \"0s\"");
    let loaded = folder.load(&quiet).expect("keepalives may be off");
    assert!(loaded.engine.connections[0].keepalive.is_zero());
}

#[test]
fn what_a_station_has_no_use_for_and_a_network_by_a_host_are_warnings() {
    let folder = Folder::new("idle");
    assert!(!folder.warns(PSK).contains("a client's file"));
    let gateways = "[[publish]]\nport = 80\nto = \"10.10.0.2:80\"\n\
                    [pools.a]\naddrs = \"10.99.0.0/24\"\n";
    let text = format!("{PSK}{gateways}");
    let said = folder.warns(&text);
    assert!(said.contains("(\"publish.0\", \"only a gateway"), "{said}");
    assert!(said.contains("(\"pools.a\", \"no connection"), "{said}");
    let text = text.replace("remote_addrs = [\"192.0.2.1\"]", "pools = [\"a\"]");
    assert!(!folder.warns(&text).contains("a client's file"));
    let said = folder.warns(&PSK.replace("10.10.0.0/24", "10.10.0.5/24"));
    let wanted = "means the network 10.10.0.0/24: write that, or 10.10.0.5/32 for one host";
    assert!(said.contains(wanted), "{said}");
    assert!(!folder.warns(PSK).contains("means the network"));
}

#[test]
fn a_network_without_a_prefix_length_is_a_warning() {
    let folder = Folder::new("prefix");
    let gateway = PSK
        .replace("remote_addrs = [\"192.0.2.1\"]", "pools = [\"a\"]")
        .replace("remote_ts = [\"10.10.0.0/24\"]\n", "");
    let pool = |addrs: &str| format!("{gateway}[pools.a]\naddrs = \"{addrs}\"\n");
    for (addrs, wanted) in [("10.99.0.0", "10.99.0.0/24"), ("fd99::", "fd99::/64")] {
        let said = folder.warns(&pool(addrs));
        let wanted = format!("addrs: a pool of one address; did you mean {wanted}?");
        assert!(said.contains(&wanted), "{said}");
    }
    for addrs in ["10.99.0.7", "10.99.0.0/24", "fd99::7"] {
        assert!(!folder.warns(&pool(addrs)).contains("did you mean"));
    }
    for (word, wanted) in [
        ("10.10.0.0", "is one address; did you mean 10.10.0.0/24?"),
        ("0.0.0.0", "is one address; did you mean 0.0.0.0/0?"),
    ] {
        let said = folder.warns(&PSK.replace("10.10.0.0/24", word));
        assert!(
            said.contains("children.net.remote_ts: ") && said.contains(wanted),
            "{said}"
        );
    }
}

#[test]
fn none_is_no_choice_beside_proposals() {
    let folder = Folder::new("none");
    let text = format!("{PSK}esp_proposals = [\"none\", \"aes128-sha1\"]\n");
    let said = folder.refuses(&text);
    assert!(
        said.contains("children.net.esp_proposals: \"none\" means no IPsec"),
        "{said}"
    );
}

/// An authority of 30 days and a client's certificate of `days`, both valid from `began`, as
/// `ca.pem`, `ms.pem` and `ms.key` with file mode `mode`.
fn certified(folder: &Folder, began: i64, days: u32, mode: u32) -> Authority {
    let key = SigningKey::generate(2048).expect("a key");
    let authority_key = SigningKey::generate(2048).expect("a key");
    let authority = Authority::create("CN=ca", authority_key, &[1], began, 30).expect("made");
    let issued = authority
        .issue(&Request {
            subject: "CN=ms.example",
            alternative_names: &["ms.example".to_owned()],
            key: KeyMaterial::Pair(&key),
            serial: &[2],
            now: began,
            days,
        })
        .expect("issued");
    folder.write("ms.pem", &issued, 0o644);
    folder.write("ms.key", &key.to_pem(), mode);
    folder.write("ca.pem", authority.certificate_pem(), 0o644);
    authority
}

#[test]
fn a_certificate_that_no_peer_believes_is_not_good() {
    let folder = Folder::new("expired");
    certified(&folder, 1_600_000_000, 2, 0o644);
    let text = "[connections.home]\nremote_addrs = [\"192.0.2.1\"]\n\
                local = { certs = [\"ms.pem\"], key = \"ms.key\" }\n\
                remote = { cacerts = [\"ca.pem\"], id = \"sg.example\" }\n\
                [connections.home.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";
    let said = folder.refuses(text);
    assert!(
        said.contains("line 3: connections.home.local.certs: no peer"),
        "{said}"
    );
    assert!(said.contains("expired at"), "{said}");
    let path = folder.0.join("x.toml");
    let loaded = load(&path, Names::Needed).unwrap_or_else(|fault| panic!("{fault}"));
    let warnings = format!("{:?}", loaded.warnings);
    assert!(
        warnings.contains("local.certs: no peer"),
        "a process may try: {warnings}"
    );
    assert!(
        warnings.contains("ms.key, which holds a secret"),
        "{warnings}"
    );
}

#[test]
fn lists_that_do_not_count_are_told_and_refused_where_strict() {
    let folder = Folder::new("strict");
    let began = now() - 86_400 * 3;
    let authority = certified(&folder, began, 20, 0o600);
    let other = authority_of("CN=other", began);
    let forged = authority_of("CN=ca", began);
    for (name, by, days) in [
        ("old.pem", &authority, 1),
        ("new.pem", &authority, 20),
        ("other.pem", &other, 20),
        ("forged.pem", &forged, 20),
    ] {
        let list = by.revocation_list(&[], 1, began, days);
        folder.write(name, &list.expect("a list"), 0o644);
    }
    let text = |remote: &str| station(&format!("cacerts = [\"ca.pem\"], {remote}"));
    let strict = "revocation = \"strict\"";
    let said = folder.refuses(&text(strict));
    assert!(
        said.contains("remote.revocation: \"strict\" without crls"),
        "{said}"
    );
    for (lists, told) in [
        ("\"old.pem\"", "list of CN=ca was in force until"),
        (
            "\"forged.pem\"",
            "list of CN=ca has a signature that this authority did not make",
        ),
        ("\"other.pem\"", "there is no revocation list of CN=ca"),
    ] {
        let said = folder.refuses(&text(&format!("{strict}, crls = [{lists}]")));
        assert!(
            said.contains("line 4: connections.home.remote.crls: "),
            "{said}"
        );
        assert!(
            said.contains(told) && said.contains("are refused until"),
            "{said}"
        );
        // A process may run: the list may come later.
        let path = folder.0.join("x.toml");
        let loaded = load(&path, Names::Needed).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(format!("{:?}", loaded.warnings).contains(told));
    }
    for lists in ["\"old.pem\"", "\"forged.pem\""] {
        let warned = folder.warns(&text(&format!("crls = [{lists}]")));
        assert!(warned.contains("all peers of this authority"), "{warned}");
        let warned = folder.warns(&text(&format!(
            "revocation = \"relaxed\", crls = [{lists}]"
        )));
        assert!(!warned.contains("all peers of this authority"), "{warned}");
        assert!(
            warned.contains("remote.crls: the revocation list of CN=ca"),
            "{warned}"
        );
    }
    let warned = folder.warns(&text("crls = [\"other.pem\"]"));
    assert!(
        warned.contains("list of CN=other matches no configured authority"),
        "{warned}"
    );
    let warned = folder.warns(&text(&format!(
        "{strict}, crls = [\"old.pem\", \"new.pem\"]"
    )));
    assert!(!warned.contains("crls"), "{warned}");
}

#[test]
fn a_list_that_ends_soon_is_told() {
    let folder = Folder::new("soon");
    let began = now() - 86_400 * 3;
    let authority = certified(&folder, began, 20, 0o600);
    for (days, is_told) in [(6, true), (20, false)] {
        let list = authority.revocation_list(&[], 1, began, days);
        folder.write("crl.pem", &list.expect("a list"), 0o644);
        let warned = folder.warns(&station("cacerts = [\"ca.pem\"], crls = [\"crl.pem\"]"));
        let told = warned.contains("remote.crls: the list of CN=ca ends at");
        assert_eq!(told, is_told, "{warned}");
    }
}

#[test]
fn whoever_is_accepted_is_named_and_stands_where_it_belongs() {
    let folder = Folder::new("accepted");
    certified(&folder, now() - 86_400, 20, 0o600);
    let said = folder.refuses(&station("cacerts = [\"ms.pem\"]"));
    assert!(
        said.contains("remote.cacerts: CN=ms.example is not an authority"),
        "{said}"
    );
    let said =
        folder.refuses(&station("cacerts = [\"ca.pem\"]").replace("\"sg.example\"", "\"*\""));
    assert!(
        said.contains("name the gateway, such as remote id"),
        "{said}"
    );
    let pinned = station("certs = [\"ms.pem\"]").replace("\"sg.example\"", "\"*\"");
    let warned = folder.warns(&pinned);
    assert!(!warned.contains("remote"), "{warned}");
    let warned =
        folder.warns(&pinned.replace("certs = [\"ms", "cacerts = [\"ca.pem\"], certs = [\"ms"));
    assert!(!warned.contains("remote"), "{warned}");
}

#[test]
fn an_authority_that_is_over_is_told_and_refused_where_it_is_the_only_one() {
    let folder = Folder::new("over");
    certified(&folder, now() - 86_400, 20, 0o600);
    let over = authority_of("CN=yesterday", now() - 86_400 * 4000);
    folder.write("over.pem", over.certificate_pem(), 0o644);
    let said = folder.refuses(&station("cacerts = [\"over.pem\"]"));
    let wanted = "remote.cacerts: it does not count: certificate CN=yesterday expired";
    assert!(said.contains(wanted), "{said}");
    let warned = folder.warns(&station("cacerts = [\"over.pem\", \"ca.pem\"]"));
    assert!(warned.contains(wanted), "{warned}");
}

/// A client's file, with its own `ms.pem`.
fn station(remote: &str) -> String {
    format!(
        "[connections.home]\nremote_addrs = [\"192.0.2.1\"]\n\
         local = {{ certs = [\"ms.pem\"], key = \"ms.key\" }}\n\
         remote = {{ id = \"sg.example\", {remote} }}\n\
         [connections.home.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n"
    )
}

fn authority_of(subject: &str, began: i64) -> Authority {
    let key = SigningKey::generate(2048).expect("a key");
    Authority::create(subject, key, &[1], began, 3650).expect("an authority")
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs() as i64
}

#[test]
fn networks_that_no_lent_address_reaches_are_an_error_or_a_warning() {
    let folder = Folder::new("families");
    let gateway = |networks: &str, pools: &str| {
        format!(
            "[connections.home]
legacy = true
pools = {pools}
local = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}
remote = {{ auth = \"psk\", id = \"ms.example\" }}
[connections.home.children.net]
local_ts = {networks}
[pools.four]
addrs = \"10.78.0.0/24\"
[pools.six]
addrs = \"fd78::/120\"
"
        )
    };
    let said = folder.refuses(&gateway("[\"fd77:3::/64\"]", "[\"four\"]"));
    let sentence = "children.net.local_ts: fd77:3::/64 has an address family that no pool of \
                    this connection (four) has";
    assert!(said.contains(sentence), "{said}");
    let both = "[\"10.77.0.0/24\", \"fd77:3::/64\"]";
    let warned = folder.warns(&gateway(both, "[\"four\"]"));
    assert!(
        warned.contains("fd77:3::/64 has an address family that no pool"),
        "{warned}"
    );
    let fine = folder.warns(&gateway(both, "[\"four\", \"six\"]"));
    assert!(!fine.contains("an address family"), "{fine}");
}

#[test]
fn a_resolver_that_no_tunnel_leads_to_is_a_warning() {
    let folder = Folder::new("resolvers");
    let warned = |networks: &str, resolvers: &str| {
        folder.warns(&format!(
            "[connections.home]
legacy = true
pools = [\"lent\"]
local = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}
remote = {{ auth = \"psk\", id = \"ms.example\" }}
[connections.home.children.net]
{networks}
[pools.lent]
addrs = \"10.78.0.0/24\"
dns = [{resolvers}]
"
        ))
    };
    let net = "local_ts = [\"10.77.0.0/24\"]";
    let said = warned(net, "\"10.77.0.53\", \"9.9.9.9\"");
    let sentence = "no tunnel leads to dns = 9.9.9.9 of [pools.lent]";
    assert!(said.contains(sentence), "{said}");
    let web = "local_ts = [\"10.77.0.0/24[tcp/80]\"]";
    assert!(warned(web, "\"10.77.0.53\"").contains("dns = 10.77.0.53 of"));
    for (networks, resolver) in [
        (net, "10.77.0.53"),
        ("local_ts = [\"10.77.0.0/24\", \"9.9.9.9/32\"]", "9.9.9.9"),
        ("local_ts = [\"0.0.0.0/0\"]", "9.9.9.9"),
        ("", "9.9.9.9"),
    ] {
        let said = warned(networks, &format!("\"{resolver}\""));
        assert!(!said.contains("no tunnel leads"), "{said}");
    }
}

#[test]
fn a_child_without_proposals_offers_pfs_and_esn_first_and_takes_what_strongswan_offers() {
    let folder = Folder::new("defaults");
    let words = |text: &str| -> Vec<String> {
        let loaded = folder.load(text).expect("good");
        let child = &loaded.engine.connections[0].children[0];
        child.proposals.iter().map(ToString::to_string).collect()
    };
    let plain = ["aes128gcm16", "aes128-sha256"];
    let with_pfs = |group: &str| plain.map(|word| format!("{word}-{group}"));
    let of_ikev1 = words(&PSK.replacen("legacy", "version = 1\nlegacy", 1));
    assert_eq!(of_ikev1[..2], with_pfs("curve25519"));
    assert_eq!(of_ikev1[2..4], with_pfs("modp2048"));
    assert_eq!(of_ikev1[4..], plain);
    let of_ikev2 = words(PSK);
    let both = of_ikev1
        .iter()
        .flat_map(|it| [format!("{it}-esn"), it.clone()]);
    assert_eq!(of_ikev2, both.collect::<Vec<_>>());
    // 64-bit numbers need a replay window (RFC 4303 §3.4.3).
    assert_eq!(words(&format!("{PSK}replay_window = 0\n")), of_ikev1);
}

#[test]
fn a_gateway_of_ikev2_accepts_what_phones_choose_and_a_client_does_not_offer_it() {
    let folder = Folder::new("phones");
    let words = |text: &str| -> (Vec<String>, Vec<String>) {
        let loaded = folder.load(text).expect("good");
        let connection = &loaded.engine.connections[0];
        let suites = connection.ikev2_proposals.iter();
        let children = connection.children[0].proposals.iter();
        (
            suites.map(ToString::to_string).collect(),
            children.map(ToString::to_string).collect(),
        )
    };
    let more = |text: &str| {
        let (suites, children) = words(text);
        let has = |all: &[String], word: &str| all.iter().any(|it| it == word);
        (
            has(&suites, "aes256-sha256-modp2048"),
            has(&children, "aes256gcm16"),
        )
    };
    let v2 = PSK.replacen("legacy", "version = 2\nlegacy", 1);
    let gateway = v2.replacen("remote_addrs = [\"192.0.2.1\"]\n", "", 1);
    assert_eq!(more(&gateway), (true, true), "{gateway}");
    assert_eq!(more(&v2), (false, false), "{v2}");
    let named = gateway.replacen(
        "legacy",
        "proposals = [\"aes128-sha256-ecp256\"]\nlegacy",
        1,
    );
    assert_eq!(more(&named), (false, true));
}

#[test]
fn a_connection_without_proposals_begins_with_curve25519_where_groups_can_be_chosen() {
    let folder = Folder::new("default-groups");
    let curve = "aes128-sha256-curve25519";
    let modp = ["aes128-sha256-modp2048", "aes256-sha256-modp3072"];
    let words = |text: &str| -> Vec<String> {
        let loaded = folder.load(text).expect("good");
        let proposals = &loaded.engine.connections[0].proposals;
        proposals.iter().map(ToString::to_string).collect()
    };
    let first = PSK.replacen("legacy", "version = 1\nlegacy", 1);
    assert_eq!(words(&first), [curve, modp[0], modp[1]]);
    let aggressive = first.replacen("legacy", "aggressive = true\nlegacy", 1);
    assert_eq!(words(&aggressive), [modp[0], modp[1], curve]);
    let named = first.replacen("legacy", "proposals = [\"aes-sha256-modp3072\"]\nlegacy", 1);
    assert_eq!(words(&named), ["aes128-sha256-modp3072"]);
}

#[test]
fn what_one_connection_does_not_announce_is_off_for_others_too_and_that_is_told() {
    let folder = Folder::new("announced");
    let one = |name: &str, more: &str| {
        format!(
            "[connections.{name}]
{more}
local = {{ auth = \"psk\", id = \"sg.example\" }}
remote = {{ auth = \"psk\", id = \"{name}.example\", secret = \"a secret of the road\" }}
[connections.{name}.children.net]
local_ts = [\"10.77.0.0/24\"]
"
        )
    };
    let warned = |guests: &str, staff: &str| {
        let said = folder.warns(&(one("guests", guests) + &one("staff", staff)));
        let keys = ["full_transcript", "fragmentation"];
        keys.map(|key| {
            let sentence =
                format!("(\"staff\", \"{key} is off for its clients too, because guests");
            said.contains(&sentence)
        })
    };
    assert_eq!(warned("", ""), [false, false]);
    let off = "full_transcript = false";
    assert_eq!(warned(off, ""), [true, false]);
    assert_eq!(warned("fragmentation = false", ""), [false, true]);
    assert_eq!(warned(off, off), [false, false], "both say so");
    let [here, there] = ["1", "2"].map(|it| format!("local_addrs = [\"192.0.2.{it}\"]"));
    let elsewhere = format!("{here}\n{off}");
    assert_eq!(warned(&elsewhere, &there), [false, false]);
    assert_eq!(warned(&elsewhere, &here), [true, false]);
    let older = "version = 1\nfragmentation = false";
    assert_eq!(
        warned(older, ""),
        [false, false],
        "IKEv1 announces to itself"
    );
    let client = "remote_addrs = [\"192.0.2.9\"]";
    let both = [format!("{client}\n{off}"), client.to_owned()];
    assert_eq!(warned(&both[0], &both[1]), [false, false], "two clients");
}

#[test]
fn two_keys_for_any_address_in_main_mode_are_a_warning_that_names_both() {
    let folder = Folder::new("hidden");
    let one = |name: &str, secret: &str, more: &str| {
        format!(
            "[connections.{name}]
version = 1
{more}
local = {{ auth = \"psk\", id = \"sg.example\" }}
remote = {{ auth = \"psk\", id = \"{name}.example\", secret = \"{secret} of the road\" }}
[connections.{name}.children.net]
local_ts = [\"10.77.0.0/24\"]
"
        )
    };
    let sentence = "(\"staff\", \"main mode picks a pre-shared key before the client says who it \
                    is, and takes that of guests: clients of staff";
    let warned = |guests: &str, secret: &str, staff: &str| {
        let text = one("guests", "a long secret", guests) + &one("staff", secret, staff);
        folder.warns(&text).contains(sentence)
    };
    assert!(warned("", "another secret", ""));
    let here = "local_addrs = [\"192.0.2.1\"]";
    assert!(warned(here, "another secret", ""));
    assert!(!warned("", "a long secret", ""), "one key");
    let there = "local_addrs = [\"192.0.2.2\"]";
    assert!(
        !warned(here, "another secret", there),
        "told apart by address"
    );
    let aggressive = "aggressive = true\nlegacy = true";
    assert!(
        !warned("", "another secret", aggressive),
        "told apart by mode"
    );
    assert!(
        !warned(aggressive, "another secret", aggressive),
        "the identity comes first"
    );
    let suite = "proposals = [\"aes256-sha512-modp4096\"]";
    assert!(
        !warned(suite, "another secret", ""),
        "told apart by proposal"
    );
    let station = "remote_addrs = [\"192.0.2.9\"]";
    assert!(
        !warned(station, "another secret", ""),
        "not a client of ours"
    );
}

#[test]
fn what_a_version_of_ike_cannot_negotiate_for_a_child_is_refused() {
    let folder = Folder::new("children-versions");
    let with = |version: u8, more: &str| {
        let text = PSK.replace(
            "legacy = true",
            &format!("legacy = true\nversion = {version}"),
        );
        format!("{text}{more}\n")
    };
    for word in ["aes128gcm16-ecp256", "aes128gcm16-curve25519-ke1_mlkem768"] {
        let proposal = format!("esp_proposals = [\"{word}\"]");
        folder.load(&with(2, &proposal)).expect("of IKEv2");
        let said = folder.refuses(&with(1, &proposal));
        let wanted = format!("{word} of child net has a key exchange that IKEv1 does not have");
        assert!(said.contains(&wanted), "{said}");
    }
    let short = "esp_proposals = [\"aes128gcm16-modp1024\"]";
    folder.load(&with(1, short)).expect("of IKEv1");
    let said = folder.refuses(&with(2, short));
    assert!(said.contains("a group below 2048 bits"), "{said}");
    let ports = |version| with(version, "").replace("/24\"]", "/24[tcp/1-1023]\"]");
    folder.load(&ports(2)).expect("of IKEv2");
    let said = folder.refuses(&ports(1));
    assert!(said.contains("which IKEv1 cannot name"), "{said}");
    let said = folder.refuses(&with(2, "").replace("version = 2", "childless = \"maybe\""));
    assert!(said.contains("childless"), "{said}");
    let said = folder.refuses(&with(2, "esp_proposals = [\"aes128gcm16-ke1_mlkem768\"]"));
    assert!(
        said.contains("the key exchange before the additional ones is missing"),
        "{said}"
    );
}

#[test]
fn what_only_ikev2_has_is_refused_with_ikev1() {
    let folder = Folder::new("only-ikev2");
    let with = |version: u8, more: &str| {
        let version = format!("legacy = true\nversion = {version}\n{more}");
        PSK.replace("legacy = true", &version)
    };
    for (key, value) in [
        ("crash_detection", "true"),
        ("resumption", "true"),
        ("mobike", "true"),
        ("reauth", "true"),
        ("redirect", "[\"198.51.100.0/24\"]"),
        ("dnssec_domains", "[\"corp.example\"]\nvips = [\"0.0.0.0\"]"),
    ] {
        let line = format!("{key} = {value}");
        folder.load(&with(2, &line)).expect("of IKEv2");
        let said = folder.refuses(&with(1, &line));
        assert!(said.contains(key), "{said}");
        assert!(said.contains("IKEv1 does not have it"), "{said}");
    }
    folder.load(&with(1, "mobike = false")).expect("it is off");
}

#[test]
fn a_connection_that_begins_never_falls_back() {
    let folder = Folder::new("both-versions");
    let with = |version: u8| {
        let version = format!("legacy = true\nversion = {version}");
        PSK.replace("legacy = true", &version)
    };
    let said = folder.refuses(&with(0));
    assert!(said.contains("it never falls back"), "{said}");
    for version in [1, 2] {
        folder.load(&with(version)).expect("one version");
    }
    let gateway = with(0).replace("remote_addrs = [\"192.0.2.1\"]\n", "");
    let gateway = gateway.replace("remote_ts", "local_ts");
    folder.load(&gateway).expect("it begins nothing");
}

#[test]
fn a_client_lists_the_domains_for_which_it_takes_keys_of_dnssec() {
    let folder = Folder::new("dnssec-domains");
    let vips = "vips = [\"0.0.0.0\"]";
    let with = |list: &str, more: &str| {
        let line = format!("legacy = true\ndnssec_domains = [{list}]\n{more}");
        PSK.replace("legacy = true", &line)
    };
    let two = with("\"Corp.Example.\", \"lab.example\"", vips);
    let loaded = folder.load(&two).expect("a good file");
    let listed = &loaded.engine.connections[0].dnssec_domains;
    assert_eq!(*listed, ["corp.example", "lab.example"]);
    let agreed = format!("dnssec_top_level = true\n{vips}");
    let loaded = folder
        .load(&with("\"Internal\"", &agreed))
        .expect("a good file");
    assert_eq!(loaded.engine.connections[0].dnssec_domains, ["internal"]);
    let many: Vec<String> = (0..33).map(|it| format!("\"d{it}.example\"")).collect();
    let gateway = with("\"corp.example\"", "").replace("remote_addrs", "# remote_addrs");
    for (text, wanted) in [
        (with("\".\"", vips), "\".\" is no domain"),
        (
            with("\"corp.example\", \"Example\"", vips),
            "example is a top-level domain",
        ),
        (with("\"a b\"", vips), "\"a b\" is no domain"),
        (with(&many.join(", "), vips), "33 are more than 32"),
        (
            with("\"corp.example\"", ""),
            "keys come with an inner address",
        ),
        (gateway, "a gateway is given no keys"),
    ] {
        let said = folder.refuses(&text);
        let key = "connections.home.dnssec_domains: ";
        assert!(said.contains(key) && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_pool_s_keys_of_dnssec_are_ds_records_of_its_domains() {
    let folder = Folder::new("dnssec-ta");
    let digest = |octets: usize| "07".repeat(octets);
    let with = |list: &str| {
        format!(
            "{PSK}[pools.lent]\naddrs = \"10.9.0.0/24\"\ndns = [\"10.10.0.53\"]\n\
             domains = [\"Corp.Example\"]\ndnssec_ta = [{list}]\n"
        )
    };
    let good = format!("\"corp.example. IN DS 43547 13 2 {}\"", digest(32));
    let loaded = folder.load(&with(&good)).expect("a good file");
    let anchors = &loaded.engine.pools[0].trust_anchors;
    assert_eq!(anchors.len(), 1);
    assert_eq!(format!("\"{}\"", anchors[0]), good);
    let record =
        |domain: &str, kind: u8, octets| format!("\"{domain} 43547 13 {kind} {}\"", digest(octets));
    let many = vec![good; 33].join(", ");
    for (list, wanted) in [
        (
            &record("lab.example", 2, 32),
            "lab.example is not in domains",
        ),
        (&record("a.corp.example", 2, 32), "a.corp.example is not in"),
        (
            &record("corp.example", 1, 32),
            "of type 1 has 20 octets, not 32",
        ),
        (&record("corp.example", 3, 32), "digest type 3 is unknown"),
        (&"\"corp.example\"".to_owned(), "is no DS record"),
        (&many, "33 are more than 32"),
    ] {
        let said = folder.refuses(&with(list));
        let key = "pools.lent.dnssec_ta: ";
        assert!(said.contains(key) && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_client_says_where_it_may_be_sent() {
    let folder = Folder::new("redirects");
    let with = |value: &str| {
        let line = format!("legacy = true\nversion = 2\nredirect = {value}");
        PSK.replace("legacy = true", &line)
    };
    let of = |value: &str| {
        let loaded = folder.load(&with(value)).expect("a good file");
        loaded.engine.connections[0].redirects.clone()
    };
    assert_eq!(of("[]"), Redirects::NONE);
    let some = of("[\"198.51.100.0/24\", \"2001:db8::7\"]");
    assert_eq!(some.networks.len(), 2);
    for bad in ["[\"\"]", "[\"a b\"]", "[\"198.51.100.0/99\"]"] {
        let said = folder.refuses(&with(bad));
        assert!(said.contains("redirect"), "{said}");
    }
    let gateway = with("[\"198.51.100.1\"]").replace("remote_addrs", "# remote_addrs");
    let said = folder.refuses(&gateway);
    assert!(said.contains("redirect") || said.contains("vips"), "{said}");
}

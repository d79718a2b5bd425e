use clap::Parser;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("caravan-pki-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        folder
            .pki("ca --subject O=Test,CN=ca --bits 2048 --out @/pki")
            .unwrap();
        folder
    }

    /// Runs a command; `@` stands for the folder.
    fn pki(&self, line: &str) -> anyhow::Result<String> {
        let line = line.replace('@', &self.0.display().to_string());
        let words = ["pki"].into_iter().chain(line.split_whitespace());
        run(&Cli::try_parse_from(words)?.command)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_bundle_is_a_configuration_that_parses_with_all_its_files() {
    let folder = Folder::new("bundle");
    folder
        .pki(
            "issue --ca @/pki --name ms1 --out @ --bundle --gateway sg.example \
             --remote-ts 10.10.0.0/24 --remote-ts fd00::/64",
        )
        .unwrap();
    let text = folder.text("ms1/ms1.toml");
    let file = crate::config::file::parse(Path::new("ms1.toml"), &text).unwrap();
    let connection = &file.connections["ms1"];
    assert_eq!(connection.remote.id.as_deref(), Some("sg.example"));
    assert_eq!(
        connection.children["net"].remote_ts,
        ["10.10.0.0/24", "fd00::/64"]
    );
    for name in ["ms1.pem", "ms1.key", "ca.pem"] {
        assert!(folder.0.join("ms1").join(name).exists(), "{name}");
    }
    for key in ["ms1/ms1.key", "pki/ca.key"] {
        let mode = fs::metadata(folder.0.join(key))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
}

#[test]
fn several_networks_of_a_bundle_are_named_one_by_one() {
    let folder = Folder::new("networks");
    let order = "issue --ca @/pki --name ms1 --out @ --bundle --gateway sg.example --remote-ts";
    let commas = folder.pki(&format!("{order} 10.10.0.0/24,10.20.0.0/24"));
    let said = format!("{:#}", commas.expect_err("two in one"));
    assert!(said.contains("repeat --remote-ts"), "{said}");
    folder
        .pki(&format!("{order} 10.10.0.0/24 10.20.0.0/24"))
        .expect("a bundle");
    let text = folder.text("ms1/ms1.toml");
    let wanted = "remote_ts = [\"10.10.0.0/24\",\"10.20.0.0/24\"]";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_file_that_is_no_text_is_shown_with_the_command_that_reads_it() {
    let folder = Folder::new("octets");
    fs::write(folder.0.join("own.p12"), [0x30, 0x82, 0xff]).expect("written");
    let said = format!("{:#}", folder.pki("show @/own.p12").expect_err("no PEM"));
    assert!(said.contains("own.p12 is not PEM"), "{said}");
    assert!(said.contains("openssl pkcs12 -in FILE"), "{said}");
}

#[test]
fn a_bundle_leaves_every_key_to_its_default_that_was_not_asked_for() {
    let folder = Folder::new("defaults");
    let order = "issue --ca @/pki --name ms1 --out @ --bundle --gateway sg.example";
    folder
        .pki(&format!("{order} --remote-ts 10.10.0.0/24"))
        .unwrap();
    let said: toml::Table = folder.text("ms1/ms1.toml").parse().unwrap();
    let connection = said["connections"]["ms1"].as_table().unwrap();
    let keys: Vec<&str> = connection.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["children", "local", "remote", "remote_addrs", "vips"]
    );
    let child = connection["children"]["net"].as_table().unwrap();
    assert_eq!(child.keys().collect::<Vec<_>>(), ["remote_ts"]);
}

#[test]
fn a_key_of_others_is_certified_where_it_lies_and_a_wrong_one_is_named() {
    let folder = Folder::new("beside");
    folder.pki("issue --ca @/pki --name box --out @").unwrap();
    let key = folder.text("box.key");
    fs::remove_file(folder.0.join("box.pem")).unwrap();
    folder
        .pki("issue --ca @/pki --name box --key @/box.key --out @")
        .unwrap();
    assert_eq!(folder.text("box.key"), key);
    let again = folder.pki("issue --ca @/pki --name box --key @/box.key --out @");
    assert!(
        again
            .unwrap_err()
            .to_string()
            .contains("box.pem already exists")
    );
    for (text, wanted) in [
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "takes the passphrase off",
        ),
        ("-----BEGIN EC PRIVATE KEY-----\n", "an EC key"),
        ("-----BEGIN RSA PUBLIC KEY-----\n", "-pubout"),
        ("-----BEGIN CERTIFICATE-----\n", "it is a certificate"),
        ("nonsense", "it is not PEM"),
    ] {
        fs::write(folder.0.join("wrong.key"), text).unwrap();
        let said = folder.pki("issue --ca @/pki --name other --key @/wrong.key --out @");
        let said = format!("{:#}", said.unwrap_err());
        assert!(said.contains(wanted), "{said}");
    }
    let unnamed = folder.pki("issue --ca @/pki --name other --subject= --out @");
    assert!(format!("{:#}", unnamed.unwrap_err()).contains("subject \"\""));
    assert!(!folder.0.join("other.pem").exists());
}

#[test]
fn the_samples_are_good_beside_the_files_that_they_name() {
    let folder = Folder::new("samples");
    folder
        .pki("issue --ca @/pki --name sg.example --out @")
        .unwrap();
    folder.pki("issue --ca @/pki --name ms1 --out @").unwrap();
    fs::copy(folder.0.join("pki/ca.pem"), folder.0.join("ca.pem")).unwrap();
    let gateway = include_str!("../../../../packaging/gateway.toml");
    let client = include_str!("../../../../packaging/client.toml");
    // Settings offered in comments must also work when they are enabled.
    let offers = |text: &str| {
        let lines = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(bare) if bare.contains(" = ") || bare.starts_with("[[") => bare,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let published = offers(gateway);
    for text in [gateway, client, &published, &offers(client)] {
        let path = folder.0.join("sample.toml");
        fs::write(&path, text).unwrap();
        let loaded = crate::config::load(&path, crate::config::Names::Wanted);
        let loaded = loaded.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let others = loaded
            .warnings
            .iter()
            .filter(|(_, text)| !text.contains("RFC 9395"));
        assert_eq!(others.count(), 0, "{:?}\n{text}", loaded.warnings);
    }
    assert!(
        published.contains("\n[[publish]]\nport = 8080"),
        "{published}"
    );
}

#[test]
fn a_bundle_asks_for_addresses_of_the_families_of_its_networks() {
    let folder = Folder::new("families");
    for (name, networks, vips) in [
        ("a", "--remote-ts 10.10.0.0/24", vec!["0.0.0.0"]),
        ("b", "--remote-ts fd00:c::/64", vec!["::"]),
        (
            "c",
            "--remote-ts fd00:c::/64 --remote-ts 10.0.0.0/8",
            vec!["0.0.0.0", "::"],
        ),
        ("d", "", vec!["0.0.0.0"]),
    ] {
        let order = format!("issue --ca @/pki --name {name} --out @ --bundle --gateway sg.example");
        folder.pki(&format!("{order} {networks}")).unwrap();
        let text = folder.text(&format!("{name}/{name}.toml"));
        let file = crate::config::file::parse(Path::new("x.toml"), &text).unwrap();
        let asked: Vec<String> = file.connections[name]
            .vips
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(asked, vips, "{networks}");
    }
    let order = "issue --ca @/pki --name e --out @ --bundle --gateway sg.example";
    for wrong in [
        "--remote-ts garbage",
        "--remote-ts 10.0.0.0/33",
        "--remote-ts dynamic",
    ] {
        assert!(folder.pki(&format!("{order} {wrong}")).is_err(), "{wrong}");
        assert!(!folder.0.join("e").exists(), "{wrong}");
    }
}

#[test]
fn a_revoked_certificate_is_on_the_list() {
    let folder = Folder::new("revoke");
    folder
        .pki("issue --ca @/pki --name sg.example --san 192.0.2.1 --out @")
        .unwrap();
    let shown = folder.pki("show @/sg.example.pem").unwrap();
    assert!(shown.contains("names: sg.example, 192.0.2.1"), "{shown}");
    let serial = hex(&read_serial(&folder.text("sg.example.pem")).unwrap());
    assert!(!folder.pki("show @/pki/crl.pem").unwrap().contains(&serial));
    folder.pki("revoke --ca @/pki @/sg.example.pem").unwrap();
    folder.pki(&format!("revoke --ca @/pki {serial}")).unwrap();
    let list = folder.pki("show @/pki/crl.pem").unwrap();
    assert_eq!(list.matches(&serial).count(), 1, "{list}");
    let error = folder.pki("revoke --ca @/pki 00ff").unwrap_err();
    assert!(error.to_string().contains("index.json"), "{error}");
    let error = folder.pki("revoke --ca @/pki @/pki/ca.pem").unwrap_err();
    assert!(error.to_string().contains("did not issue it"), "{error}");
}

#[test]
fn nothing_is_overwritten() {
    let folder = Folder::new("twice");
    folder.pki("issue --ca @/pki --name a --out @").unwrap();
    let key = folder.text("a.key");
    assert!(folder.pki("issue --ca @/pki --name a --out @").is_err());
    assert!(folder.pki("ca --subject CN=b --out @/pki").is_err());
    assert_eq!(folder.text("a.key"), key);
}

#[test]
fn serial_numbers_are_positive_and_of_one_length() {
    for _ in 0..64 {
        let serial = new_serial().unwrap();
        assert_eq!(serial.len(), SERIAL_BYTES);
        assert!((0x40..0x80).contains(&serial[0]));
        assert_eq!(bytes(&hex(&serial)).unwrap(), serial);
    }
}

#[test]
fn whoever_issues_meanwhile_does_not_undo_a_revocation() {
    let folder = Folder::new("together");
    folder.pki("issue --ca @/pki --name ms0 --out @").unwrap();
    std::thread::scope(|threads| {
        for number in 1..4 {
            let folder = &folder;
            threads.spawn(move || {
                let line = format!("issue --ca @/pki --name ms{number} --out @");
                folder.pki(&line).unwrap();
            });
        }
        threads.spawn(|| folder.pki("revoke --ca @/pki @/ms0.pem").unwrap());
    });
    let index: Index = serde_json::from_str(&folder.text("pki/index.json")).unwrap();
    assert_eq!(index.issued.len(), 4);
    let revoked = index.issued.iter().filter(|it| it.revoked_at.is_some());
    assert_eq!(revoked.count(), 1);
}

#[test]
fn a_revocation_whose_serial_number_cannot_be_read_is_an_error_that_names_it() {
    let folder = Folder::new("odd");
    for name in ["one", "two"] {
        folder
            .pki(&format!(
                "issue --ca @/pki --name {name} --bits 2048 --out @"
            ))
            .unwrap();
    }
    let list = folder.text("pki/crl.pem");
    let mut index: Index = serde_json::from_str(&folder.text("pki/index.json")).unwrap();
    let good = index.issued[0].serial.clone();
    for odd in ["4x", "123", "", "é"] {
        index.issued[0].serial = odd.to_owned();
        index.issued[0].revoked_at = Some(1_800_000_000);
        let text = serde_json::to_string(&index).unwrap();
        fs::write(folder.0.join("pki/index.json"), &text).unwrap();
        let said = folder
            .pki("crl --ca @/pki")
            .expect_err("refused")
            .to_string();
        assert!(
            said.contains(&format!("{odd:?}, the serial number of ")),
            "{said}"
        );
        assert!(
            said.contains("one") && said.contains("index.json"),
            "{said}"
        );
        assert_eq!(folder.text("pki/index.json"), text, "nothing is changed");
        assert_eq!(folder.text("pki/crl.pem"), list);
    }
    index.issued[0].serial = good;
    let text = serde_json::to_string(&index).unwrap();
    fs::write(folder.0.join("pki/index.json"), &text).unwrap();
    folder.pki("crl --ca @/pki").unwrap();
    assert_ne!(folder.text("pki/crl.pem"), list);
}

#[test]
fn keys_for_skip_have_files_names_and_certificates() {
    let folder = Folder::new("skip");
    for (name, group) in [
        ("10.18.3.17", ""),
        ("fw.example", "--group skip1024 --legacy"),
        ("ms1", "--group skip2048 --legacy"),
    ] {
        let told = folder
            .pki(&format!("skip --name {name} {group} --out @ --ca @/pki"))
            .unwrap();
        let shown = ["key", "pub", "pem"]
            .map(|end| folder.pki(&format!("show @/{name}.skip.{end}")).unwrap());
        let of_value = told
            .split_whitespace()
            .find(|word| word.starts_with("8/"))
            .unwrap();
        for shown in shown {
            assert!(shown.contains(of_value), "{told}{shown}");
        }
        let has = |text: &str| told.contains(text);
        assert_eq!(has("1/10.18.3.17"), name == "10.18.3.17");
        // MD5 of "fw.example".
        assert_eq!(
            has("4/f9d353e9bd5a5daea2d7318a47632215"),
            name == "fw.example"
        );
        let key = folder.0.join(format!("{name}.skip.key"));
        assert_eq!(
            fs::metadata(&key).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let text = folder.text(&format!("{name}.skip.key"));
        assert!(crypto::cert::long_term::read_private(&text).is_ok());
        assert!(folder.text("pki/index.json").contains(name));
    }
    // Both ends of a pair print the same value, another pair another one.
    let checked = |own: &str, peer: &str| {
        let line = format!("skip-check @/{own}.skip.key @/{peer}");
        folder
            .pki(&line)
            .map(|text| text.lines().last().unwrap().to_owned())
    };
    folder.pki("skip --name ms3 --out @").unwrap();
    let value = checked("10.18.3.17", "ms3.skip.pub").unwrap();
    assert_eq!(value, checked("ms3", "10.18.3.17.skip.pem").unwrap());
    folder.pki("skip --name ms4 --out @").unwrap();
    assert_ne!(value, checked("ms4", "ms3.skip.pub").unwrap());
    assert!(checked("ms1", "ms3.skip.pub").is_err());
    let again = folder.pki("skip --name ms1 --out @").unwrap_err();
    assert!(again.to_string().contains("already exists"), "{again}");
    let legacy = folder
        .pki("skip --name ms2 --group skip2048 --out @")
        .unwrap_err();
    assert!(legacy.to_string().contains("--legacy"), "{legacy}");
    assert!(folder.pki("skip --name ../ms2 --out @").is_err());
}

impl Folder {
    /// Issues a profile; `@` stands for the folder.
    fn profile(&self, line: &str) -> anyhow::Result<Made> {
        let line = format!("issue --ca @/pki --out @ {line}");
        let line = line.replace('@', &self.0.display().to_string());
        let words = ["pki"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Issue(args) => issue(&args, now()?),
            _ => unreachable!("the line begins with issue"),
        }
    }

    fn files(&self, of: &str) -> Vec<PathBuf> {
        let found = fs::read_dir(self.0.join(of)).unwrap();
        let mut all: Vec<PathBuf> = found.map(|it| it.unwrap().path()).collect();
        all.sort();
        all
    }
}

#[test]
fn a_profile_has_its_files_and_its_password_is_in_none() {
    let folder = Folder::new("profile");
    for (device, ends) in [
        ("apple", vec!["mobileconfig", "pem"]),
        ("windows", vec!["crt", "p12", "pem", "ps1"]),
        ("android", vec!["crt", "html", "p12", "pem"]),
        ("strongswan", vec!["pem", "sswan"]),
    ] {
        let mut line = format!("--name {device} --profile {device} --gateway sg.example");
        if device != "android" {
            line += " --remote-ts 10.10.0.0/24";
        }
        let made = folder.profile(&line).unwrap();
        let password = made.password.expect("a password");
        assert!(!made.text.contains(&**password));
        let files = folder.files(device);
        let mut found: Vec<&str> = files
            .iter()
            .map(|it| it.extension().unwrap().to_str().unwrap())
            .collect();
        found.sort_unstable();
        assert_eq!(found, ends);
        for file in files {
            let octets = fs::read(&file).unwrap();
            let has = |part: &[u8]| octets.windows(part.len()).any(|window| window == part);
            assert!(
                !has(password.as_bytes()) && !has(b"PRIVATE KEY"),
                "{}",
                file.display()
            );
            let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            let is_public = file.extension().is_some_and(|end| end == "pem");
            assert_eq!(
                mode,
                if is_public { 0o644 } else { 0o600 },
                "{}",
                file.display()
            );
        }
        // The device shows its name as its identity.
        let shown = folder
            .pki(&format!("show @/{device}/{device}.pem"))
            .unwrap();
        assert!(shown.contains(&format!("names: {device}")), "{shown}");
    }
    folder.pki("revoke --ca @/pki @/apple/apple.pem").unwrap();
}

#[test]
fn a_profile_of_a_user_needs_no_key_of_the_authority_and_issues_nothing() {
    let folder = Folder::new("user");
    fs::remove_file(folder.0.join("pki/ca.key")).unwrap();
    let index = folder.text("pki/index.json");
    for device in ["apple", "windows", "android", "strongswan"] {
        let line = format!("--name {device} --profile {device} --gateway sg.example --user alice");
        let made = folder.profile(&line).unwrap();
        assert!(made.password.is_none());
        let all = folder.files(device);
        let ends = ["p12", "pem", "key"];
        assert!(
            all.iter()
                .all(|it| !ends.contains(&it.extension().unwrap().to_str().unwrap()))
        );
        let has_user = all
            .iter()
            .any(|it| fs::read_to_string(it).unwrap().contains("alice"));
        // Windows asks for the name, too.
        assert_eq!(has_user, device != "windows");
    }
    assert_eq!(folder.text("pki/index.json"), index);
}

#[test]
fn what_no_profile_can_hold_is_refused_before_anything_is_written() {
    let folder = Folder::new("hostile");
    let index = folder.text("pki/index.json");
    for (line, wanted) in [
        ("--profile apple", "--gateway"),
        (
            "--profile apple --gateway sg'example",
            "neither a host name",
        ),
        ("--profile windows --gateway $(calc)", "neither a host name"),
        (
            "--profile windows --gateway 192.0.2.1",
            "Windows wants a host name",
        ),
        (
            "--profile apple --gateway 192.0.2.300",
            "neither a host name",
        ),
        (
            "--profile android --gateway sg.example --gateway-id other.example",
            "one field",
        ),
        (
            "--profile windows --gateway sg.example --gateway-id other.example",
            "leave --gateway-id",
        ),
        (
            "--profile windows --gateway sg.example --remote-ts 10.10.0.0",
            "did you mean 10.10.0.0/24? Write 10.10.0.0/32 for one host",
        ),
        (
            "--profile android --gateway sg.example --remote-ts 10.10.0.0/24",
            "leave --remote-ts out",
        ),
        ("--profile apple --gateway sg.example --user a/b", "--user"),
        (
            "--profile apple --gateway sg.example --remote-ts 10.0.0.0/8[tcp/80]",
            "without ports",
        ),
        (
            "--profile apple --gateway sg.example --bundle",
            "cannot be used",
        ),
        (
            "--profile apple --gateway sg.example --transport",
            "cannot be used",
        ),
        ("--user alice --gateway sg.example", "--profile"),
        ("--profile iphone --gateway sg.example", "possible values"),
    ] {
        let fault = folder
            .profile(&format!("--name x {line}"))
            .err()
            .expect(line);
        assert!(format!("{fault:#}").contains(wanted), "{line}: {fault:#}");
        assert!(!folder.0.join("x").exists(), "{line}");
    }
    assert_eq!(folder.text("pki/index.json"), index);
    folder
        .profile("--name x --profile apple --gateway 192.0.2.1")
        .unwrap();
    let again = folder.profile("--name x --profile windows --gateway 192.0.2.1");
    assert!(format!("{:#}", again.err().unwrap()).contains("already exists"));
}

#[test]
fn keys_of_ml_dsa_are_made_on_demand() {
    let folder = Folder::new("ml-dsa");
    folder
        .pki("ca --subject CN=other --ml-dsa 87 --out @/other")
        .unwrap();
    for (set, word) in [
        ("44", "ML-DSA-44"),
        ("65", "ML-DSA-65"),
        ("87", "ML-DSA-87"),
    ] {
        for ca in ["pki", "other"] {
            let name = format!("{ca}{set}");
            folder
                .pki(&format!(
                    "issue --ca @/{ca} --name {name} --ml-dsa {set} --out @ --bundle \
                     --gateway sg.example --remote-ts 10.10.0.0/24"
                ))
                .unwrap();
            let told = folder.pki(&format!("show @/{name}/{name}.pem")).unwrap();
            assert!(told.contains(&format!("key: {word}\n")), "{told}");
            let told = folder.pki(&format!("show @/{name}/{name}.key")).unwrap();
            assert_eq!(told, format!("private {word} key\n"));
        }
    }
    for line in [
        "issue --ca @/pki --name x --out @ --ml-dsa 65 --bits 2048",
        "issue --ca @/pki --name x --out @ --ml-dsa 50",
        "issue --ca @/pki --name x --out @ --ml-dsa 65 --profile apple --gateway sg.example",
    ] {
        assert!(folder.pki(line).is_err(), "{line}");
    }
}

#[test]
fn no_certificate_and_no_list_is_valid_for_no_day() {
    let folder = Folder::new("no-day");
    for line in [
        "issue --ca @/pki --name b --out @ --days 0",
        "ca --subject CN=x --out @/x --days 0",
        "crl --ca @/pki --days 0",
        "skip --name ms1 --ca @/pki --out @ --days 0",
    ] {
        let said = folder.pki(line).unwrap_err().to_string();
        assert!(said.contains("must be 1 or more"), "{line}: {said}");
    }
    let said = folder.pki("crl --ca @/pki --days x").unwrap_err();
    assert!(said.to_string().contains("not a number of days"), "{said}");
    let said = folder.pki("crl --ca @/pki --days 99999999999").unwrap_err();
    assert!(
        said.to_string().contains("must be at most 4294967295"),
        "{said}"
    );
}

#[test]
fn what_is_shown_says_that_it_has_expired() {
    let folder = Folder::new("expired");
    let made = "issue --ca @/pki --name ms1.example --days 5 --out @";
    folder.pki(made).unwrap();
    let shown = folder.pki("show @/ms1.example.pem").unwrap();
    assert!(!shown.contains("warning"), "{shown}");
    let pem = folder.text("ms1.example.pem");
    let late = now().unwrap() + 6 * 86_400;
    let said = warnings(&pem, late);
    let wanted = "warning: certificate CN=ms1.example expired at ";
    assert!(said.starts_with(wanted) && said.ends_with('\n'), "{said}");
    assert_eq!(warnings("no certificate", late), "");
}

#[test]
fn a_certificate_ends_no_later_than_its_authority_and_the_user_is_told() {
    let folder = Folder::new("end");
    folder
        .pki("ca --subject CN=brief --days 40 --bits 2048 --out @/brief")
        .unwrap();
    let now = now().unwrap();
    let valid = |name: &str, at: i64| {
        let all = Certificate::all_from_pem(&folder.text(name)).unwrap();
        all[0].check_in_force(at).is_ok()
    };
    let said = folder
        .pki("issue --ca @/brief --name long --days 50 --out @")
        .unwrap();
    let told = "days instead of 50: its authority ends";
    assert!(said.contains(told), "{said}");
    assert!(valid("long.pem", now + 38 * 86_400));
    assert!(!valid("long.pem", now + 40 * 86_400 + 60));
    // As the list of issued certificates has it.
    let index: Index = serde_json::from_str(&folder.text("brief/index.json")).unwrap();
    assert!((now + 39 * 86_400..now + 40 * 86_400 + 60).contains(&index.issued[0].not_after));
    let said = folder
        .pki("issue --ca @/brief --name brief --days 30 --out @")
        .unwrap();
    assert!(!said.contains("instead"), "{said}");
    for order in [
        "issue --ca @/brief --name b --out @ --bundle --gateway sg.example",
        "skip --name ms1 --ca @/brief --out @",
    ] {
        let said = folder.pki(order).unwrap();
        assert!(said.contains("days instead of 730"), "{said}");
    }
    let profile = "--name p --profile apple --gateway sg.example --days 9000";
    let said = folder.profile(profile).unwrap().text;
    assert!(said.contains("instead of 9000"), "{said}");
    let authority = authority(&folder.0.join("brief")).unwrap();
    let half = Validity::within(&authority, 30, now + 20 * 86_400 + 3600).unwrap();
    assert_eq!(half.days, 19);
    for (later, wanted) in [(39, "less than a day"), (41, "nobody accepts")] {
        let late = now + later * 86_400 + 3600;
        let said = Validity::within(&authority, 1, late).err().unwrap();
        assert!(said.to_string().contains(wanted), "{said}");
    }
}

#[test]
fn an_authority_s_key_that_others_may_read_is_not_used() {
    let folder = Folder::new("open");
    let key = folder.0.join("pki/ca.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    for order in ["issue --ca @/pki --name x --out @", "crl --ca @/pki"] {
        let said = format!("{:#}", folder.pki(order).unwrap_err());
        assert!(said.contains("chmod 600"), "{said}");
    }
    assert!(!folder.0.join("x.pem").exists());
    folder.pki("skip --name ms1 --out @").unwrap();
    let key = folder.0.join("ms1.skip.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o604)).unwrap();
    let said = folder.pki("skip-check @/ms1.skip.key @/ms1.skip.pub");
    assert!(format!("{:#}", said.unwrap_err()).contains("chmod 600"));
}

#[test]
fn options_that_contradict_each_other_are_refused_with_what_to_write() {
    let folder = Folder::new("odd-options");
    folder
        .pki("ca --subject CN=quantum --ml-dsa 65 --out @/quantum")
        .unwrap();
    folder.pki("issue --ca @/pki --name own --out @").unwrap();
    let one = "--out @ --gateway sg.example";
    for (line, wanted) in [
        (
            format!("--ca @/pki {one} --bundle --aggressive --ml-dsa 65"),
            "leave --aggressive out",
        ),
        (
            format!("--ca @/quantum {one} --bundle --aggressive"),
            "a peer of IKEv1 cannot verify",
        ),
        (
            format!("--ca @/quantum {one} --profile apple"),
            "a device without Caravan cannot verify",
        ),
        (
            format!("--ca @/quantum {one} --profile windows --user alice"),
            "caravan pki ca --subject",
        ),
        (format!("--ca @/pki {one}"), "--gateway is for a client"),
        (
            "--ca @/pki --out @ --remote-ts 10.10.0.0/24".to_owned(),
            "--remote-ts is for a client",
        ),
        (
            "--ca @/pki --out @ --aggressive".to_owned(),
            "--aggressive is for a client",
        ),
        (
            "--ca @/pki --out @ --key @/own.key --ml-dsa 65".to_owned(),
            "with --key there is none",
        ),
        (
            "--ca @/pki --out @ --csr @/own.csr --bits 4096".to_owned(),
            "with --csr there is none",
        ),
    ] {
        let said = folder.pki(&format!("issue --name x {line}"));
        let said = format!("{:#}", said.expect_err(&line));
        assert!(said.contains(wanted), "{line}: {said}");
        for made in ["x", "x.pem", "x.key"] {
            assert!(!folder.0.join(made).exists(), "{line}");
        }
    }
    // IKEv1 and ML-DSA each alone.
    for (name, line) in [("a", "--aggressive"), ("b", "--ml-dsa 44")] {
        let order = format!("issue --ca @/pki --name {name} {one} --bundle {line}");
        folder.pki(&order).unwrap();
    }
}

#[test]
fn certificates_that_need_fragments_are_told_where_there_are_none() {
    let folder = Folder::new("fragments");
    folder
        .pki("ca --subject CN=quantum --ml-dsa 44 --out @/quantum")
        .unwrap();
    for (name, ca, kind, is_told) in [
        ("classical", "pki", "", false),
        ("own", "pki", "--ml-dsa 44", true),
        ("gateway", "quantum", "", true),
    ] {
        let order = format!("issue --ca @/{ca} --name {name} --out @ --bundle");
        folder
            .pki(&format!("{order} --gateway 192.0.2.1 {kind}"))
            .unwrap();
        let path = folder.0.join(format!("{name}/{name}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        let whole = text.replacen("vips", "fragmentation = false\nvips", 1);
        for (text, is_told) in [(&text, false), (&whole, is_told)] {
            fs::write(&path, text).unwrap();
            let loaded = crate::config::load(&path, crate::config::Names::Wanted);
            let warnings = format!("{:?}", loaded.unwrap().warnings);
            let said = warnings.contains("IKE_AUTH with a certificate of ML-DSA");
            assert_eq!(said, is_told, "{name}: {warnings}");
        }
    }
}

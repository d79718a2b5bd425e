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

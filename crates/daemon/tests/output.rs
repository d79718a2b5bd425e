//! The program without a reader of its output: its exit status, and that it does not panic.

use std::fs::File;
use std::io::pipe;
use std::process::{Command, Output, Stdio};

/// The exit status of a panic.
const PANICKED: i32 = 101;

fn caravan(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_caravan"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("CARAVAN_RUNTIME_DIR");
    command
}

fn full() -> Stdio {
    let file = File::options().write(true).open("/dev/full");
    file.expect("a full device").into()
}

fn nobody() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn good_file() -> String {
    let own = std::process::id();
    let path = std::env::temp_dir().join(format!("caravan-output-{own}.toml"));
    let text = "[connections.home]\nlegacy = true\nremote_addrs = [\"192.0.2.1\"]\n\
                local = { auth = \"psk\", secret = \"s\", id = \"a.example\" }\n\
                remote = { auth = \"psk\", id = \"b.example\" }\n\
                [connections.home.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

#[test]
fn an_answer_that_cannot_be_written_is_one_sentence() {
    let file = good_file();
    for arguments in [&["check", &file][..], &["--help"], &["pki", "ca", "--help"]] {
        let done = run(caravan(arguments).stdout(full()));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{arguments:?} {said}");
        assert!(
            said.starts_with("caravan: cannot write to standard output: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        let done = run(caravan(arguments).stdout(nobody()));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    }
    std::fs::remove_file(file).expect("removed");
}

#[test]
fn the_file_of_a_wireless_link_is_checked() {
    let path = std::env::temp_dir().join(format!("caravan-wlan-{}.toml", std::process::id()));
    let file = path.display().to_string();
    let start = "role = \"access-point\"\nair = \"radio0\"\nssid = \"office\"\n";
    for (end, wanted, said) in [
        ("security = \"owe\"\n", 0, "is valid: an access point, owe"),
        (
            "security = \"dynamic-wep\"\nlegacy = true\n",
            0,
            "warning: wep-104 is legacy",
        ),
        (
            "security = \"psk\"\n",
            2,
            "line 4: security: this security needs a file",
        ),
        ("security = \"owe\"\ncolour = 1\n", 2, "line 5: colour: "),
    ] {
        std::fs::write(&path, format!("{start}{end}")).expect("written");
        let done = run(&mut caravan(&["check", &file]));
        let text = [done.stdout, done.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(done.status.code(), Some(wanted), "{text}");
        assert!(text.contains(said), "{text}");
    }
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_complaint_that_cannot_be_written_keeps_its_status() {
    for error in [full, nobody] {
        for (arguments, wanted) in [
            (&["check", "/nonexistent/x.toml"][..], 2),
            (&["status", "--runtime-dir", "/nonexistent"], 1),
            (&["nonsense"], 2),
        ] {
            let done = run(caravan(arguments).stderr(error()));
            assert_ne!(done.status.code(), Some(PANICKED), "{arguments:?}");
            assert_eq!(done.status.code(), Some(wanted), "{arguments:?}");
        }
    }
}

#[test]
fn usage_shows_as_needed_what_is_needed() {
    let mut command = caravan(&["up"]);
    command.env("CARAVAN_RUNTIME_DIR", "/tmp/x");
    let said = String::from_utf8_lossy(&run(&mut command).stderr).into_owned();
    assert!(said.contains("Usage: caravan up"), "{said}");
    assert!(said.contains("--config <FILE>"), "{said}");
    assert!(!said.contains("--runtime-dir"), "{said}");
}

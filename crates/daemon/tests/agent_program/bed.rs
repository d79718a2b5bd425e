//! Three agents in a folder of a test.

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(20);
/// Keys of the sheet.
const KEYS: &str = "12";

/// A folder, with its Host and its Target.
pub(crate) struct Bed {
    folder: PathBuf,
    pub(crate) address: Ipv4Addr,
    ports: [u16; 3],
    host: Option<Agent>,
    target: Option<Agent>,
    started: Cell<u32>,
}

/// A process.
pub(crate) struct Agent {
    child: Child,
    said: PathBuf,
}

/// One that has ended.
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    pub(crate) said: String,
}

/// An address of loopback that no other bed has, and three ports of it that nobody else has by
/// chance: the kernel chooses others.
fn seat() -> (Ipv4Addr, [u16; 3]) {
    static BEDS: AtomicU32 = AtomicU32::new(0);
    let number = BEDS.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let [_, _, high, low] = process.to_be_bytes();
    let address = Ipv4Addr::new(127, 64 + (number % 128) as u8, high, low);
    let first = 20_000 + 3 * ((process + number) % 4_000) as u16;
    (address, [first, first + 1, first + 2])
}

impl Bed {
    /// Makes keys, an authority, a member, and a sheet.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("caravan-agents-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["", "client", "target"] {
            let mut builder = fs::DirBuilder::new();
            builder
                .mode(0o700)
                .create(folder.join(part))
                .expect("a folder");
        }
        let (address, ports) = seat();
        let bed = Self {
            folder,
            address,
            ports,
            host: None,
            target: None,
            started: Cell::new(0),
        };
        bed.runs(&[
            "pki",
            "ca",
            "--subject",
            "CN=Guests",
            "--out",
            "guests",
            "--bits",
            "2048",
        ]);
        let issue = ["pki", "issue", "--ca", "guests", "--name", "target.example"];
        bed.runs(&issue);
        bed.does(&["init", "host.keys"]);
        bed.does(&["init", "target.keys"]);
        bed.write_files();
        for file in ["host.toml", "target.toml", "client.toml"] {
            bed.runs(&["check", file]);
        }
        let network = ["--network", "10.10.0.0/24"];
        let member = ["member", "-c", "target.toml", "add", "alice@home"];
        bed.does(&[&member[..], &network, &["--options", "ESP"]].concat());
        let issue = ["issue", "-c", "host.toml", "--user", "alice"];
        bed.does(&[&issue[..], &["--count", KEYS, "--out", "sheet.txt"]].concat());
        bed
    }

    fn write_files(&self) {
        let (own, [host, second, target]) = (self.address, self.ports);
        let host_file = |port: u16, log: &str| {
            format!(
                "role = \"host\"\nlisten = \"{own}:{port}\"\nlog_file = \"{log}\"\n\
                 addresses = [\"{own}:{host}\"]\n[targets.office]\n\
                 identity_file = \"target.keys.pub\"\naddress = \"{own}:{target}\"\n"
            )
        };
        let back_end = |folder: &str| {
            format!("[back_end]\nkind = \"files\"\nwriter = \"caravan\"\nfolder = \"{folder}\"\n")
        };
        // The second one is where a Host that listens on every address sends from.
        let target_file = format!(
            "role = \"target\"\nlisten = \"{own}:{target}\"\naddresses = [\"{own}\"]\n\
             identity = \"target.example\"\ncertificate_file = \"target.example.pem\"\n\
             private_key_file = \"target.example.key\"\nauthority = \"guests\"\n\
             pool = \"10.77.0.0/24\"\n[hosts.home]\nidentity_file = \"host.keys.pub\"\n\
             addresses = [\"{own}\", \"127.0.0.1\"]\n{}",
            back_end("target")
        );
        let client_file = format!("role = \"client\"\n{}", back_end("client"));
        for (name, text) in [
            ("host.toml", host_file(host, "host.log")),
            ("second.toml", host_file(second, "second.log")),
            ("target.toml", target_file),
            ("client.toml", client_file),
        ] {
            fs::write(self.folder.join(name), text).expect("written");
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.folder.join(from), self.folder.join(to)).expect("renamed");
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        let mode = Permissions::from_mode(mode);
        fs::set_permissions(self.folder.join(name), mode).expect("changed");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect("a file")
    }

    /// Writes a file for its owner alone.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("written");
        self.set_mode(name, 0o600);
    }

    /// Changes words in the files of Host and Target.
    pub(crate) fn replace(&self, from: &str, to: &str) {
        for name in ["host.toml", "target.toml"] {
            self.write(name, &self.read(name).replace(from, to));
        }
    }

    /// `caravan check` refuses a file.
    pub(crate) fn check_fails(&self, name: &str) -> String {
        let done = self.command(&["check", name]).output().expect("it starts");
        assert!(!done.status.success(), "{name} is valid");
        String::from_utf8_lossy(&done.stderr).into_owned()
    }

    /// Host and Target serve.
    pub(crate) fn start(&mut self) {
        self.restart("host");
        self.restart("target");
    }

    /// One of them does, after its end.
    pub(crate) fn restart(&mut self, role: &str) {
        let agent = self.agent(role, &["-c", &format!("{role}.toml")]);
        agent.wait_to_say(" serves ");
        match role {
            "host" => self.host = Some(agent),
            _ => self.target = Some(agent),
        }
    }

    /// Both end.
    pub(crate) fn stop(&mut self) {
        for agent in [self.host.take(), self.target.take()].into_iter().flatten() {
            let ended = agent.stop();
            assert!(ended.is_success, "{}", ended.said);
        }
    }

    pub(crate) fn kill(&mut self, role: &str) {
        let agent = match role {
            "host" => self.host.take(),
            _ => self.target.take(),
        };
        agent.expect("it runs").kill();
    }

    pub(crate) fn target(&self) -> &Agent {
        self.target.as_ref().expect("it runs")
    }

    pub(crate) fn agent_of(&self, role: &str) -> &Agent {
        match role {
            "host" => self.host.as_ref().expect("it runs"),
            _ => self.target(),
        }
    }

    /// Client's agent of alice, with a key of the sheet.
    pub(crate) fn client(&self, key: usize, more: &[&str]) -> Agent {
        self.client_as("alice", key, more)
    }

    pub(crate) fn client_as(&self, user: &str, key: usize, more: &[&str]) -> Agent {
        self.client_with(Path::new("sheet.txt"), key, user, more)
    }

    pub(crate) fn client_with(&self, sheet: &Path, key: usize, user: &str, more: &[&str]) -> Agent {
        let (key, sheet) = (key.to_string(), sheet.display().to_string());
        let words = [
            "-c",
            "client.toml",
            "--user",
            user,
            "--sheet",
            &sheet,
            "--key",
            &key,
        ];
        self.agent("client", &[&words[..], more].concat())
    }

    /// A sheet of the head and one key, whose line has lost its end.
    pub(crate) fn half_written(&self, key: usize) -> PathBuf {
        let text = fs::read_to_string(self.folder.join("sheet.txt")).expect("a sheet");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("CTA1:")).collect();
        let cut = &lines[key][..lines[key].len() - 9];
        self.write("cut.txt", &format!("{}\n{cut}\n", lines[0]));
        self.folder.join("cut.txt")
    }

    pub(crate) fn agent(&self, command: &str, words: &[&str]) -> Agent {
        let number = self.started.get();
        self.started.set(number + 1);
        let said = self.folder.join(format!("{number}-{command}.err"));
        let output = File::create(&said).expect("a file");
        let child = self
            .command(&[&["tunnel-agent", command], words].concat())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("the program starts");
        Agent { child, said }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_caravan"));
        command
            .args(words)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        for variable in ["CARAVAN_RUNTIME_DIR", "CARAVAN_STATE_DIR"] {
            command.env(variable, self.folder.join("run"));
        }
        command
    }

    pub(crate) fn runs(&self, words: &[&str]) -> String {
        let done = self.command(words).output().expect("the program starts");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{words:?}: {said}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// A command of the agents succeeds.
    pub(crate) fn does(&self, words: &[&str]) -> String {
        self.runs(&[&["tunnel-agent"], words].concat())
    }

    /// One fails.
    pub(crate) fn fails(&self, words: &[&str]) -> String {
        let words = [&["tunnel-agent"], words].concat();
        let done = self.command(&words).output().expect("the program starts");
        assert!(!done.status.success(), "{words:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    }

    /// Texts that a back-end has written and not removed.
    pub(crate) fn texts(&self, end: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join(end)).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    /// The state of a key in Host's database.
    pub(crate) fn state_of(&self, handle: &str) -> String {
        let said = self.does(&["keys", "-c", "host.toml"]);
        let line = said.lines().find(|line| line.starts_with(handle));
        let line = line.expect("the key is there");
        line.split_whitespace().nth(1).expect("a state").to_owned()
    }

    /// What a verified log says of a key.
    pub(crate) fn log(&self, role: &str, handle: &str) -> Vec<String> {
        let file = format!("{role}.log");
        self.does(&["audit", &file]);
        let text = fs::read_to_string(self.folder.join(&file)).expect("a log");
        let lines = text
            .lines()
            .filter(|line| line.contains(&format!("key={handle}")));
        lines.filter_map(|line| word(line, "step")).collect()
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        assert!(wait(PATIENCE, || is_so(self)), "never: {what}");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop((self.host.take(), self.target.take()));
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Agent {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("its words")
    }

    pub(crate) fn wait_to_say(&self, words: &str) {
        let is_said = wait(PATIENCE, || self.said().contains(words));
        assert!(is_said, "never {words:?}: {}", self.said());
    }

    /// Waits for a step.
    pub(crate) fn wait_for(&self, step: &str) {
        self.wait_to_say(&format!("step={step}"));
    }

    pub(crate) fn wait_within(&self, step: &str, limit: Duration) -> bool {
        wait(limit, || self.said().contains(&format!("step={step}")))
    }

    /// A field of a step's line.
    pub(crate) fn field(&self, step: &str, field: &str) -> String {
        self.wait_for(step);
        let said = self.said();
        let line = said
            .lines()
            .find(|line| line.contains(&format!("step={step}")));
        word(line.expect("it is said"), field).expect("the field is there")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        let _ = kill(Pid::from_raw(pid), signal);
    }

    pub(crate) fn kill(self) -> Ended {
        self.signal(Signal::SIGKILL);
        self.end()
    }

    /// SIGTERM.
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.end()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        wait(PATIENCE + PATIENCE, || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let status = status.unwrap_or_else(|| panic!("it does not end: {}", self.said()));
        Ended {
            is_success: status.success(),
            said: self.said(),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// The steps that it has shown.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.said
            .lines()
            .filter_map(|line| word(line, "step"))
            .collect()
    }
}

/// `name=VALUE` in a line.
fn word(line: &str, name: &str) -> Option<String> {
    let start = format!("{name}=");
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(&start).map(str::to_owned))
}

fn wait(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        sleep(TICK);
    }
}

//! `caravan link` with recordings that are longer than its memory limit.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Lines of a trace of more than 64 MiB.
const LINES: u64 = 8_500_000;
/// The memory that the program may map, in KiB: less than the file and its numbers.
const MOST_KIB: u32 = 98_304;

struct Trace(PathBuf);

impl Trace {
    fn new(name: &str, lines: u64, end: &str) -> Self {
        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("caravan-{own}-{name}.trace"));
        let mut file = BufWriter::new(File::create(&path).expect("a file"));
        for at in 1..=lines {
            writeln!(file, "{at}").expect("written");
        }
        file.write_all(end.as_bytes()).expect("written");
        file.flush().expect("written");
        Self(path)
    }

    /// The program's error for this file, with interfaces that do not exist.
    fn said(&self) -> String {
        let script = format!("ulimit -v {MOST_KIB}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_caravan"), "link"])
            .args(["--left", "none-1", "--right", "none-2", "--trace"])
            .arg(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // If the file stays, it does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_recording_longer_than_memory_is_looked_through_to_its_end() {
    let whole = Trace::new("whole", LINES, "");
    let length = std::fs::metadata(&whole.0).expect("there").len();
    assert!(length > u64::from(MOST_KIB) * 512, "{length}");
    let said = whole.said();
    assert!(said.contains("there is no interface \"none-1\""), "{said}");
    let cut = Trace::new("cut", LINES, "7\n");
    let said = cut.said();
    let wanted = format!(":{}: 7 ms comes after {LINES} ms", LINES + 1);
    assert!(said.contains(&wanted), "{said}");
    assert!(said.contains("--trace "), "{said}");
}

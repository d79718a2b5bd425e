//! Gives the native core a checksum of its sources, which `python/caravan/lab/freshness.py` also
//! computes over the sources that it finds: the CRC-32 of ISO-HDLC over each file's name and bytes.
//! Left out: versions of dependencies, which the lock file pins.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const CRATES: [&str; 6] = ["wire", "crypto", "document", "engine", "lab", "python"];

fn main() -> io::Result<()> {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo says it")).join("..");
    let mut check = Crc(!0);
    for name in CRATES {
        let folder = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        gather(&folder, &mut files)?;
        let mut files: Vec<(String, PathBuf)> = files
            .into_iter()
            .filter_map(|file| {
                let path = file.strip_prefix(&folder).ok()?.to_str()?;
                Some((path.replace('\\', "/"), file.clone()))
            })
            .collect();
        files.sort();
        for (path, file) in files {
            check.add(format!("{name}/{path}").as_bytes());
            check.add(&fs::read(file)?);
        }
    }
    println!("cargo::rustc-env=CARAVAN_SOURCES={:08x}", !check.0);
    Ok(())
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

struct Crc(u32);

impl Crc {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u32::from(*byte);
            for _ in 0..8 {
                self.0 = self.0 >> 1 ^ (0xedb8_8320 & (self.0 & 1).wrapping_neg());
            }
        }
    }
}

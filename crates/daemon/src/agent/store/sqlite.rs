//! The database as a file, by SQLite.
//!
//! **A rollback journal that is truncated, with `synchronous = EXTRA`.** A commit is on the disk
//! when it returns, and in the file itself. With a write-ahead log it would cost one `fsync` in
//! place of four, but be in a second file for long: a copy or a move of the first alone, while Host
//! runs, would make used keys valid again. Three commits for a tunnel can be slow.
//!
//! **Locks.** `NAME.lock` beside the file has a lock of the open file description for each role,
//! which ends with the process, however that ends. It is another file because SQLite's own locks
//! are the process's: closing any descriptor of the database would drop them. For the same reason
//! the database itself is looked at by name and never opened here, except when it is made.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use engine::agent::identity::AgentName;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, fcntl};
use nix::libc;
use nix::unistd::{AccessFlags, Uid, faccessat};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};

use super::value::{Row, Value};
use super::{BUSY_MAX, StoreError, StoreRole};
use crate::files;

/// Octets of `NAME.lock` that are locked: one while a process opens the database, one for Host, and
/// one for each Target by its name.
const SETUP: i64 = 0;
const HOST: i64 = 1;
const TARGETS: i64 = 16;

/// Pause between two attempts to lock.
const PAUSE: Duration = Duration::from_millis(10);

/// A file and our role in it.
pub(super) struct Place {
    path: PathBuf,
    lock_path: PathBuf,
    lock: File,
}

/// An open database.
pub(super) struct Opened {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
    connection: Connection,
}

/// Whether a database that is not there is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Made,
    Refused,
}

/// What every database of SQLite begins with; a new one is empty.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Whether a database may be there: in this folder, if that is there, and no other kind of file.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let (folder, _) = parts(path)?;
    if !folder.exists() {
        return Ok(());
    }
    trusted(folder, path)?;
    let begins = files::beginning(path, MAGIC.len()).map_err(of_path(path))?;
    match begins.is_none_or(|found| found.is_empty() || found == MAGIC) {
        true => Ok(()),
        false => Err(StoreError::Foreign(path.to_owned())),
    }
}

/// Its folder and its name.
fn parts(path: &Path) -> Result<(&Path, &OsStr), StoreError> {
    let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
        return Err(StoreError::Address("the path names no file".into()));
    };
    Ok(match folder.as_os_str().is_empty() {
        true => (Path::new("."), name),
        false => (folder, name),
    })
}

/// The folder without links, which SQLite would refuse. Nobody else may write there, and we may.
fn trusted(folder: &Path, path: &Path) -> Result<PathBuf, StoreError> {
    let of_file = of_path(path);
    let folder = folder.canonicalize().map_err(&of_file)?;
    let opened = files::open_folder(&folder).map_err(&of_file)?;
    if !files::is_ours_alone(&opened.metadata().map_err(&of_file)?) {
        let why = "other users can write into this folder, so a database in it is not trusted: \
                   make it its user's own, mode 0700";
        return Err(untrusted(&folder, why));
    }
    // SQLite would find out at the first write.
    faccessat(&opened, ".", AccessFlags::W_OK, AtFlags::AT_EACCESS)
        .map_err(|fault| of_folder(&folder, fault))?;
    Ok(folder)
}

fn of_path(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |fault| StoreError::File {
        path: path.to_owned(),
        fault,
    }
}

impl Place {
    /// Takes a role. Its folder is made if it is missing.
    pub(super) fn claim(path: &Path, role: StoreRole) -> Result<Self, StoreError> {
        let of_file = of_path(path);
        let (folder, name) = parts(path)?;
        files::make_folder(folder, 0o700).map_err(&of_file)?;
        let folder = trusted(folder, path)?;
        let path = folder.join(name);
        let mut lock_name = name.to_owned();
        lock_name.push(".lock");
        let lock_path = folder.join(lock_name);
        let lock = files::open_lock(&lock_path).map_err(|fault| StoreError::File {
            path: lock_path.clone(),
            fault,
        })?;
        let found = lock.metadata().map_err(of_file)?;
        if !found.is_file() || !files::is_ours_alone(&found) {
            return Err(untrusted(&lock_path, "it is not our file: remove it"));
        }
        let place = Self {
            path,
            lock_path,
            lock,
        };
        match role {
            StoreRole::Host => place.hold(HOST, "Host")?,
            StoreRole::Target(name) => place.hold(octet_of(name), "Target")?,
            StoreRole::Administrator => {}
        }
        Ok(place)
    }

    /// Locks a role for as long as we live.
    fn hold(&self, octet: i64, role: &'static str) -> Result<(), StoreError> {
        match self.try_lock(octet, libc::F_WRLCK) {
            Ok(()) => Ok(()),
            Err(Errno::EAGAIN | Errno::EACCES) => Err(StoreError::InUse {
                database: self.path.display().to_string(),
                role,
            }),
            Err(fault) => Err(self.of_lock(fault)),
        }
    }

    fn try_lock(&self, octet: i64, kind: i32) -> Result<(), Errno> {
        self.lock_octets(octet, 1, kind)
    }

    /// A length of 0 is all octets from the first on.
    fn lock_octets(&self, first: i64, length: i64, kind: i32) -> Result<(), Errno> {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: first,
            l_len: length,
            l_pid: 0,
        };
        fcntl(&self.lock, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
    }

    fn of_lock(&self, fault: Errno) -> StoreError {
        StoreError::File {
            path: self.lock_path.clone(),
            fault: fault.into(),
        }
    }

    /// Opens the database.
    pub(super) fn open(&self, missing: Missing) -> Result<Opened, StoreError> {
        let tries = BUSY_MAX.as_millis() / PAUSE.as_millis();
        for round in 0.. {
            match self.try_lock(SETUP, libc::F_WRLCK) {
                Ok(()) => break,
                Err(Errno::EAGAIN | Errno::EACCES) if round < tries => thread::sleep(PAUSE),
                Err(Errno::EAGAIN | Errno::EACCES) => {
                    return Err(StoreError::Locked(self.path.clone()));
                }
                Err(fault) => return Err(self.of_lock(fault)),
            }
        }
        let opened = self.open_alone(missing);
        let unlocked = self.try_lock(SETUP, libc::F_UNLCK);
        unlocked.map_err(|fault| self.of_lock(fault))?;
        opened
    }

    fn open_alone(&self, missing: Missing) -> Result<Opened, StoreError> {
        let path = &self.path;
        match fs::symlink_metadata(path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => match missing {
                Missing::Made => make(path).map_err(|fault| self.of_file(fault))?,
                Missing::Refused => return Err(StoreError::Gone(path.clone())),
            },
            Err(fault) => return Err(self.of_file(fault)),
            Ok(_) => {}
        }
        let found = fs::symlink_metadata(path).map_err(|fault| self.of_file(fault))?;
        let is_ours = found.uid() == Uid::effective().as_raw() && found.nlink() == 1;
        if !found.is_file() || !is_ours {
            let why = "it is a link, has a second name, or belongs to another user, so it is not \
                       trusted";
            return Err(untrusted(path, why));
        }
        if !files::is_ours_alone(&found) {
            let why = "other users can write into it, so it is not trusted";
            return Err(untrusted(path, why));
        }
        if found.mode() & 0o077 != 0 {
            let ours = Permissions::from_mode(0o600);
            fs::set_permissions(path, ours).map_err(|fault| self.of_file(fault))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(path, flags);
        let connection = connection.map_err(|fault| fault_of(path, fault))?;
        let opened = Opened {
            path: path.clone(),
            identity: (found.dev(), found.ino()),
            connection,
        };
        opened.prepare().map_err(|fault| fault_of(path, fault))?;
        match opened.is_in_place() {
            true => Ok(opened),
            false => Err(StoreError::Gone(path.clone())),
        }
    }

    fn of_file(&self, fault: io::Error) -> StoreError {
        StoreError::File {
            path: self.path.clone(),
            fault,
        }
    }
}

impl Drop for Place {
    /// The lock is the open file's, and a child that is just being started has it open for a
    /// moment, too.
    fn drop(&mut self) {
        let _ = self.lock_octets(0, 0, libc::F_UNLCK);
    }
}

/// The octet of a Target's lock. That two names have one is as likely as a collision of 62 bits.
fn octet_of(name: AgentName) -> i64 {
    let start: [u8; 8] = *name.0.first_chunk().expect("8 of 16 octets");
    TARGETS + (i64::from_be_bytes(start) & (i64::MAX >> 1))
}

/// An empty file, whose name is on the disk.
fn make(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)?.sync_all()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    files::open_folder(folder)?.sync_all()
}

fn of_folder(folder: &Path, fault: Errno) -> StoreError {
    let why = format!("this folder cannot be written to: {}", fault.desc());
    untrusted(folder, &why)
}

fn untrusted(path: &Path, why: &str) -> StoreError {
    StoreError::Untrusted {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

fn fault_of(path: &Path, fault: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match fault.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::NotADatabase) => StoreError::Foreign(path),
        _ => StoreError::Sqlite { path, fault },
    }
}

impl Opened {
    fn prepare(&self) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.busy_timeout(BUSY_MAX)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        let mode = "PRAGMA journal_mode = TRUNCATE";
        let mode: String = connection.query_row(mode, [], |row| row.get(0))?;
        if mode != "truncate" {
            let what = format!("its journal is \"{mode}\", and another program keeps it so");
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            return Err(rusqlite::Error::SqliteFailure(code, Some(what)));
        }
        // Overwrites what is deleted or changed: a pair of the paper's own form is a secret.
        connection.execute_batch(
            "PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; \
             PRAGMA cell_size_check = ON;",
        )
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file still has its name. Otherwise what is written would be lost with it.
    pub(super) fn is_in_place(&self) -> bool {
        let named = fs::symlink_metadata(&self.path);
        named.is_ok_and(|it| (it.dev(), it.ino()) == self.identity)
    }

    pub(super) fn run(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.connection.execute_batch(sql);
        done.map_err(|fault| fault_of(&self.path, fault))
    }

    pub(super) fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(&of_sqlite(sql))?;
            let columns = statement.column_count();
            let mut found = statement.query(params_from_iter(values))?;
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                let values = (0..columns).map(|column| row.get_ref(column).map(value_of));
                rows.push(Row::new(values.collect::<Result<_, _>>()?));
            }
            Ok(rows)
        };
        read().map_err(|fault| fault_of(&self.path, fault))
    }

    pub(super) fn change(&self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        let write = || {
            let mut statement = self.connection.prepare_cached(&of_sqlite(sql))?;
            statement.execute(params_from_iter(values))
        };
        let changed = write().map_err(|fault| fault_of(&self.path, fault))?;
        Ok(changed as u64)
    }
}

/// SQLite numbers its parameters `?1`, and has one writer instead of locked rows.
fn of_sqlite(sql: &str) -> String {
    sql.replace('$', "?").replace(" FOR UPDATE", "")
}

/// A text that is not UTF-8 was not written by us, and no column takes octets for text.
fn value_of(column: ValueRef<'_>) -> Value {
    match column {
        ValueRef::Integer(number) => Value::Number(number),
        ValueRef::Blob(octets) => Value::octets(octets),
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::octets(text),
        },
        ValueRef::Null | ValueRef::Real(_) => Value::Nothing,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Nothing => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Octets(octets) => ValueRef::Blob(octets),
        }))
    }
}

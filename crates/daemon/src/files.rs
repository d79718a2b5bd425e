//! Safe access to files in folders that other users may write to: links are not followed, files are
//! checked after opening, and reads are bounded.

use std::fs::{self, DirBuilder, File, FileType, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat, renameat};
use nix::libc::{ELOOP, ENXIO, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_PATH};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, unlinkat};
use zeroize::Zeroizing;

/// Write permission for others than the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Any permission for others than the owner.
const OTHERS: u32 = 0o077;

/// Creates a folder and its parents if missing, and opens it. Does not follow a link in the last
/// part of the path.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<File> {
    create_folder(path, mode)?;
    open_folder(path)
}

/// The same without the right to read the folder. Later accesses are judged by the rights at their
/// time.
pub fn hold_folder(path: &Path, mode: u32) -> io::Result<File> {
    create_folder(path, mode)?;
    held(path)
}

fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.is_dir()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(above)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Err(fault) if fault.kind() != ErrorKind::AlreadyExists => Err(fault),
        _ => Ok(()),
    }
}

fn held(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    options.custom_flags(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    options.open(path)
}

/// Opens a folder, never through a link.
pub fn open_folder(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    options.custom_flags(O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    options.open(path)
}

/// Whether only we could have written there.
pub fn is_ours_alone(found: &Metadata) -> bool {
    found.uid() == Uid::effective().as_raw() && found.permissions().mode() & WRITABLE_BY_OTHERS == 0
}

/// Refuses a folder that another user could have written to: its content is not trusted.
pub fn check_ours(folder: &File, path: &Path) -> io::Result<()> {
    let found = folder.metadata()?;
    if is_ours_alone(&found) {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "user {} can write into {}, so it is not trusted; an earlier version may have left \
             it: look for leftover changes (`ip rule`, `nft list ruleset`, /etc/resolv.conf), then \
             `rm -r {1}`",
            found.uid(),
            path.display()
        ),
    ))
}

/// Gives an open folder to a user. We need not be able to read it.
pub fn give_folder(folder: &File, user: Uid, group: Option<Gid>) -> io::Result<()> {
    if folder.metadata()?.uid() == user.as_raw() {
        return Ok(());
    }
    Ok(fchownat(
        folder,
        "",
        Some(user),
        group,
        AtFlags::AT_EMPTY_PATH,
    )?)
}

/// Reads a file of at most this many octets. Refuses links, devices and pipes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_if(path, most, |_| true)
}

/// The same, for a file that only we could have written.
pub fn read_ours(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_if(path, most, is_ours_alone)
}

/// Opens a file for reading. Refuses links, devices and pipes.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path).map_err(|fault| told(fault, path))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => {
            let text = format!("{} is no plain file", path.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        }
    }
}

/// Refuses an open secret that others may read or change, or that a stranger has written.
pub fn check_secret(file: &File, path: &Path) -> io::Result<()> {
    let found = file.metadata()?;
    let (owner, name) = (found.uid(), path.display());
    let why = if !found.is_file() {
        format!("{name} is no plain file")
    } else if owner != Uid::effective().as_raw() && owner != 0 {
        format!("{name} has a secret and belongs to user {owner}: `chown root {name}`")
    } else if found.permissions().mode() & OTHERS != 0 {
        format!("others may read or change {name}, which has a secret: `chmod 600 {name}`")
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// The same for a secret that may come through a pipe or a device, which whoever made it has to
/// keep: only a plain file is refused.
pub fn check_given(file: &File, path: &Path) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => check_secret(file, path),
        false => Ok(()),
    }
}

/// Reads a secret of at most this many octets. Links to it are followed.
pub fn read_secret(path: &Path, most: u64) -> io::Result<Zeroizing<String>> {
    let mut options = File::options();
    options.read(true).custom_flags(O_NONBLOCK | O_CLOEXEC);
    let file = options.open(path)?;
    check_secret(&file, path)?;
    secret_of(&file, most)
}

/// Reads an open file of at most this many octets that may have a secret. Whoever finds one there
/// calls [`check_secret`] with the same file: its path may name another one by then.
pub fn secret_of(file: &File, most: u64) -> io::Result<Zeroizing<String>> {
    // Its room does not grow, so no copy stays behind.
    let len = file.metadata()?.len().min(most);
    let mut text = Zeroizing::new(String::with_capacity(len as usize + 64));
    match file.take(most + 1).read_to_string(&mut text)? as u64 <= most {
        true => Ok(text),
        false => Err(ErrorKind::FileTooLarge.into()),
    }
}

fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // Opening a pipe without a writer would block.
    options.read(true);
    options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    options.open(path)
}

/// Reads a secret of at most this many octets: a plain file of ours or of root that nobody else may
/// read or change.
pub fn read_private(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let refused = |text: String| Err(io::Error::new(ErrorKind::PermissionDenied, text));
    let name = path.display();
    // A file in memory that this process was started with has no other name than such a link.
    let file = match path.starts_with("/proc/self/fd") {
        true => File::open(path)?,
        false => open_plain(path)?,
    };
    let found = file.metadata()?;
    if found.uid() != 0 && found.uid() != Uid::effective().as_raw() {
        let user = found.uid();
        return refused(format!(
            "it is a secret and belongs to user {user}: `chown root {name}`"
        ));
    }
    if found.permissions().mode() & OTHERS != 0 {
        return refused(format!(
            "it is a secret, and others may read or change it: `chmod 600 {name}`"
        ));
    }
    text_of(file, &found, &name.to_string(), most)
}

fn read_if(path: &Path, most: u64, believes: fn(&Metadata) -> bool) -> io::Result<Vec<u8>> {
    let file = open_without_waiting(path)?;
    let found = file.metadata()?;
    let name = path.display().to_string();
    match believes(&found) {
        true => text_of(file, &found, &name, most),
        false => Err(strange(&name)),
    }
}

fn text_of(file: File, found: &Metadata, name: &str, most: u64) -> io::Result<Vec<u8>> {
    if !found.is_file() {
        return Err(strange(name));
    }
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text)?;
    match text.len() as u64 <= most {
        true => Ok(text),
        false => Err(ErrorKind::FileTooLarge.into()),
    }
}

fn strange(name: &str) -> io::Error {
    let text = format!("{name} is not our file");
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// Replaces a file in a folder, mode 0600, all or nothing. Follows no link at either name. Needs no
/// right to the path of the folder.
pub fn replace(folder: &File, name: &str, text: &[u8]) -> io::Result<File> {
    let (file, new) = write_new(folder, name, text)?;
    renameat(folder, &new[..], folder, name)?;
    Ok(file)
}

/// The same with mode 0644 whatever our umask is: every program of the host can read it.
pub fn publish(folder: &File, name: &str, text: &[u8]) -> io::Result<()> {
    let (file, new) = write_new(folder, name, text)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    Ok(renameat(folder, &new[..], folder, name)?)
}

/// As [`replace`], and it survives a loss of power once this returns. The folder must be readable.
pub fn replace_durably(folder: &File, name: &str, text: &[u8]) -> io::Result<()> {
    let (file, new) = write_new(folder, name, text)?;
    file.sync_all()?;
    renameat(folder, &new[..], folder, name)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    File::from(openat(folder, ".", flags, Mode::empty())?).sync_all()
}

/// Writes what is to replace a file, under the returned name.
fn write_new(folder: &File, name: &str, text: &[u8]) -> io::Result<(File, String)> {
    let new = format!("{name}.new");
    match unlinkat(folder, &new[..], UnlinkatFlags::NoRemoveDir) {
        Err(Errno::ENOENT) | Ok(()) => {}
        Err(fault) => return Err(fault.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let opened = openat(folder, &new[..], flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let mut file = File::from(opened);
    file.write_all(text)?;
    Ok((file, new))
}

/// Reads a file of an open folder, of at most this many octets, with its time of modification.
/// Refuses links, devices and pipes. Needs no right to the path of the folder.
pub fn read_in(folder: &File, name: &str, most: u64) -> io::Result<(Vec<u8>, SystemTime)> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let found = file.metadata()?;
    Ok((text_of(file, &found, name, most)?, found.modified()?))
}

/// Opens a file for locking. Refuses links and keeps its content.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    options.open(path)
}

/// Opens an empty file for appending, mode 0600. Refuses links and files of other users.
pub fn open_log(path: &Path) -> io::Result<File> {
    let file = open_private(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(strange(&path.display().to_string())),
    }
}

/// The same, but also accepts our own pipe with a reader, or a device. Refuses links and files of
/// other users, who could read it or have it overwritten.
pub fn open_private(path: &Path) -> io::Result<File> {
    let (file, kind) = open_ours(path)?;
    if kind.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a plain file, mode 0600, to write behind what it has. Refuses links, devices, pipes and
/// files of other users.
pub fn open_behind(path: &Path) -> io::Result<File> {
    let (file, kind) = open_ours(path)?;
    match kind.is_file() {
        true => Ok(file),
        false => Err(strange(&path.display().to_string())),
    }
}

fn open_ours(path: &Path) -> io::Result<(File, FileType)> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    // Opening a pipe without a reader would block.
    options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    let file = options.open(path).map_err(|fault| told(fault, path))?;
    let found = file.metadata()?;
    let kind = found.file_type();
    let is_device = kind.is_char_device();
    // Looked up again: who owns the folder may have removed a second name of another file.
    let is_it = fs::symlink_metadata(path).is_ok_and(|named| {
        (named.dev(), named.ino(), named.nlink()) == (found.dev(), found.ino(), 1)
    });
    let is_ours = is_it && found.uid() == Uid::effective().as_raw();
    if !is_device && !(is_ours && (kind.is_file() || kind.is_fifo())) {
        return Err(strange(&path.display().to_string()));
    }
    if kind.is_file() {
        // A file of an earlier run may be readable for others.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok((file, kind))
}

/// The first octets of a plain file, up to this many. None if there is no such file.
pub fn beginning(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match open_plain(path) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if !path.is_file() => return Ok(None),
        opened => opened?,
    };
    let mut octets = Vec::new();
    file.take(most as u64).read_to_end(&mut octets)?;
    Ok(Some(octets))
}

/// Why the system refused, in words alone.
pub fn reason(fault: &io::Error) -> String {
    match fault.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => fault.to_string(),
    }
}

/// Adds to an error what failed, and at which path, unless it names that already. Its kind stays.
pub fn at(what: &str, path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |fault| {
        let (path, reason) = (path.display().to_string(), reason(&fault));
        match reason.contains(&path) {
            true => fault,
            false => io::Error::new(fault.kind(), format!("{what} {path}: {reason}")),
        }
    }
}

/// Explains the problem with an existing file.
fn told(fault: io::Error, path: &Path) -> io::Error {
    let why = match fault.raw_os_error() {
        Some(ELOOP) => "is a link, which is not followed",
        Some(ENXIO) => "is a pipe that nobody reads",
        _ => return fault,
    };
    io::Error::new(fault.kind(), format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_error_names_its_path_once_and_has_no_number() {
        let path = Path::new("/run/caravan/home.d");
        let name = at("cannot write into", path);
        let fault = name(Errno::EROFS.into());
        let text = "cannot write into /run/caravan/home.d: Read-only file system";
        assert_eq!(fault.to_string(), text);
        assert_eq!(fault.kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(name(fault).to_string(), text);
        assert_eq!(name(Errno::EAGAIN.into()).kind(), ErrorKind::WouldBlock);
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("caravan-files-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        make_folder(&path, 0o700).unwrap();
        path
    }

    #[test]
    fn what_a_link_leads_to_is_neither_read_nor_written() {
        let folder = folder("links");
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        fs::write(&victim, "before").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(read(&link, 100).is_err());
        let fault = open_plain(&link).unwrap_err().to_string();
        assert!(fault.contains("link, which is not followed"), "{fault}");
        assert!(open_log(&link).is_err() && open_lock(&link).is_err());
        symlink(&victim, folder.join("file.new")).unwrap();
        replace(&open_folder(&folder).unwrap(), "file", b"after").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "before");
        assert_eq!(read(&folder.join("file"), 5).unwrap(), b"after");
        assert!(
            read(&folder.join("file"), 4).is_err(),
            "longer than it may be"
        );
        symlink(&folder, folder.join("folder")).unwrap();
        assert!(open_folder(&folder.join("folder")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_recorded_goes_to_no_link_and_to_nobody_else() {
        let folder = folder("private");
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.join(name));
        fs::write(&file, "before").unwrap();
        fs::hard_link(&file, &link).unwrap();
        assert!(open_private(&file).is_err(), "it has a second name");
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        fs::remove_file(&link).unwrap();
        symlink(&file, &link).unwrap();
        let fault = open_private(&link).unwrap_err().to_string();
        assert!(fault.contains("link, which is not followed"), "{fault}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let fault = open_private(&pipe).unwrap_err().to_string();
        assert!(fault.contains("pipe that nobody reads"), "{fault}");
        let reader = File::options().read(true).write(true).open(&pipe).unwrap();
        open_private(&pipe).unwrap().write_all(b"x").unwrap();
        drop(reader);
        open_private(&file).unwrap().write_all(b"after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_secret_that_others_may_read_is_none() {
        let folder = folder("secret");
        let [file, link] = ["file", "link"].map(|name| folder.join(name));
        fs::write(&file, "secret").unwrap();
        symlink("file", &link).unwrap();
        for (mode, is_good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&file, &link] {
                let read = read_secret(path, 100).map(|text| text.to_string());
                assert_eq!(read.is_ok_and(|text| text == "secret"), is_good, "{mode:o}");
            }
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let fault = read_secret(&file, 100).unwrap_err().to_string();
        assert!(fault.contains("chmod 600"), "{fault}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read_secret(&file, 5).is_err(), "longer than it may be");
        assert!(read_secret(&folder, 100).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_secret_may_come_through_a_pipe() {
        let folder = folder("given");
        let path = folder.join("file");
        fs::write(&path, "secret").unwrap();
        for (mode, is_good) in [(0o600, true), (0o644, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let checked = check_given(&File::open(&path).unwrap(), &path);
            assert_eq!(checked.is_ok(), is_good, "{mode:o}");
        }
        let (reader, _writer) = io::pipe().unwrap();
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(check_given(&reader, &path).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_is_no_file_and_a_folder_open_to_all_is_not_believed() {
        let folder = folder("pipe");
        let pipe = folder.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, 100).is_err());
        let fault = open_plain(&pipe).unwrap_err().to_string();
        assert!(fault.contains("no plain file"), "{fault}");
        assert!(check_ours(&open_folder(&folder).unwrap(), &folder).is_ok());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let fault = check_ours(&open_folder(&folder).unwrap(), &folder).unwrap_err();
        assert!(fault.to_string().contains("not trusted"), "{fault}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! Texts for the operating system's errors with files.

use std::io::{self, ErrorKind};

/// The error without the system's number for it. Rare errors keep the number.
pub fn said(fault: &io::Error) -> String {
    let words = match (fault.raw_os_error(), fault.kind()) {
        (Some(_), ErrorKind::NotFound) => "No such file or directory",
        (Some(_), ErrorKind::PermissionDenied) => "Permission denied",
        (Some(_), ErrorKind::NotADirectory) => "Not a directory",
        (Some(_), ErrorKind::IsADirectory) => "Is a directory",
        (Some(_), ErrorKind::StorageFull) => "No space left on device",
        (Some(_), ErrorKind::ReadOnlyFilesystem) => "Read-only file system",
        _ => return fault.to_string(),
    };
    words.to_owned()
}

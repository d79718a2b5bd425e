//! What the operating system says of a file, in words.

use std::io::{self, ErrorKind};

/// The fault without the system's number for it. What is rare keeps the number.
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

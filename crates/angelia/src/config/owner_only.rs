//! Files and folders that only their owner can access. The platform-specific code is here.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use uuid::Uuid;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const OTHERS_MASK: u32 = 0o077;

/// Creates a folder and its missing parent folders.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

pub(super) fn narrow_folder(path: &Path) -> io::Result<()> {
    narrow(path, FOLDER_MODE)
}

pub(super) fn narrow_file(path: &Path) -> io::Result<()> {
    narrow(path, FILE_MODE)
}

fn narrow(path: &Path, mode: u32) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & OTHERS_MASK == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Creates a file with its content atomically. If two processes try at once, the first wins and
/// both continue with its content: creating a hard link either succeeds or fails, and no reader
/// ever sees half a file.
pub(super) fn create_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(Uuid::new_v4().simple().to_string());
    let written = write_synced(&draft, content).and_then(|()| fs::hard_link(&draft, path));
    // Writing the draft may have failed before the draft existed.
    let _left_behind = fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

//! The real path of a file that may not exist yet.

use std::{
    ffi::OsStr,
    io,
    path::{Component, Path, PathBuf},
};

/// Why a path has no real path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RealPathError {
    /// The path contains a dangling link, or `..` after a component that does not exist.
    #[error("it leads nowhere")]
    Nowhere,
    #[error(transparent)]
    Io(io::Error),
}

/// Resolves all symbolic links in an absolute path. The last components need not exist.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf, RealPathError> {
    let mut there = path;
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut real = loop {
        match there.canonicalize() {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link exists but cannot be resolved.
                if there.symlink_metadata().is_ok() {
                    return Err(RealPathError::Nowhere);
                }
                let (Some(name), Some(parent)) = (there.file_name(), there.parent()) else {
                    return Err(RealPathError::Nowhere);
                };
                missing.push(name);
                there = parent;
            }
            Err(source) => return Err(RealPathError::Io(source)),
        }
    };
    real.extend(missing.iter().rev());
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::RootDir);
    if real.components().all(is_plain) { Ok(real) } else { Err(RealPathError::Nowhere) }
}

//! Checks whether git tracks a file, because a key or a path on this machine does not belong in a
//! repository.

use std::{ffi::OsStr, path::Path};

use angelia_executors::process::system_tool::run_tool;

use crate::{
    cli::error::{CommandError, Exit},
    config::Environment,
};

/// Exit codes of `git check-ignore`.
const IGNORED: i32 = 0;
const NOT_IGNORED: i32 = 1;

/// Fails if git tracks the file, or would do so with the next `git add`. The last component of
/// `path` must not be a link.
pub(super) fn ensure_untracked(
    path: &Path,
    tool: &str,
    environment: &Environment,
) -> Result<(), CommandError> {
    let Some(folder) = path.ancestors().skip(1).find(|folder| folder.is_dir()) else {
        return Ok(());
    };
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    if !folder.ancestors().any(|folder| folder.join(".git").exists()) {
        return Ok(());
    }
    let refuse = |why: String| {
        let hint = format!(
            "add it to `.gitignore`, or write it yourself: `angelia setup {tool}` prints it"
        );
        Err(CommandError::new(Exit::Failed, why).with_hint(hint))
    };
    // A repository can name a program that git runs to detect changes, so disable that.
    let mut arguments = vec!["-c".to_owned(), "core.fsmonitor=false".to_owned(), "-C".to_owned()];
    let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (Some(folder), Some(file)) = (folder.to_str(), file.to_str()) else {
        return refuse(format!("cannot tell whether git tracks {}", path.display()));
    };
    for argument in [folder, "check-ignore", "--quiet", "--", file] {
        arguments.push(argument.to_owned());
    }
    let is_for_git = |name: &OsStr| name.as_encoded_bytes().starts_with(b"GIT_");
    let variables = environment.iter().filter(|(name, _)| !is_for_git(name));
    match run_tool("git", &arguments, variables).map(|ran| ran.status.code()) {
        Ok(Some(IGNORED)) => Ok(()),
        Ok(Some(NOT_IGNORED)) => refuse(format!("{file} is in a git repository")),
        _ => refuse(format!("cannot tell whether git tracks {file}")),
    }
}

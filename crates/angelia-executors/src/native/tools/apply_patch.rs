//! `apply_patch`: changes several files at once, all or none. It replaces `edit` and `write` for
//! models that were trained with it.
//!
//! A patch quotes the lines that it changes, so a file need not have been read before.

use std::{
    collections::HashSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{FileChange, FileEdit},
    ports::BoxFuture,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    edit::decode,
    patch::{FilePatch, apply_hunks, parse_patch},
    real_file::{RealFileError, StagedFile, read_file, remove_file, replace_file},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};

#[derive(Debug)]
pub struct ApplyPatchTool {
    workspace: Arc<Workspace>,
}

impl ApplyPatchTool {
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Debug, Deserialize)]
struct PatchArguments {
    patch: String,
}

#[derive(Debug)]
struct PatchCall {
    workspace: Arc<Workspace>,
    files: Vec<PatchedFile>,
    plan: CallPlan,
}

/// The patch of one file, with real paths.
#[derive(Debug)]
struct PatchedFile {
    patch: FilePatch,
    path: PathBuf,
    moved_to: Option<PathBuf>,
}

/// The change to one file.
#[derive(Debug)]
struct FileOutcome {
    path: PathBuf,
    /// `None` if the file does not exist before.
    old: Option<Vec<u8>>,
    /// `None` if the file does not exist afterwards.
    new: Option<Vec<u8>>,
}

impl Tool for ApplyPatchTool {
    fn name(&self) -> &'static str {
        "apply_patch"
    }

    fn description(&self) -> &'static str {
        "Change files with a patch, all or nothing:\n*** Begin Patch\n*** Update File: path\n*** Move to: \
         path (optional)\n@@ a line before the change (optional)\n context\n-removed\n+added\n*** Add File: \
         path\n+content\n*** Delete File: path\n*** End Patch"
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: PatchArguments = parse_arguments(arguments)?;
        let patches = parse_patch(&wanted.patch).map_err(|error| {
            CallError::new(format!("{error}; nothing was changed, so send the whole patch again"))
        })?;
        let mut files = Vec::new();
        for patch in patches {
            let moved_to = match &patch {
                FilePatch::Update { move_to: Some(path), .. } => {
                    Some(self.workspace.resolve_for_change(path)?)
                }
                _ => None,
            };
            files.push(PatchedFile {
                path: self.workspace.resolve_for_change(patch.path())?,
                moved_to,
                patch,
            });
        }
        let paths: Vec<PathBuf> = files
            .iter()
            .flat_map(|file| [Some(&file.path), file.moved_to.as_ref()])
            .flatten()
            .cloned()
            .collect();
        let mut known = HashSet::new();
        if let Some(twice) = paths.iter().find(|path| !known.insert(*path)) {
            return Err(CallError::new(format!(
                "the patch names {} twice; put all changes of a file into one `*** Update File`",
                self.workspace.shown(twice)
            )));
        }
        let title = match &paths[..] {
            [one] => format!("patch {}", self.workspace.shown(one)),
            [one, more @ ..] => {
                format!("patch {} and {} more", self.workspace.shown(one), more.len())
            }
            [] => "patch".to_owned(),
        };
        let plan = CallPlan::edits(title, paths);
        Ok(Box::new(PatchCall { workspace: Arc::clone(&self.workspace), files, plan }))
    }
}

impl PreparedCall for PatchCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn review(&self) -> Result<Vec<FileEdit>, CallError> {
        let edits = self.outcomes()?.into_iter().map(|outcome| {
            let change = match outcome.new {
                Some(bytes) => FileChange::Write(String::from_utf8_lossy(&bytes).into()),
                None => FileChange::Delete,
            };
            FileEdit { path: outcome.path, change }
        });
        Ok(edits.collect())
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.apply())
    }
}

impl PatchCall {
    /// Computes the new content of all files, without changing them.
    fn outcomes(&self) -> Result<Vec<FileOutcome>, CallError> {
        let mut outcomes = Vec::new();
        for file in &self.files {
            self.add_outcomes(file, &mut outcomes).map_err(|error| {
                CallError::new(format!("{error}; nothing was changed, in no file"))
            })?;
        }
        Ok(outcomes)
    }

    fn add_outcomes(
        &self,
        file: &PatchedFile,
        outcomes: &mut Vec<FileOutcome>,
    ) -> Result<(), CallError> {
        let shown = self.workspace.shown(&file.path);
        let path = file.path.clone();
        let old = self.read(&path)?;
        match (&file.patch, old) {
            (FilePatch::Add { content, .. }, None) => {
                outcomes.push(FileOutcome { path, old: None, new: Some(content.clone().into()) });
            }
            (FilePatch::Add { .. }, Some(_)) => {
                return Err(CallError::new(format!("{shown} exists; use `*** Update File`")));
            }
            (_, None) => return Err(CallError::new(format!("{shown} does not exist"))),
            (FilePatch::Delete { .. }, old) => outcomes.push(FileOutcome { path, old, new: None }),
            (FilePatch::Update { hunks, .. }, Some(old)) => {
                let text = decode(old.clone(), &shown)?;
                let changed = apply_hunks(&text.text, hunks)
                    .map_err(|error| CallError::new(format!("{shown}: {error}")))?;
                let new = Some(text.form().encode(&changed));
                let Some(target) = &file.moved_to else {
                    outcomes.push(FileOutcome { path, old: Some(old), new });
                    return Ok(());
                };
                if self.read(target)?.is_some() {
                    let target = self.workspace.shown(target);
                    return Err(CallError::new(format!("{target} exists; move to another path")));
                }
                outcomes.push(FileOutcome { path: target.clone(), old: None, new });
                outcomes.push(FileOutcome { path, old: Some(old), new: None });
            }
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, CallError> {
        read_file(path).map_err(|error| {
            CallError::new(format!("{} cannot be read: {error}", self.workspace.shown(path)))
        })
    }

    fn apply(&self) -> Result<CallOutput, CallError> {
        let outcomes = self.outcomes()?;
        write_all(&outcomes).map_err(|(path, error)| {
            let shown = self.workspace.shown(path);
            CallError::new(format!(
                "{shown} could not be changed: {error}; the files that were changed before it have \
                 their old content again"
            ))
        })?;
        let mut text = String::from("changed:\n");
        for outcome in &outcomes {
            let letter = match (&outcome.old, &outcome.new) {
                (None, _) => 'A',
                (_, None) => 'D',
                _ => 'M',
            };
            let shown = self.workspace.shown(&outcome.path);
            let _infallible = writeln!(text, "{letter} {shown}");
            match &outcome.new {
                Some(bytes) => self.workspace.note_seen(&outcome.path, bytes),
                None => self.workspace.forget(&outcome.path),
            }
        }
        let changed = outcomes.into_iter().map(|outcome| outcome.path).collect();
        Ok(CallOutput { changed, ..CallOutput::text(text) })
    }
}

/// Writes all files, or leaves all as they were. The new contents are on disk before the first file is
/// replaced, so a full disk stops the patch early.
fn write_all(outcomes: &[FileOutcome]) -> Result<(), (&Path, RealFileError)> {
    let mut staged = Vec::new();
    for outcome in outcomes {
        let new = outcome.new.as_ref();
        let new = new.map(|bytes| StagedFile::write(&outcome.path, bytes)).transpose();
        staged.push(new.map_err(|error| (&*outcome.path, error))?);
    }
    for (done, (outcome, staged)) in outcomes.iter().zip(staged).enumerate() {
        let written = match staged {
            Some(staged) => staged.commit(),
            None => remove_file(&outcome.path),
        };
        if let Err(error) = written {
            outcomes[..done].iter().for_each(restore);
            return Err((&outcome.path, error));
        }
    }
    Ok(())
}

fn restore(outcome: &FileOutcome) {
    let restored = match &outcome.old {
        Some(bytes) => replace_file(&outcome.path, bytes),
        None => remove_file(&outcome.path),
    };
    if let Err(error) = restored {
        tracing::warn!(%error, "cannot restore {} after a failed patch", outcome.path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_failure_in_the_middle_restores_what_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::write(root.join("a"), "old").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        let change = |name: &str, old: Option<&str>, new: Option<&str>| FileOutcome {
            path: root.join(name),
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        let outcomes = [
            change("a", Some("old"), Some("new")),
            change("b", None, Some("new")),
            // A folder is not removed.
            change("folder", Some(""), None),
        ];
        let (path, _) = write_all(&outcomes).unwrap_err();
        assert_eq!(path, root.join("folder"));
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old");
        assert!(!root.join("b").exists());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2);
    }
}

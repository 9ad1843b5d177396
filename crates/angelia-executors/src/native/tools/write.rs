//! `write`: creates a file, or replaces one that the model has read.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{FileChange, FileEdit},
    ports::BoxFuture,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    real_file::{read_file, replace_file},
    text_file::{TextFile, TextForm},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};

#[derive(Debug)]
pub struct WriteTool {
    workspace: Arc<Workspace>,
}

impl WriteTool {
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Debug, Deserialize)]
struct WriteArguments {
    path: String,
    content: String,
}

#[derive(Debug)]
struct WriteCall {
    workspace: Arc<Workspace>,
    path: PathBuf,
    content: String,
    plan: CallPlan,
}

impl Tool for WriteTool {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Create a file, or replace all of one you have read. Prefer `edit` for changes."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: WriteArguments = parse_arguments(arguments)?;
        let path = self.workspace.resolve_for_change(&wanted.path)?;
        let title = format!("write {}", self.workspace.shown(&path));
        let plan = CallPlan::edits(title, vec![path.clone()]);
        let workspace = Arc::clone(&self.workspace);
        Ok(Box::new(WriteCall { workspace, path, content: wanted.content, plan }))
    }
}

impl PreparedCall for WriteCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn review(&self) -> Result<Vec<FileEdit>, CallError> {
        let (bytes, _) = self.new_bytes()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(vec![FileEdit { path: self.path.clone(), change: FileChange::Write(text.into()) }])
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.write())
    }
}

impl WriteCall {
    /// Returns the bytes to write, and whether the file is new.
    fn new_bytes(&self) -> Result<(Vec<u8>, bool), CallError> {
        let shown = self.workspace.shown(&self.path);
        let old = read_file(&self.path)
            .map_err(|error| CallError::new(format!("{shown} cannot be written: {error}")))?;
        let is_new = old.is_none();
        let form = match old {
            None => TextForm::default(),
            Some(old) => {
                self.workspace.check_seen(&self.path, &old)?;
                TextFile::decode(old).map(|file| file.form()).unwrap_or_default()
            }
        };
        Ok((form.encode_whole(&self.content), is_new))
    }

    fn write(&self) -> Result<CallOutput, CallError> {
        let (bytes, is_new) = self.new_bytes()?;
        let shown = self.workspace.shown(&self.path);
        replace_file(&self.path, &bytes)
            .map_err(|error| CallError::new(format!("{shown} could not be written: {error}")))?;
        self.workspace.note_seen(&self.path, &bytes);
        let verb = if is_new { "created" } else { "replaced" };
        let (size, lines) = (bytes.len(), self.content.lines().count());
        let text = format!("{verb} {shown}: {lines} lines, {size} bytes");
        Ok(CallOutput { changed: vec![self.path.clone()], ..CallOutput::text(text) })
    }
}

//! `edit`: replaces a text in a file that the model has read.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{FileChange, FileEdit},
    ports::BoxFuture,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    excerpt::show_change,
    real_file::{read_file, replace_file},
    replacement::{Replaced, Replacement},
    text_file::{NoText, TextFile, TextForm},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};

#[derive(Debug)]
pub struct EditTool {
    workspace: Arc<Workspace>,
}

impl EditTool {
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Debug, Deserialize)]
struct EditArguments {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug)]
struct EditCall {
    workspace: Arc<Workspace>,
    path: PathBuf,
    wanted: EditArguments,
    plan: CallPlan,
}

impl Tool for EditTool {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replace text in a file you have read. `old_string` must be in the file exactly once, unless \
         `replace_all`."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"old_string":{"type":"string"},"new_string":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["path","old_string","new_string"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: EditArguments = parse_arguments(arguments)?;
        let path = self.workspace.resolve_for_change(&wanted.path)?;
        let title = format!("edit {}", self.workspace.shown(&path));
        let plan = CallPlan::edits(title, vec![path.clone()]);
        Ok(Box::new(EditCall { workspace: Arc::clone(&self.workspace), path, wanted, plan }))
    }
}

impl PreparedCall for EditCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn review(&self) -> Result<Vec<FileEdit>, CallError> {
        let (done, form) = self.replace()?;
        // Encoded like the file, so that the diff shows nothing but the change.
        let text = String::from_utf8_lossy(&form.encode(&done.text)).into_owned();
        Ok(vec![FileEdit { path: self.path.clone(), change: FileChange::Write(text.into()) }])
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.edit())
    }
}

impl EditCall {
    fn replace(&self) -> Result<(Replaced, TextForm), CallError> {
        let shown = self.workspace.shown(&self.path);
        let bytes = read_file(&self.path)
            .map_err(|error| CallError::new(format!("{shown} cannot be edited: {error}")))?
            .ok_or_else(|| {
                CallError::new(format!(
                    "{shown} does not exist; find the file with `glob`, or create it with `write`"
                ))
            })?;
        self.workspace.check_seen(&self.path, &bytes)?;
        let file = decode(bytes, &shown)?;
        let form = file.form();
        let replacement = Replacement {
            old: &form.compared(&self.wanted.old_string),
            new: &form.compared(&self.wanted.new_string),
            all: self.wanted.replace_all,
        };
        let done = replacement
            .apply(&file.text)
            .map_err(|error| CallError::new(format!("{shown}: {error}")))?;
        Ok((done, form))
    }

    fn edit(&self) -> Result<CallOutput, CallError> {
        let (done, form) = self.replace()?;
        let shown = self.workspace.shown(&self.path);
        let bytes = form.encode(&done.text);
        replace_file(&self.path, &bytes)
            .map_err(|error| CallError::new(format!("{shown} could not be written: {error}")))?;
        self.workspace.note_seen(&self.path, &bytes);
        let places = match done.places {
            1 => String::new(),
            places => format!(" in {places} places, first"),
        };
        let remark = done.remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        let change = show_change(&done.text, &done.lines);
        let text = format!("edited {shown}{places}{remark}:\n{change}");
        Ok(CallOutput { changed: vec![self.path.clone()], ..CallOutput::text(text) })
    }
}

/// Decodes a file that is to be changed.
pub(super) fn decode(
    bytes: Vec<u8>,
    shown: &impl std::fmt::Display,
) -> Result<TextFile, CallError> {
    TextFile::decode(bytes).map_err(|error| {
        CallError::new(match error {
            NoText::Binary => format!("{shown} is binary; change it with a command"),
            NoText::Encoding => format!(
                "{shown} is not UTF-8, and its other bytes would be lost; change it with a command"
            ),
        })
    })
}

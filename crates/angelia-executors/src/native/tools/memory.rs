//! `memory`: notes for later sessions.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::ports::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::tool::{
    CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
};
use crate::native::memory::{MemoryError, NoteName, SessionMemory};

pub const NAME: &str = "memory";

#[derive(Debug)]
pub struct MemoryTool {
    memory: Arc<SessionMemory>,
}

impl MemoryTool {
    pub fn new(memory: Arc<SessionMemory>) -> Self {
        Self { memory }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MemoryAction {
    #[serde(alias = "write", alias = "add", alias = "update")]
    Save,
    #[serde(alias = "list", alias = "get")]
    Read,
    #[serde(alias = "delete", alias = "remove")]
    Forget,
}

#[derive(Deserialize)]
struct MemoryArguments {
    action: MemoryAction,
    key: Option<String>,
    text: Option<String>,
    #[serde(default)]
    everywhere: bool,
}

#[derive(Debug)]
enum NoteWork {
    Save { key: NoteName, text: String, everywhere: bool },
    Read(NoteName),
    List,
    Forget(NoteName),
}

#[derive(Debug)]
struct MemoryCall {
    memory: Arc<SessionMemory>,
    work: NoteWork,
    plan: CallPlan,
}

impl Tool for MemoryTool {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Notes that later sessions in this project see, or in all projects with `everywhere`. Save what will \
         help then and is written nowhere else: preferences, decisions, how things are done here. Correct \
         or forget what is wrong. No secrets. Without `key`, `read` lists the notes."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"action":{"enum":["save","read","forget"]},"key":{"type":"string","description":"a short name, such as build-steps"},"text":{"type":"string","description":"Markdown; replaces the note"},"everywhere":{"type":"boolean"}},"required":["action"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: MemoryArguments = parse_arguments(arguments)?;
        let key = wanted.key.as_deref().map(read_key).transpose()?;
        let no_key = || CallError::new("`key` is missing; name the note");
        let (title, work) = match (wanted.action, key) {
            (MemoryAction::Read, None) => ("list memory".to_owned(), NoteWork::List),
            (MemoryAction::Read, Some(key)) => (format!("recall {key}"), NoteWork::Read(key)),
            (MemoryAction::Forget, key) => {
                let key = key.ok_or_else(no_key)?;
                (format!("forget {key}"), NoteWork::Forget(key))
            }
            (MemoryAction::Save, key) => {
                let key = key.ok_or_else(no_key)?;
                let text = wanted.text.ok_or_else(|| CallError::new("`text` is missing"))?;
                let title = format!("remember {key}");
                (title, NoteWork::Save { key, text, everywhere: wanted.everywhere })
            }
        };
        let memory = Arc::clone(&self.memory);
        Ok(Box::new(MemoryCall { memory, work, plan: CallPlan::own_record(title) }))
    }
}

fn read_key(text: &str) -> Result<NoteName, CallError> {
    let text = text.trim();
    NoteName::parse(text.strip_suffix(".md").unwrap_or(text)).ok_or_else(|| {
        let rule = "letters, digits, `-`, `_` and `.`, at most 64";
        CallError::new(format!("`{text}` is no key; use {rule}"))
    })
}

impl PreparedCall for MemoryCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.work().map(CallOutput::text))
    }
}

impl MemoryCall {
    fn work(&self) -> Result<String, CallError> {
        let failed = |error: MemoryError| CallError::new(error.to_string());
        let memory = &self.memory;
        if let (NoteWork::Save { .. } | NoteWork::Forget(_), Some(why)) =
            (&self.work, memory.refusal())
        {
            return Err(CallError::new(why));
        }
        match &self.work {
            NoteWork::Save { key, text, everywhere } => {
                memory.save(key, text, *everywhere).map_err(failed)?;
                Ok("saved; the next session will see it".to_owned())
            }
            NoteWork::Forget(key) => {
                memory.forget(key).map_err(failed)?;
                Ok("forgotten".to_owned())
            }
            NoteWork::Read(key) => match memory.read(key).map_err(failed)? {
                Some(note) => Ok(note.text),
                None => Err(failed(MemoryError::NotFound(key.to_string()))),
            },
            NoteWork::List => {
                let mut list = String::new();
                for note in memory.notes().map_err(failed)? {
                    let scope = if note.id.place.is_everywhere() { " (all projects)" } else { "" };
                    let _infallible =
                        writeln!(list, "{}{scope}: {} bytes", note.id.key, note.text.len());
                }
                Ok(if list.is_empty() { "there are no notes".to_owned() } else { list })
            }
        }
    }
}

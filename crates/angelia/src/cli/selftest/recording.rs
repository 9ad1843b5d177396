//! The file for `--record`: one JSON object per line. It contains the messages between Angelia and
//! the agent, which only involve a scripted model and a private home, and the form of the requests
//! to the model. The owner's name, paths and secrets are replaced wherever they appear.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use angelia_core::redact::Redactor;
use angelia_executors::{
    scripted_model::RecordedRequest,
    wire_log::{WireDirection, WireLine},
};
use serde_json::{Map, Value, json};

use super::{
    report::{AgentReport, CheckReport},
    trial::Trial,
};
use crate::{
    assemble::{self, App},
    cli::error::{CommandError, Exit},
};

/// Fields of a model request whose short texts show its form. All other texts are omitted.
const FORM_FIELDS: [&str; 8] =
    ["type", "role", "model", "name", "effort", "tool_choice", "service_tier", "status"];

/// Maximum length of the texts kept in these fields.
const MAX_FORM_CHARS: usize = 64;

pub(super) struct Recording {
    path: PathBuf,
    file: BufWriter<File>,
    redaction: Redaction,
    is_finished: bool,
}

/// Replaces the owner's name, paths and secrets.
struct Redaction {
    redactor: Redactor,
    /// Texts and their replacements, longest first.
    names: Vec<(String, &'static str)>,
}

impl Redaction {
    fn apply(&self, text: &str, root: Option<&Path>) -> String {
        let mut text = text.to_owned();
        if let Some(root) = root {
            text = text.replace(&*root.to_string_lossy(), "$SELFTEST");
            // Some agents turn the path into a file name.
            let name = root.file_name().unwrap_or_default().to_string_lossy();
            text = text.replace(&*name, "SELFTEST");
        }
        for (name, replacement) in &self.names {
            text = text.replace(name, replacement);
        }
        self.redactor.redact(&text).into_owned()
    }
}

impl Recording {
    /// Creates the file, which must not exist yet. Only the owner can read it.
    pub(super) fn create(path: &Path, app: &App) -> Result<Self, CommandError> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CommandError::usage(format!("{} exists already", path.display()))
                    .with_hint("name a new file; a recording overwrites nothing")
            }
            _ => write_error(path, &error),
        })?;
        let mut names = Vec::new();
        let texts = [
            (app.home.dir().to_string_lossy().into_owned(), "$ANGELIA_HOME"),
            (app.environment.home().unwrap_or_default().to_string_lossy().into_owned(), "~"),
        ];
        // If the home is `/`, replacing it would change every path.
        names.extend(texts.into_iter().filter(|(text, _)| text.len() > 1));
        names.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let redaction = Redaction { redactor: assemble::redactor(app), names };
        let path = path.to_owned();
        Ok(Self { path, file: BufWriter::new(file), redaction, is_finished: false })
    }

    pub(super) fn begin_agent(&mut self, agent: &AgentReport) -> Result<(), CommandError> {
        let path = self.redaction.apply(&agent.path.to_string_lossy(), None);
        self.write(&json!({
            "agent": agent.executor,
            "version": agent.version,
            "path": path,
            "angelia": env!("CARGO_PKG_VERSION"),
            "system": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }))
    }

    /// Adds the messages of a check, in order, and its result.
    pub(super) fn add(&mut self, row: &CheckReport, trial: &Trial) -> Result<(), CommandError> {
        let root = trial.folders.root();
        let mut entries: Vec<(Instant, Value)> = Vec::new();
        entries.extend(trial.lines.iter().map(|line| (line.at, self.wire_entry(line, root))));
        entries.extend(trial.requests.iter().map(|request| (request.at, request_entry(request))));
        entries.sort_by_key(|(at, _)| *at);
        for (at, mut entry) in entries {
            entry["check"] = row.id.into();
            entry["ms"] = json!(at.saturating_duration_since(trial.began).as_millis());
            self.write(&entry)?;
        }
        let reason = row.reason.as_deref().map(|reason| self.redaction.apply(reason, Some(root)));
        self.write(&json!({"check": row.id, "verdict": row.verdict, "reason": reason}))
    }

    fn wire_entry(&self, line: &WireLine, root: &Path) -> Value {
        let direction = match line.direction {
            WireDirection::ToAgent => "to_agent",
            WireDirection::FromAgent => "from_agent",
        };
        let text = self.redaction.apply(&line.text, Some(root));
        let said = serde_json::from_str(&text).unwrap_or(Value::String(text));
        json!({"direction": direction, "pid": line.pid, "line": said})
    }

    fn write(&mut self, entry: &Value) -> Result<(), CommandError> {
        writeln!(self.file, "{entry}").map_err(|error| write_error(&self.path, &error))
    }

    pub(super) fn finish(mut self) -> Result<(), CommandError> {
        self.file.flush().map_err(|error| write_error(&self.path, &error))?;
        self.is_finished = true;
        Ok(())
    }
}

/// Removes the file if the recording was interrupted.
impl Drop for Recording {
    fn drop(&mut self) {
        if !self.is_finished {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

fn write_error(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(Exit::Output, format!("cannot write {}: {error}", path.display()))
        .with_hint("check its folder: the space on the disk, its permissions")
}

/// Describes a request to the model: the names of its headers and the form of its body, but not
/// their content.
fn request_entry(request: &RecordedRequest) -> Value {
    let headers: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    json!({"direction": "to_model", "method": request.method, "path": request.path,
        "headers": headers, "body": form_of(None, &request.json())})
}

/// Replaces the texts in a body with their lengths.
fn form_of(field: Option<&str>, value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let count = text.chars().count();
            let is_form = field.is_some_and(|field| FORM_FIELDS.contains(&field));
            if is_form && count <= MAX_FORM_CHARS {
                value.clone()
            } else {
                format!("({count} characters)").into()
            }
        }
        Value::Array(items) => items.iter().map(|item| form_of(None, item)).collect(),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(name, value)| (name.clone(), form_of(Some(name), value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_form_and_none_of_its_words() {
        let body = json!({"model": "sonnet", "max_tokens": 32, "system": [{"type": "text",
            "text": "the owner's secret"}], "messages": [{"role": "user", "content": "hello"}]});
        let expected = json!({"model": "sonnet", "max_tokens": 32, "system": [{"type": "text",
            "text": "(18 characters)"}], "messages": [{"role": "user", "content": "(5 characters)"}]});
        assert_eq!(form_of(None, &body), expected);
    }
}

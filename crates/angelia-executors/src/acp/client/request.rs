//! Parses the agent's requests to us. Pure: paths are checked only as text here, and again with all
//! symbolic links when they are opened.

use std::{
    fmt::Write as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{
    ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, CommandLine, FileChange, FileEdit,
    RawJson, ToolAccess, ToolClass,
};
use angelia_wire::jsonrpc::{ErrorObject, INVALID_PARAMS};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::truncation::{first_line, truncate_chars};

/// A request from the agent for us to do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    Read {
        path: PathBuf,
        /// The first line, counted from 1.
        line: Option<u64>,
        lines: Option<u64>,
    },
    Write {
        path: PathBuf,
        text: Arc<str>,
    },
    Run(TerminalProgram),
    Output(Box<str>),
    Wait(Box<str>),
    Kill(Box<str>),
    Release(Box<str>),
}

/// A program to run in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalProgram {
    pub command: Box<str>,
    pub args: Vec<Box<str>>,
    pub env: Vec<(Box<str>, Box<str>)>,
    pub cwd: PathBuf,
    /// The number of output bytes to keep.
    pub output_limit: Option<u64>,
}

/// The files and the command that were allowed together with a tool call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolGrantRef<'a> {
    pub(crate) paths: &'a [Box<str>],
    pub(crate) command: Option<&'a str>,
}

#[derive(Deserialize)]
struct ReadParams {
    path: String,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    limit: Option<u64>,
}

#[derive(Deserialize)]
struct WriteParams {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalCreateParams {
    command: String,
    #[serde(default)]
    args: Option<Vec<Box<str>>>,
    #[serde(default)]
    env: Option<Vec<EnvVariable>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    output_byte_limit: Option<u64>,
}

#[derive(Deserialize)]
struct EnvVariable {
    name: Box<str>,
    value: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalParams {
    terminal_id: Box<str>,
}

/// Parses a request. Returns `None` for a method that we do not support. `roots` holds the working
/// directory twice: as configured, and without symbolic links.
pub(crate) fn parse_request(
    method: &str,
    params: &RawValue,
    roots: &[PathBuf],
) -> Option<Result<ClientRequest, ErrorObject>> {
    Some(match method {
        "fs/read_text_file" => parse_params::<ReadParams>(params).and_then(|params| {
            Ok(ClientRequest::Read {
                path: normalise_inside(&params.path, roots)?,
                line: params.line,
                lines: params.limit,
            })
        }),
        "fs/write_text_file" => parse_params::<WriteParams>(params).and_then(|params| {
            Ok(ClientRequest::Write {
                path: normalise_inside(&params.path, roots)?,
                text: params.content.into(),
            })
        }),
        "terminal/create" => parse_params::<TerminalCreateParams>(params)
            .and_then(|params| parse_program(params, roots)),
        "terminal/output" => parse_terminal_id(params).map(ClientRequest::Output),
        "terminal/wait_for_exit" => parse_terminal_id(params).map(ClientRequest::Wait),
        "terminal/kill" => parse_terminal_id(params).map(ClientRequest::Kill),
        "terminal/release" => parse_terminal_id(params).map(ClientRequest::Release),
        _ => return None,
    })
}

fn parse_params<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, ErrorObject> {
    serde_json::from_str(params.get())
        .map_err(|error| ErrorObject::new(INVALID_PARAMS, format!("invalid parameters: {error}")))
}

fn parse_terminal_id(params: &RawValue) -> Result<Box<str>, ErrorObject> {
    parse_params::<TerminalParams>(params).map(|params| params.terminal_id)
}

fn parse_program(
    params: TerminalCreateParams,
    roots: &[PathBuf],
) -> Result<ClientRequest, ErrorObject> {
    let bad = |what: &str| Err(ErrorObject::new(INVALID_PARAMS, what.to_owned()));
    if params.command.trim().is_empty() {
        return bad("there is no command to run");
    }
    let variables = params.env.unwrap_or_default();
    if variables.iter().any(|one| one.name.is_empty() || one.name.contains(['=', '\0'])) {
        return bad("the name of an environment variable is invalid");
    }
    let cwd = params.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let cwd = match (cwd, roots.first()) {
        (Some(cwd), _) => normalise_inside(cwd, roots)?,
        (None, Some(root)) => root.clone(),
        (None, None) => return bad("there is no working directory"),
    };
    Ok(ClientRequest::Run(TerminalProgram {
        command: params.command.into(),
        args: params.args.unwrap_or_default(),
        env: variables.into_iter().map(|one| (one.name, one.value)).collect(),
        cwd,
        output_limit: params.output_byte_limit,
    }))
}

/// Normalises a path, and refuses one whose text leads out of the working directory. Symbolic links
/// are checked when the path is opened.
fn normalise_inside(path: &str, roots: &[PathBuf]) -> Result<PathBuf, ErrorObject> {
    let refuse = |why: &str| Err(ErrorObject::new(INVALID_PARAMS, format!("{path}: {why}")));
    if path.is_empty() || path.contains('\0') {
        return refuse("this is not a path");
    }
    let Some(root) = roots.first() else {
        return refuse("there is no working directory");
    };
    let mut plain = root.clone();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    if roots.iter().any(|root| plain.starts_with(root)) {
        return Ok(plain);
    }
    refuse("this is outside the working directory; nothing is read, written or run there")
}

impl ClientRequest {
    /// Describes the request for the permission rules and for people. Returns `None` for a request
    /// about a running terminal, which needs no permission.
    pub(crate) fn to_approval(&self, cwd: &Path) -> Option<ApprovalRequest> {
        let place = format!("in {}", cwd.display());
        let mut access = ToolAccess::default();
        let mut stage = ApprovalStage::Request;
        let (name, class, subject, title, detail) = match self {
            Self::Write { path, text } => {
                access.writes.push(path.clone());
                let path = path.to_string_lossy();
                let detail = format!("{path}\n{} bytes\n{place}", text.len());
                let title = format!("write {path}");
                ("write_text_file", ToolClass::Edit, path.into_owned(), title, detail)
            }
            Self::Run(program) => {
                access = program.access();
                let line = program.command_line();
                let detail = program.detail();
                ("terminal", ToolClass::Execute, line.clone(), line, detail)
            }
            Self::Read { path, .. } => {
                stage = ApprovalStage::Report;
                access.reads.push(path.clone());
                let path = path.to_string_lossy().into_owned();
                let title = format!("read {path}");
                ("read_text_file", ToolClass::Read, path, title, place)
            }
            Self::Output(_) | Self::Wait(_) | Self::Kill(_) | Self::Release(_) => return None,
        };
        Some(ApprovalRequest {
            key: "".into(),
            stage,
            access,
            suggestions: Vec::new(),
            edits: self.file_edits(),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: name.into(),
            class,
            title: first_line(&title).map_or_else(|| name.into(), Into::into),
            detail: detail.into(),
            input: self.approval_input(&subject),
            subject: Some(subject.into()),
        })
    }

    fn file_edits(&self) -> Vec<FileEdit> {
        match self {
            Self::Write { path, text } => {
                let change = FileChange::Write(Arc::clone(text));
                vec![FileEdit { path: path.clone(), change }]
            }
            _ => Vec::new(),
        }
    }

    fn approval_input(&self, subject: &str) -> RawJson {
        let input = match self {
            Self::Write { text, .. } => serde_json::json!({"path": subject, "content": &**text}),
            Self::Run(_) => serde_json::json!({"command": subject}),
            _ => serde_json::json!({"path": subject}),
        };
        super::super::protocol::outgoing::to_raw(&input).into()
    }

    /// Reports whether an earlier grant covers the request.
    pub(crate) fn is_covered_by(&self, granted: ToolGrantRef<'_>, roots: &[PathBuf]) -> bool {
        match self {
            Self::Write { path, .. } => {
                let mut allowed = granted.paths.iter();
                allowed.any(|one| normalise_inside(one, roots).is_ok_and(|one| one == *path))
            }
            // Variables such as `LD_PRELOAD` could turn an allowed command into another one.
            Self::Run(program) => {
                program.env.is_empty() && granted.command == Some(&*program.command_line())
            }
            _ => true,
        }
    }
}

impl TerminalProgram {
    /// Reports whether the command is a shell line, that is, has no arguments.
    pub fn is_shell_line(&self) -> bool {
        self.args.is_empty()
    }

    /// Returns the command as a person would type it in a shell.
    pub fn command_line(&self) -> String {
        if self.is_shell_line() {
            return self.command.to_string();
        }
        let mut line = shell_quote(&self.command);
        for arg in &self.args {
            line.push(' ');
            line.push_str(&shell_quote(arg));
        }
        line
    }

    fn access(&self) -> ToolAccess {
        let line = if self.is_shell_line() {
            CommandLine::Shell((*self.command).into())
        } else {
            let words = std::iter::once(&self.command).chain(&self.args);
            CommandLine::Argv(words.map(|word| (**word).into()).collect())
        };
        let env = self.env.iter().map(|(name, value)| ((**name).into(), (**value).into()));
        ToolAccess {
            command: Some(CommandAccess { line, env: env.collect() }),
            cwd: Some(self.cwd.clone()),
            ..ToolAccess::default()
        }
    }

    fn detail(&self) -> String {
        let mut detail = self.command_line();
        for (name, value) in &self.env {
            let _infallible = write!(detail, "\nwith {name}={}", truncate_chars(value, 200));
        }
        let _infallible = write!(detail, "\nin {}", self.cwd.display());
        detail
    }
}

fn shell_quote(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@%+,".contains(char);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn roots() -> Vec<PathBuf> {
        vec!["/project".into(), "/real/project".into()]
    }

    fn parsed(method: &str, params: &Value) -> Result<ClientRequest, String> {
        let raw = serde_json::value::to_raw_value(params).unwrap();
        parse_request(method, &raw, &roots()).unwrap().map_err(|error| error.message.into_string())
    }

    #[test]
    fn words_that_lead_outside_are_refused() {
        let read = |path: &str| parsed("fs/read_text_file", &json!({"path": path}));
        for path in [
            "/etc/passwd",
            "..",
            "../x",
            "/project/../etc/passwd",
            "/project/a/../../b",
            "/projects/x",
            "/proc/self/environ",
            "",
            "a\0b",
        ] {
            assert!(read(path).is_err(), "{path}");
        }
        for path in ["/project/a", "a", "./b/../a", "/real/project/a", "/project/x/../a"] {
            assert!(read(path).is_ok(), "{path}");
        }
        let run = |cwd: &str| parsed("terminal/create", &json!({"command": "ls", "cwd": cwd}));
        assert!(run("/").is_err() && run("/project/sub").is_ok());
    }

    #[test]
    fn commands_are_shown_as_they_would_be_typed() {
        let run = |params: Value| match parsed("terminal/create", &params) {
            Ok(ClientRequest::Run(program)) => program.command_line(),
            other => format!("{other:?}"),
        };
        assert_eq!(run(json!({"command": "git status; ls"})), "git status; ls");
        let spaced = run(json!({"command": "rm", "args": ["-r", "a b", "it's", "$x"]}));
        assert_eq!(spaced, r"rm -r 'a b' 'it'\''s' '$x'");
    }

    #[test]
    fn what_was_allowed_with_a_tool_is_not_asked_again() {
        let write = parsed("fs/write_text_file", &json!({"path": "/project/a", "content": "x"}));
        let write = write.unwrap();
        let within = |paths: &[&str]| {
            let paths: Vec<Box<str>> = paths.iter().map(|path| (*path).into()).collect();
            let granted = ToolGrantRef { paths: &paths, command: None };
            write.is_covered_by(granted, &roots())
        };
        assert!(within(&["/project/a"]) && within(&["b", "./a"]));
        assert!(!within(&[]) && !within(&["/project/b"]) && !within(&["/project"]));
        let run = |env: Value| {
            let params = json!({"command": "ls", "env": env});
            let granted = ToolGrantRef { paths: &[], command: Some("ls") };
            parsed("terminal/create", &params).unwrap().is_covered_by(granted, &roots())
        };
        assert!(run(json!([])));
        assert!(!run(json!([{"name": "LD_PRELOAD", "value": "x"}])));
    }

    #[test]
    fn nonsense_is_refused() {
        for params in [json!({}), json!(null), json!({"command": " "}), json!({"command": 7})] {
            assert!(parsed("terminal/create", &params).is_err(), "{params}");
        }
        assert!(parsed("terminal/output", &json!({})).is_err());
        let raw = serde_json::value::to_raw_value(&()).unwrap();
        assert!(parse_request("fs/delete", &raw, &roots()).is_none());
    }
}

//! Parses the agent's requests to us. Pure: paths are checked by their text only, and again with
//! all symbolic links when they are opened.

use std::{
    fmt::Write as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{ApprovalKind, ApprovalRequest, RawJson, ToolClass};
use angelia_wire::jsonrpc::{ErrorObject, INVALID_PARAMS};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::prose::{cut, first_line};

/// Limits the text of a new file in its approval.
const SHOWN: usize = 2000;

/// A request of the agent to act for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
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
    Run(Program),
    Output(Box<str>),
    Wait(Box<str>),
    Kill(Box<str>),
    Release(Box<str>),
}

/// A program to run in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub command: Box<str>,
    pub args: Vec<Box<str>>,
    pub env: Vec<(Box<str>, Box<str>)>,
    pub cwd: PathBuf,
    /// The number of output bytes to keep.
    pub kept: Option<u64>,
}

/// The files and the command that were allowed with a tool call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted<'a> {
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
struct RunParams {
    command: String,
    #[serde(default)]
    args: Option<Vec<Box<str>>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    output_byte_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Variable {
    name: Box<str>,
    value: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalParams {
    terminal_id: Box<str>,
}

/// Parses a request. `roots` are the working directory, as configured and without symbolic links.
/// `None`: we do not support the method.
pub(crate) fn wish(
    method: &str,
    params: &RawValue,
    roots: &[PathBuf],
) -> Option<Result<Wish, ErrorObject<'static>>> {
    Some(match method {
        "fs/read_text_file" => parse::<ReadParams>(params).and_then(|params| {
            Ok(Wish::Read {
                path: inside(&params.path, roots)?,
                line: params.line,
                lines: params.limit,
            })
        }),
        "fs/write_text_file" => parse::<WriteParams>(params).and_then(|params| {
            Ok(Wish::Write { path: inside(&params.path, roots)?, text: params.content.into() })
        }),
        "terminal/create" => parse::<RunParams>(params).and_then(|params| run(params, roots)),
        "terminal/output" => terminal(params).map(Wish::Output),
        "terminal/wait_for_exit" => terminal(params).map(Wish::Wait),
        "terminal/kill" => terminal(params).map(Wish::Kill),
        "terminal/release" => terminal(params).map(Wish::Release),
        _ => return None,
    })
}

fn parse<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, ErrorObject<'static>> {
    serde_json::from_str(params.get())
        .map_err(|error| ErrorObject::new(INVALID_PARAMS, format!("invalid parameters: {error}")))
}

fn terminal(params: &RawValue) -> Result<Box<str>, ErrorObject<'static>> {
    parse::<TerminalParams>(params).map(|params| params.terminal_id)
}

fn run(params: RunParams, roots: &[PathBuf]) -> Result<Wish, ErrorObject<'static>> {
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
        (Some(cwd), _) => inside(cwd, roots)?,
        (None, Some(root)) => root.clone(),
        (None, None) => return bad("there is no working directory"),
    };
    Ok(Wish::Run(Program {
        command: params.command.into(),
        args: params.args.unwrap_or_default(),
        env: variables.into_iter().map(|one| (one.name, one.value)).collect(),
        cwd,
        kept: params.output_byte_limit,
    }))
}

/// Normalises a path and refuses it if its text leads out of the working directory. Symbolic links
/// are checked when the path is opened.
fn inside(path: &str, roots: &[PathBuf]) -> Result<PathBuf, ErrorObject<'static>> {
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

impl Wish {
    /// Returns the approval that the request needs. `None`: it needs none.
    pub(crate) fn question(&self, cwd: &Path) -> Option<ApprovalRequest> {
        matches!(self, Self::Write { .. } | Self::Run(_)).then(|| self.request(cwd))
    }

    /// Describes the request as an approval, which is also what the permission rules are applied
    /// to.
    pub(crate) fn request(&self, cwd: &Path) -> ApprovalRequest {
        let place = format!("in {}", cwd.display());
        let (name, class, subject, title, detail) = match self {
            Self::Write { path, text } => {
                let path = path.to_string_lossy();
                let detail =
                    format!("{path}\n{} bytes:\n{}\n{place}", text.len(), cut(text, SHOWN));
                let title = format!("write {path}");
                ("write_text_file", ToolClass::Edit, path.into_owned(), title, detail)
            }
            Self::Run(program) => {
                let line = program.line();
                let detail = program.detail();
                ("terminal", ToolClass::Execute, line.clone(), line, detail)
            }
            Self::Read { path, .. } => {
                let path = path.to_string_lossy().into_owned();
                let title = format!("read {path}");
                ("read_text_file", ToolClass::Read, path, title, place)
            }
            Self::Output(id) | Self::Wait(id) | Self::Kill(id) | Self::Release(id) => {
                let title = format!("terminal {id}");
                ("terminal", ToolClass::Other, id.to_string(), title, place)
            }
        };
        ApprovalRequest {
            key: "".into(),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: name.into(),
            class,
            title: first_line(&title).map_or_else(|| name.into(), Into::into),
            detail: detail.into(),
            input: self.input(&subject),
            subject: Some(subject.into()),
        }
    }

    fn input(&self, subject: &str) -> RawJson {
        let input = match self {
            Self::Write { text, .. } => serde_json::json!({"path": subject, "content": &**text}),
            Self::Run(_) => serde_json::json!({"command": subject}),
            _ => serde_json::json!({"path": subject}),
        };
        super::super::protocol::outgoing::raw(&input).into()
    }

    /// Returns whether an earlier grant covers the request.
    pub(crate) fn is_within(&self, granted: Granted<'_>, roots: &[PathBuf]) -> bool {
        match self {
            Self::Write { path, .. } => {
                let mut allowed = granted.paths.iter();
                allowed.any(|one| inside(one, roots).is_ok_and(|one| one == *path))
            }
            // Variables such as `LD_PRELOAD` could turn an allowed command into another one.
            Self::Run(program) => {
                program.env.is_empty() && granted.command == Some(&*program.line())
            }
            _ => true,
        }
    }
}

impl Program {
    /// A command without arguments is a line for the shell.
    pub fn is_line(&self) -> bool {
        self.args.is_empty()
    }

    /// Returns the command as a person would type it in a shell.
    pub fn line(&self) -> String {
        if self.is_line() {
            return self.command.to_string();
        }
        let mut line = quoted(&self.command);
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quoted(arg));
        }
        line
    }

    fn detail(&self) -> String {
        let mut detail = self.line();
        for (name, value) in &self.env {
            let _infallible = write!(detail, "\nwith {name}={}", cut(value, 200));
        }
        let _infallible = write!(detail, "\nin {}", self.cwd.display());
        detail
    }
}

fn quoted(word: &str) -> String {
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

    fn wished(method: &str, params: &Value) -> Result<Wish, String> {
        let raw = serde_json::value::to_raw_value(params).unwrap();
        wish(method, &raw, &roots()).unwrap().map_err(|error| error.message.into_owned())
    }

    #[test]
    fn words_that_lead_outside_are_refused() {
        let read = |path: &str| wished("fs/read_text_file", &json!({"path": path}));
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
        let run = |cwd: &str| wished("terminal/create", &json!({"command": "ls", "cwd": cwd}));
        assert!(run("/").is_err() && run("/project/sub").is_ok());
    }

    #[test]
    fn commands_are_shown_as_they_would_be_typed() {
        let run = |params: Value| match wished("terminal/create", &params) {
            Ok(Wish::Run(program)) => program.line(),
            other => format!("{other:?}"),
        };
        assert_eq!(run(json!({"command": "git status; ls"})), "git status; ls");
        let spaced = run(json!({"command": "rm", "args": ["-r", "a b", "it's", "$x"]}));
        assert_eq!(spaced, r"rm -r 'a b' 'it'\''s' '$x'");
    }

    #[test]
    fn what_was_allowed_with_a_tool_is_not_asked_again() {
        let write = wished("fs/write_text_file", &json!({"path": "/project/a", "content": "x"}));
        let write = write.unwrap();
        let within = |paths: &[&str]| {
            let paths: Vec<Box<str>> = paths.iter().map(|path| (*path).into()).collect();
            let granted = Granted { paths: &paths, command: None };
            write.is_within(granted, &roots())
        };
        assert!(within(&["/project/a"]) && within(&["b", "./a"]));
        assert!(!within(&[]) && !within(&["/project/b"]) && !within(&["/project"]));
        let run = |env: Value| {
            let params = json!({"command": "ls", "env": env});
            let granted = Granted { paths: &[], command: Some("ls") };
            wished("terminal/create", &params).unwrap().is_within(granted, &roots())
        };
        assert!(run(json!([])));
        assert!(!run(json!([{"name": "LD_PRELOAD", "value": "x"}])));
    }

    #[test]
    fn nonsense_is_refused() {
        for params in [json!({}), json!(null), json!({"command": " "}), json!({"command": 7})] {
            assert!(wished("terminal/create", &params).is_err(), "{params}");
        }
        assert!(wished("terminal/output", &json!({})).is_err());
        let raw = serde_json::value::to_raw_value(&()).unwrap();
        assert!(wish("fs/delete", &raw, &roots()).is_none());
    }
}

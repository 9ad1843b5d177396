//! Hooks: programs that get every accepted message as JSON on stdin. They run in the background,
//! delay nothing, and leave no processes behind.

use std::{path::Path, sync::Arc};

use angelia_core::ports::{CommandProgram, CommandRunner, CommandSpec};
use bytes::Bytes;

use super::launcher::Launcher;

/// The paths of the hook programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookList(pub Vec<Arc<str>>);

impl HookList {
    /// Parses an environment variable: `none`, a comma-separated list, or a JSON array.
    pub fn from_variable(text: &str) -> Self {
        let text = text.trim();
        if text.eq_ignore_ascii_case("none") {
            return Self::default();
        }
        let listed: Vec<String> = serde_json::from_str(text)
            .unwrap_or_else(|_| text.split(',').map(str::to_owned).collect());
        Self::from_paths(listed.iter().map(String::as_str))
    }

    /// Parses a file: its `- path` lines.
    pub fn from_file(text: &str) -> Self {
        let paths = text.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("- ")?.trim();
            let bare = path.trim_matches(['"', '\'']);
            Some(bare)
        });
        Self::from_paths(paths)
    }

    fn from_paths<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let paths = paths.map(str::trim).filter(|path| !path.is_empty());
        Self(paths.map(Into::into).collect())
    }
}

/// The hooks of a bus, ready to run.
#[derive(Clone, Debug)]
pub struct Hooks {
    list: HookList,
    launcher: Launcher,
}

impl Hooks {
    pub fn new(list: HookList, launcher: Launcher) -> Self {
        Self { list, launcher }
    }

    pub fn is_empty(&self) -> bool {
        self.list.0.is_empty()
    }

    /// Starts every hook for a message, in the background.
    pub fn run(&self, commands: &dyn CommandRunner, envelope: &Bytes) {
        let input: Arc<[u8]> = envelope.as_ref().into();
        for path in &self.list.0 {
            let command = CommandSpec {
                program: hook_program(commands, path),
                env: vec![("HOOK", Arc::clone(path))],
                input: Some(Arc::clone(&input)),
                timeout: self.launcher.time_limit(),
            };
            self.launcher.start(path, format_args!("the hook {path}"), command);
        }
    }
}

/// Returns the program and arguments of a hook. A file that is not executable is run with Python if
/// it ends in `.py` or has no extension, else with `sh`.
fn hook_program(commands: &dyn CommandRunner, path: &Arc<str>) -> CommandProgram {
    if commands.is_program(path) {
        return CommandProgram::File(Arc::clone(path), Vec::new());
    }
    let is_python = Path::new(&**path).extension().is_none_or(|ending| ending == "py");
    let runner = if is_python { "python3" } else { "sh" };
    CommandProgram::Shell(format!("exec {runner} \"$HOOK\"").into())
}

//! Hooks: programs that see every message, as JSON on their input, after it was accepted. They
//! slow nobody down and leave nothing behind.

use std::{path::Path, sync::Arc};

use angelia_core::ports::{CommandLine, Commands, Program};
use bytes::Bytes;

use super::launcher::Launcher;

/// Which programs see messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookList(pub Vec<Arc<str>>);

impl HookList {
    /// What a variable says: `none`, a list with commas, or a JSON array.
    pub fn from_variable(text: &str) -> Self {
        let text = text.trim();
        if text.eq_ignore_ascii_case("none") {
            return Self::default();
        }
        let listed: Vec<String> = serde_json::from_str(text)
            .unwrap_or_else(|_| text.split(',').map(str::to_owned).collect());
        Self::of(listed.iter().map(String::as_str))
    }

    /// What a file says: its `- path` lines.
    pub fn from_file(text: &str) -> Self {
        let paths = text.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("- ")?.trim();
            let bare = path.trim_matches(['"', '\'']);
            Some(bare)
        });
        Self::of(paths)
    }

    fn of<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
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

    /// Shows a message to every hook. Returns at once.
    pub fn run(&self, commands: &dyn Commands, envelope: &Bytes) {
        let input: Arc<[u8]> = envelope.as_ref().into();
        for path in &self.list.0 {
            let command = CommandLine {
                program: program(commands, path),
                env: vec![("HOOK", Arc::clone(path))],
                input: Some(Arc::clone(&input)),
                limit: self.launcher.limit(),
            };
            self.launcher.start(format_args!("the hook {path}"), command);
        }
    }
}

/// A script that is no program of its own is one of Python's.
fn program(commands: &dyn Commands, path: &Arc<str>) -> Program {
    if commands.is_program(path) {
        return Program::File(Arc::clone(path), Vec::new());
    }
    let is_python = Path::new(&**path).extension().is_none_or(|ending| ending == "py");
    let runner = if is_python { "python3" } else { "sh" };
    Program::Shell(format!("exec {runner} \"$HOOK\"").into())
}

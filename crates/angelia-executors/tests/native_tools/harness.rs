//! A folder with files, and calls of tools in it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::Content;
use angelia_executors::native::tools::{
    CallError, CallIo, CallOutput, PreparedCall, Tool, Workspace,
};
use serde_json::Value;
use tempfile::TempDir;

/// A session's directory in a folder of its own. Beside it is `else`.
pub(crate) struct Place {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) workspace: Arc<Workspace>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home/work")).unwrap();
        fs::create_dir(root.join("else")).unwrap();
        let workspace = Workspace::new(&root.join("home/work"), &root.join("home")).unwrap();
        Self { _folder: folder, root, workspace: Arc::new(workspace) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.cwd().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names in the session's directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.workspace.cwd())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn prepare(
    tool: &dyn Tool,
    arguments: &Value,
) -> Result<Box<dyn PreparedCall>, CallError> {
    tool.prepare(&serde_json::value::to_raw_value(arguments).unwrap())
}

pub(crate) async fn call(tool: &dyn Tool, arguments: Value) -> CallOutput {
    match prepare(tool, &arguments) {
        Ok(call) => call.run(CallIo::default()).await,
        Err(error) => CallOutput::failure(error.to_string()),
    }
}

/// The text of a call that must succeed.
pub(crate) async fn done(tool: &dyn Tool, arguments: Value) -> String {
    let output = call(tool, arguments).await;
    assert!(output.ok, "{}", output.all_text());
    output.all_text()
}

/// The words of a call that must fail.
pub(crate) async fn refused(tool: &dyn Tool, arguments: Value) -> String {
    let output = call(tool, arguments).await;
    assert!(!output.ok && output.changed.is_empty(), "{}", output.all_text());
    output.all_text()
}

pub(crate) fn image_of(output: &CallOutput) -> Option<(&str, &[u8])> {
    output.content.iter().find_map(|part| match part {
        Content::Image { media_type, data } => Some((&**media_type, &**data)),
        Content::Text(_) => None,
    })
}

pub(crate) fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

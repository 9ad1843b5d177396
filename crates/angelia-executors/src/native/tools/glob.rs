//! `glob`: lists the files and folders whose path matches a pattern.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use angelia_core::{permission::PrivateFiles, ports::BoxFuture};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{
    folder_walk::{is_file, path_below, walk_folder},
    search_text::{EntryLimit, finish_search, has_room},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};

/// The maximum number of paths in a result.
const MAX_PATHS: usize = 200;

#[derive(Debug)]
pub struct GlobTool {
    workspace: Arc<Workspace>,
    private: Arc<PrivateFiles>,
}

impl GlobTool {
    pub fn new(workspace: Arc<Workspace>, private: Arc<PrivateFiles>) -> Self {
        Self { workspace, private }
    }
}

#[derive(Debug, Deserialize)]
struct GlobArguments {
    pattern: String,
    path: Option<String>,
}

#[derive(Debug)]
struct GlobCall {
    workspace: Arc<Workspace>,
    private: Arc<PrivateFiles>,
    root: PathBuf,
    matcher: GlobMatcher,
    with_folders: bool,
    plan: CallPlan,
}

impl Tool for GlobTool {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "List files by a pattern such as `src/**/*.rs`, or a folder with `*`. Ignores what .gitignore names."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"folder to search"}},"required":["pattern"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: GlobArguments = parse_arguments(arguments)?;
        if wanted.pattern.starts_with(['/', '~']) {
            return Err(CallError::new(
                "the pattern must be relative; name the folder with `path`",
            ));
        }
        let root = self.workspace.resolve(wanted.path.as_deref().unwrap_or("."))?;
        let pattern = wanted.pattern.strip_prefix("./").unwrap_or(&wanted.pattern);
        Ok(Box::new(GlobCall {
            workspace: Arc::clone(&self.workspace),
            private: Arc::clone(&self.private),
            matcher: compile_glob(pattern)?,
            with_folders: !pattern.contains("**"),
            plan: CallPlan::reads(format!("glob {pattern}"), vec![root.clone()]),
            root,
        }))
    }
}

/// Compiles a pattern in which `*` does not match `/`, but `**` does.
pub(super) fn compile_glob(pattern: &str) -> Result<GlobMatcher, CallError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| CallError::new(format!("not a pattern: {error}")))?;
    Ok(glob.compile_matcher())
}

impl PreparedCall for GlobCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.list(&io.cancel))
    }
}

impl GlobCall {
    fn list(&self, cancel: &CancellationToken) -> Result<CallOutput, CallError> {
        if !self.root.is_dir() {
            let shown = self.workspace.shown(&self.root);
            return Err(CallError::new(format!("{shown} is not a folder; `path` names a folder")));
        }
        let mut text = String::new();
        let mut count = 0;
        let end = walk_folder(&self.root, &self.private, cancel, |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_wanted = is_file(entry) || (is_folder && self.with_folders && entry.depth() > 0);
            if is_wanted && self.matcher.is_match(path_below(&self.root, entry)) {
                if count == MAX_PATHS || !has_room(&text) {
                    return false;
                }
                count += 1;
                let slash = if is_folder { "/" } else { "" };
                let shown = self.workspace.shown(entry.path());
                let _infallible = writeln!(text, "{shown}{slash}");
            }
            true
        });
        let nothing =
            "nothing matches; `**/` matches any folders, and ignored files are left out\n";
        let limit = EntryLimit { count: MAX_PATHS, argument: None };
        Ok(CallOutput::text(finish_search(text, nothing, end, limit)))
    }
}

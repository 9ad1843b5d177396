//! `grep`: searches the content of files with a regular expression.

use std::{fmt::Write as _, io, path::PathBuf, sync::Arc};

use angelia_core::{permission::PrivateFiles, ports::BoxFuture};
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{
    folder_walk::{is_file, path_below, walk_folder},
    glob::compile_glob,
    search_text::{EntryLimit, finish_search, has_room},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};
use crate::truncation::truncate_chars;

/// The number of matching lines, files or counts in a result: the default and the maximum.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

const MAX_CONTEXT: usize = 10;

/// Longer lines are cut.
const MAX_LINE_CHARS: usize = 500;

/// A file with longer lines is left out.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub struct GrepTool {
    workspace: Arc<Workspace>,
    private: Arc<PrivateFiles>,
}

impl GrepTool {
    pub fn new(workspace: Arc<Workspace>, private: Arc<PrivateFiles>) -> Self {
        Self { workspace, private }
    }
}

#[derive(Debug, Deserialize)]
struct GrepArguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    mode: GrepMode,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GrepMode {
    #[default]
    Content,
    Files,
    Count,
}

#[derive(Debug)]
struct GrepCall {
    workspace: Arc<Workspace>,
    private: Arc<PrivateFiles>,
    root: PathBuf,
    matcher: RegexMatcher,
    glob: Option<GlobMatcher>,
    mode: GrepMode,
    context: usize,
    limit: usize,
    plan: CallPlan,
}

impl Tool for GrepTool {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Search files for a regular expression (`(?i)` ignores case), line by line. Ignores what \
         .gitignore names."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"file or folder"},"glob":{"type":"string","description":"only these files, e.g. **/*.rs"},"mode":{"enum":["content","files","count"]},"context":{"type":"integer","description":"lines around each match"},"limit":{"type":"integer"}},"required":["pattern"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: GrepArguments = parse_arguments(arguments)?;
        let root = self.workspace.resolve(wanted.path.as_deref().unwrap_or("."))?;
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .build(&wanted.pattern)
            .map_err(|error| {
                CallError::new(format!(
                    "the pattern is not a regular expression for one line: {error}; escape \
                     characters that stand for themselves with `\\`"
                ))
            })?;
        Ok(Box::new(GrepCall {
            workspace: Arc::clone(&self.workspace),
            private: Arc::clone(&self.private),
            matcher,
            glob: wanted.glob.as_deref().map(compile_glob).transpose()?,
            mode: wanted.mode,
            context: wanted.context.min(MAX_CONTEXT),
            limit: wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
            plan: CallPlan::reads(format!("grep {}", wanted.pattern), vec![root.clone()]),
            root,
        }))
    }
}

impl PreparedCall for GrepCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.search(&io.cancel))
    }
}

impl GrepCall {
    fn search(&self, cancel: &CancellationToken) -> Result<CallOutput, CallError> {
        if !self.root.exists() {
            let shown = self.workspace.shown(&self.root);
            return Err(CallError::new(format!("{shown} does not exist; find it with `glob`")));
        }
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        let mut result = String::new();
        let mut left = self.limit;
        let end = walk_folder(&self.root, &self.private, cancel, |entry| {
            let is_wanted = is_file(entry)
                && self.glob.as_ref().is_none_or(|glob| {
                    let below = path_below(&self.root, entry);
                    glob.is_match(&below)
                        || below.file_name().is_some_and(|name| glob.is_match(name))
                });
            if !is_wanted {
                return true;
            }
            let mut found = FileMatches::new(self.mode, left, cancel);
            // A file that cannot be read is skipped, as in ripgrep.
            let _unreadable = searcher.search_path(&self.matcher, entry.path(), &mut found);
            if found.count == 0 {
                return true;
            }
            if left == 0 {
                return false;
            }
            let shown = self.workspace.shown(entry.path());
            let _infallible = match self.mode {
                GrepMode::Content => write!(result, "{shown}\n{}", found.text),
                GrepMode::Files => writeln!(result, "{shown}"),
                GrepMode::Count => writeln!(result, "{shown}: {}", found.count),
            };
            left -= if self.mode == GrepMode::Content { found.count.min(left) } else { 1 };
            !found.is_cut && has_room(&result)
        });
        let limit = EntryLimit { count: self.limit, argument: Some("limit") };
        Ok(CallOutput::text(finish_search(result, "no match\n", end, limit)))
    }
}

/// The matches in one file.
struct FileMatches<'a> {
    mode: GrepMode,
    /// The maximum number of matching lines to show.
    limit: usize,
    cancel: &'a CancellationToken,
    count: usize,
    text: String,
    /// There are more matches than may be shown.
    is_cut: bool,
}

impl<'a> FileMatches<'a> {
    fn new(mode: GrepMode, limit: usize, cancel: &'a CancellationToken) -> Self {
        Self { mode, limit, cancel, count: 0, text: String::new(), is_cut: false }
    }

    fn push(&mut self, number: Option<u64>, separator: char, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = truncate_chars(line.trim_end_matches(['\r', '\n']), MAX_LINE_CHARS);
        let number = number.unwrap_or_default();
        let _infallible = writeln!(self.text, "{number}{separator}{line}");
    }
}

impl Sink for &mut FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.mode == GrepMode::Content && self.count >= self.limit {
            self.is_cut = true;
            self.count += usize::from(self.limit == 0);
            return Ok(false);
        }
        self.count += 1;
        match self.mode {
            GrepMode::Content => self.push(found.line_number(), ':', found.bytes()),
            GrepMode::Files => return Ok(false),
            GrepMode::Count => {}
        }
        Ok(!self.cancel.is_cancelled())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if self.mode == GrepMode::Content && self.count < self.limit.saturating_add(1) {
            self.push(line.line_number(), '-', line.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.mode == GrepMode::Content {
            self.text.push_str("--\n");
        }
        Ok(true)
    }
}

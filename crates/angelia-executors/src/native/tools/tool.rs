//! The interface between the loop and a tool. A call is prepared, scheduled by its plan, reviewed,
//! decided by the permission authority, and run.

use std::{fmt, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{CallerTool, CommandAccess, Content, FileEdit, RawJson, ToolAccess, ToolClass},
    ports::BoxFuture,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// A tool of a session.
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Describes the tool to the model. Every request carries this text, so it is short.
    fn description(&self) -> &'static str;

    /// Returns the JSON schema of its arguments.
    fn schema(&self) -> &'static str;

    /// Reads the arguments and resolves the paths. Changes nothing, but may block on a file system.
    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError>;

    /// Describes the tool for a request.
    fn definition(&self) -> CallerTool {
        CallerTool {
            name: self.name().into(),
            description: self.description().into(),
            input_schema: raw_json(self.schema()),
        }
    }
}

/// A call with valid arguments.
pub trait PreparedCall: fmt::Debug + Send + Sync + 'static {
    fn plan(&self) -> &CallPlan;

    /// Checks that the call is possible with the files as they are now, and returns what it would
    /// change, so that nobody is asked about a call that must fail. May block on a file system.
    fn review(&self) -> Result<Vec<FileEdit>, CallError> {
        Ok(Vec::new())
    }

    /// Runs the call. Repeats the checks of `review`.
    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput>;
}

/// What is known about the effects of a call before it runs.
#[derive(Clone, Debug)]
pub struct CallPlan {
    pub class: ToolClass,
    /// With real paths.
    pub access: ToolAccess,
    /// One line for people.
    pub title: Arc<str>,
    /// Why a person must be asked about the call at every level of permission.
    pub must_ask: Option<Arc<str>>,
    /// An external tool says that it changes nothing. This affects the order of calls, but never
    /// permission.
    pub read_only_hint: bool,
    /// The call concerns only Angelia's own records, which have rules of their own. Nobody is asked
    /// about it, but the owner's rules can still refuse it.
    pub is_own_record: bool,
    /// The call delegates work to another agent. Several agents can work at the same time.
    pub hands_on: bool,
}

impl CallPlan {
    fn new(class: ToolClass, access: ToolAccess, title: impl Into<Arc<str>>) -> Self {
        Self {
            class,
            access,
            title: title.into(),
            must_ask: None,
            read_only_hint: false,
            is_own_record: false,
            hands_on: false,
        }
    }

    /// Plans a call that touches nothing on this machine.
    pub fn free(title: impl Into<Arc<str>>) -> Self {
        Self::new(ToolClass::Other, ToolAccess::default(), title)
    }

    /// Plans a call that concerns only Angelia's own records.
    pub fn own_record(title: impl Into<Arc<str>>) -> Self {
        Self { is_own_record: true, ..Self::free(title) }
    }

    /// Plans a call that delegates work to another agent, which asks for its own permissions.
    pub fn hands_on(title: impl Into<Arc<str>>) -> Self {
        Self { hands_on: true, ..Self::own_record(title) }
    }

    /// Plans a call of an external tool, whose effects are unknown.
    pub fn external(title: impl Into<Arc<str>>, read_only_hint: bool) -> Self {
        Self { read_only_hint, ..Self::free(title) }
    }

    /// Plans a call that reads below these paths.
    pub fn reads(title: impl Into<Arc<str>>, paths: Vec<PathBuf>) -> Self {
        let access = ToolAccess { reads: paths, ..ToolAccess::default() };
        Self::new(ToolClass::Read, access, title)
    }

    /// Plans a call that changes these files.
    pub fn edits(title: impl Into<Arc<str>>, paths: Vec<PathBuf>) -> Self {
        let access = ToolAccess { writes: paths, ..ToolAccess::default() };
        Self::new(ToolClass::Edit, access, title)
    }

    /// Plans a call that runs a command.
    pub fn executes(title: impl Into<Arc<str>>, command: Option<CommandAccess>) -> Self {
        let access = ToolAccess { command, ..ToolAccess::default() };
        Self::new(ToolClass::Execute, access, title)
    }
}

/// The link between a running call and the loop.
#[derive(Clone, Debug, Default)]
pub struct CallIo {
    /// Ends the call at once; it then returns what it has.
    pub cancel: CancellationToken,
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutput {
    pub ok: bool,
    pub content: Vec<Content>,
    /// The files that the call has changed, as real paths.
    pub changed: Vec<PathBuf>,
}

impl CallOutput {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self { ok: true, content: vec![Content::Text(text.into())], changed: Vec::new() }
    }

    pub fn failure(text: impl Into<Arc<str>>) -> Self {
        Self { ok: false, ..Self::text(text) }
    }

    /// Returns all text of the result.
    pub fn all_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(&**text),
            Content::Image { .. } => None,
        });
        texts.collect()
    }
}

impl From<Result<CallOutput, CallError>> for CallOutput {
    fn from(result: Result<CallOutput, CallError>) -> Self {
        result.unwrap_or_else(|error| Self::failure(error.to_string()))
    }
}

/// Why a call was not carried out, in words that tell the model what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CallError(String);

impl CallError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Reads the arguments of a call.
pub(in crate::native) fn parse_arguments<T: DeserializeOwned>(
    arguments: &RawValue,
) -> Result<T, CallError> {
    serde_json::from_str(arguments.get()).map_err(|error| {
        CallError::new(format!("the arguments do not fit the tool's schema: {error}"))
    })
}

/// Runs the blocking work of a call on a thread of its own.
pub(super) fn run_blocking(
    work: impl FnOnce() -> Result<CallOutput, CallError> + Send + 'static,
) -> BoxFuture<'static, CallOutput> {
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(CallError::new(format!("the tool failed: {error}")))).into()
    })
}

/// Converts a schema, which a test checks to be JSON.
pub(in crate::native) fn raw_json(text: &str) -> RawJson {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

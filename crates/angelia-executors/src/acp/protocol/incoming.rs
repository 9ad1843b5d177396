//! Messages from agents during a turn. Any field may be missing or have an unexpected type. Such a
//! field counts as absent, and the other fields are still read.

use std::sync::Arc;

use angelia_core::model::{
    CommandAccess, ContextWindow, FileChange, FileEdit, TextReplacement, ToolClass,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The parameters of `session/update`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct SessionUpdateParams<'a> {
    pub(crate) session_id: Lenient<BorrowedStr<'a>>,
    pub(crate) update: Option<&'a RawValue>,
}

/// The kind of an update.
#[derive(Debug, Deserialize)]
pub(crate) struct UpdateHeader<'a> {
    #[serde(borrow, default, rename = "sessionUpdate")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
}

/// A chunk of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct UpdateChunk<'a> {
    pub(crate) content: Lenient<IncomingBlock<'a>>,
    pub(crate) message_id: Lenient<BorrowedStr<'a>>,
}

/// A content block. Only text is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct IncomingBlock<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    text: Lenient<BorrowedStr<'a>>,
}

impl IncomingBlock<'_> {
    pub(crate) fn text(&self) -> Option<&str> {
        match self.kind.as_str() {
            Some("text") | None => self.text.as_str(),
            Some(_) => None,
        }
    }
}

/// A tool call, an update of one, or the tool call of a permission request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ToolCallFields<'a> {
    pub(crate) tool_call_id: Lenient<BorrowedStr<'a>>,
    name: Lenient<BorrowedStr<'a>>,
    pub(crate) title: Lenient<BorrowedStr<'a>>,
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) raw_input: Option<&'a RawValue>,
    pub(crate) raw_output: Option<&'a RawValue>,
    content: Lenient<Vec<Lenient<ToolCallContent<'a>>>>,
    locations: Lenient<Vec<Lenient<ToolCallLocation<'a>>>>,
    #[serde(rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ToolCallContent<'a> {
    content: Lenient<IncomingBlock<'a>>,
    /// The file of a diff.
    pub(crate) path: Lenient<BorrowedStr<'a>>,
    /// The file's content, or part of it, before the change.
    pub(crate) old_text: Lenient<BorrowedStr<'a>>,
    /// The same content after the change.
    pub(crate) new_text: Lenient<BorrowedStr<'a>>,
    pub(crate) terminal_id: Lenient<BorrowedStr<'a>>,
}

impl ToolCallContent<'_> {
    pub(crate) fn text(&self) -> Option<&str> {
        self.content.0.as_ref()?.text()
    }

    /// Returns the change of a diff. Many agents send only the part of the file that changes,
    /// although the protocol asks for the whole file. A replacement is right in both cases.
    fn file_edit(&self) -> Option<FileEdit> {
        let new: Arc<str> = self.new_text.as_str()?.into();
        let change = match self.old_text.as_str().filter(|old| !old.is_empty()) {
            Some(old) => FileChange::Replace(TextReplacement { old: old.into(), new, all: false }),
            None => FileChange::Write(new),
        };
        Some(FileEdit { path: self.path.as_str()?.into(), change })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ToolCallLocation<'a> {
    #[serde(borrow, default)]
    path: Lenient<BorrowedStr<'a>>,
}

impl<'a> ToolCallFields<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Returns the content, or `None` if the message does not mention it and it is unchanged.
    pub(crate) fn content(&self) -> Option<impl Iterator<Item = &ToolCallContent<'a>>> {
        let content = self.content.0.as_ref()?;
        Some(content.iter().filter_map(|one| one.0.as_ref()))
    }

    /// Returns the changes in the content's diffs, or `None` if there are no diffs and earlier ones
    /// stay valid.
    pub(crate) fn file_edits(&self) -> Option<Vec<FileEdit>> {
        let edits: Vec<FileEdit> = self.content()?.filter_map(ToolCallContent::file_edit).collect();
        (!edits.is_empty()).then_some(edits)
    }

    /// Returns the files that the tool call touches.
    pub(crate) fn paths(&self) -> Vec<&str> {
        let locations = self.locations.0.iter().flatten();
        let locations = locations.filter_map(|one| one.0.as_ref()?.path.as_str());
        let changes = self.content.0.iter().flatten();
        let changes = changes.filter_map(|one| one.0.as_ref()?.path.as_str());
        locations.chain(changes).collect()
    }

    /// Returns the agent's own name for the tool, from the protocol's field or else from the
    /// `_meta` object in which some agents put it.
    pub(crate) fn tool_name(&self) -> Option<String> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['(', ')', ' ', '\n', '\t']);
        if let Some(name) = self.name.as_str().map(str::trim).filter(|name| is_name(name)) {
            return Some(name.to_owned());
        }
        let meta: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(self.meta?.get()).ok()?;
        let named = meta.values().find_map(|of| of.get("toolName")?.as_str());
        let name = named.or_else(|| meta.get("toolName")?.as_str())?.trim();
        is_name(name).then(|| name.to_owned())
    }
}

/// The known parts of a tool's input, under the names that different agents use.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AcpToolInput<'a> {
    #[serde(borrow, default)]
    command: Lenient<CommandField<'a>>,
    #[serde(borrow, default)]
    cmd: Lenient<CommandField<'a>>,
    #[serde(borrow, default)]
    path: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    file_path: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    filepath: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default, rename = "filePath")]
    file_path_camel_case: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    url: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    cwd: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    workdir: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    directory: Lenient<BorrowedStr<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CommandField<'a> {
    #[serde(borrow)]
    Line(BorrowedStr<'a>),
    Words(Vec<String>),
}

impl<'a> AcpToolInput<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    pub(crate) fn command(&self) -> Option<String> {
        let line = self.command.0.as_ref().or(self.cmd.0.as_ref())?;
        let line = match line {
            CommandField::Line(line) => line.0.to_string(),
            CommandField::Words(words) => words.join(" "),
        };
        (!line.trim().is_empty()).then_some(line)
    }

    /// Returns the command, split into words if the agent states it that way.
    pub(crate) fn command_access(&self) -> Option<CommandAccess> {
        match self.command.0.as_ref().or(self.cmd.0.as_ref())? {
            CommandField::Line(line) => Some(CommandAccess::shell(&*line.0)),
            CommandField::Words(words) => {
                Some(CommandAccess::argv(words.iter().map(|word| &**word)))
            }
        }
    }

    /// Returns every path in the input.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let all = [&self.file_path, &self.filepath, &self.file_path_camel_case, &self.path];
        all.into_iter().filter_map(Lenient::<BorrowedStr<'_>>::as_str)
    }

    pub(crate) fn cwd(&self) -> Option<&str> {
        self.cwd.as_str().or(self.workdir.as_str()).or(self.directory.as_str())
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_str()
    }
}

/// Maps the protocol's tool kinds to our classes. A move is not classed as an edit, because the
/// agent reports only one of its two paths.
pub(crate) fn tool_class(kind: Option<&str>) -> ToolClass {
    match kind {
        Some("read" | "search") => ToolClass::Read,
        Some("edit" | "delete") => ToolClass::Edit,
        Some("execute") => ToolClass::Execute,
        _ => ToolClass::Other,
    }
}

/// The parameters of `session/request_permission`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct PermissionRequestParams<'a> {
    pub(crate) tool_call: Option<&'a RawValue>,
    options: Lenient<Vec<Lenient<OptionFields<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct OptionFields<'a> {
    option_id: Lenient<BorrowedStr<'a>>,
    kind: Lenient<BorrowedStr<'a>>,
}

/// The option ids of a permission request, by kind. The agent chooses the ids; they carry no
/// meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PermissionOptions {
    pub(crate) allow_once: Option<Box<str>>,
    pub(crate) reject_once: Option<Box<str>>,
    pub(crate) reject_always: Option<Box<str>>,
}

impl PermissionRequestParams<'_> {
    pub(crate) fn options_by_kind(&self) -> PermissionOptions {
        let mut choices = PermissionOptions::default();
        for option in self.options.0.iter().flatten() {
            let Some(option) = &option.0 else { continue };
            let (Some(id), Some(kind)) = (option.option_id.as_str(), option.kind.as_str()) else {
                continue;
            };
            let place = match kind {
                "allow_once" => &mut choices.allow_once,
                "reject_once" => &mut choices.reject_once,
                "reject_always" => &mut choices.reject_always,
                _ => continue,
            };
            // If a kind occurs twice, the first option is the generic one.
            place.get_or_insert_with(|| id.into());
        }
        choices
    }
}

/// The fields of a `plan` update.
#[derive(Debug, Deserialize)]
pub(crate) struct PlanFields<'a> {
    #[serde(borrow, default)]
    pub(crate) entries: Lenient<Vec<Lenient<PlanEntry<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct PlanEntry<'a> {
    pub(crate) content: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
}

/// The fields of a `usage_update`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct UsageFields<'a> {
    used: Lenient<u64>,
    size: Lenient<u64>,
    cost: Lenient<Cost<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Cost<'a> {
    amount: Lenient<f64>,
    currency: Lenient<BorrowedStr<'a>>,
}

impl UsageFields<'_> {
    /// Returns how full the context window is, if the agent reports it.
    pub(crate) fn context(&self) -> Option<ContextWindow> {
        ContextWindow::from_reported(self.used.get()?, self.size.get()?)
    }

    /// Returns the total cost of the conversation so far, in dollars.
    pub(crate) fn total_cost_usd(&self) -> Option<f64> {
        let cost = self.cost.0.as_ref()?;
        let is_dollars = cost.currency.as_str().is_none_or(|name| name == "USD");
        let amount = cost.amount.get()?;
        (is_dollars && amount.is_finite() && amount >= 0.0).then_some(amount)
    }
}

/// The answer to `session/prompt`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct PromptResult<'a> {
    pub(crate) stop_reason: Lenient<BorrowedStr<'a>>,
    pub(crate) usage: Lenient<TurnTokens>,
    #[serde(rename = "_meta")]
    meta: Lenient<PromptResultMeta>,
}

/// The tokens of one turn.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnTokens {
    #[serde(default, alias = "input_tokens")]
    pub(crate) input_tokens: Lenient<u64>,
    #[serde(default, alias = "output_tokens")]
    pub(crate) output_tokens: Lenient<u64>,
    #[serde(default)]
    pub(crate) cached_read_tokens: Lenient<u64>,
    #[serde(default)]
    pub(crate) cached_write_tokens: Lenient<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PromptResultMeta {
    #[serde(default)]
    quota: Lenient<Quota>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Quota {
    #[serde(default)]
    token_count: Lenient<TurnTokens>,
}

impl PromptResult<'_> {
    /// Returns the tokens from the protocol's field, or else from the `_meta` object in which some
    /// agents put them.
    pub(crate) fn tokens(&self) -> Option<TurnTokens> {
        let meta = || self.meta.get()?.quota.get()?.token_count.get();
        self.usage.get().or_else(meta)
    }
}

//! Finds tools of MCP servers by keywords, if there are too many to describe in every request.
//! Requests then have two tools instead: one finds tools, the other calls them. This way, requests
//! begin with the same bytes no matter what the model has found. Pure.

use std::{cmp::Reverse, fmt::Write as _, sync::Arc};

use angelia_core::{
    model::{CallerTool, RawJson},
    ports::BoxFuture,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::servers::McpTool;
use crate::native::{
    arguments::find_tool,
    tools::{CallError, CallIo, CallOutput, CallPlan, PreparedCall, parse_arguments, raw_json},
};

pub(super) const SEARCH_TOOL: &str = "tool_search";
pub(super) const CALL_TOOL: &str = "tool_call";

const SEARCH_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"words for what the tool should do, or a part of its name"}},"required":["query"]}"#;
const CALL_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"as tool_search has shown it"},"arguments":{"type":"object"}},"required":["name","arguments"]}"#;
const CALL_DESCRIPTION: &str =
    "Calls a tool that tool_search has found, with the arguments that its schema describes.";

/// The maximum number of tools that are shown, and their maximum size.
const MAX_FOUND: usize = 8;
const MAX_FOUND_BYTES: usize = 40 * 1024;

/// The maximum number of names that are shown if no tool matches.
const MAX_NAMES: usize = 200;

/// Returns the two tools. `servers`: the name of each server, and how many tools it has.
pub(super) fn search_definitions(servers: &[(&str, usize)]) -> Vec<CallerTool> {
    let servers = servers.iter().map(|(name, tools)| format!("{name} ({tools})"));
    let servers = servers.collect::<Vec<_>>().join(", ");
    let description = format!(
        "Finds tools of the MCP servers by words and shows how to call them with {CALL_TOOL}. The \
         servers and how many tools they have: {servers}."
    );
    vec![
        definition(SEARCH_TOOL, description, SEARCH_SCHEMA),
        definition(CALL_TOOL, CALL_DESCRIPTION, CALL_SCHEMA),
    ]
}

fn definition(name: &str, description: impl Into<Arc<str>>, schema: &str) -> CallerTool {
    CallerTool {
        name: name.into(),
        description: description.into(),
        input_schema: raw_json(schema),
    }
}

#[derive(Deserialize)]
struct CallArguments {
    name: String,
    arguments: Box<RawValue>,
}

/// Returns the tool that a call of [`CALL_TOOL`] names, with the arguments for it.
pub(super) fn meant_tool<'a>(
    arguments: &RawValue,
    known: impl Iterator<Item = &'a Arc<str>>,
) -> Result<(Arc<str>, RawJson), String> {
    let call: CallArguments = parse_arguments(arguments).map_err(|error| error.to_string())?;
    let name = find_tool(&call.name, known.map(|name| &**name)).map_err(|it| it.to_string())?;
    Ok((name.into(), call.arguments.into()))
}

/// The answer to a search.
#[derive(Debug)]
pub(super) struct FoundTools {
    plan: CallPlan,
    text: String,
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
}

impl FoundTools {
    pub(super) fn search<'a>(
        arguments: &RawValue,
        tools: impl Iterator<Item = &'a Arc<McpTool>>,
    ) -> Result<Self, CallError> {
        let SearchArguments { query } = parse_arguments(arguments)?;
        let tools: Vec<Candidate<'_>> = tools.map(|tool| Candidate::of(tool)).collect();
        let text = describe(&query, &tools);
        Ok(Self { plan: CallPlan::reads(format!("tools for: {query}"), Vec::new()), text })
    }
}

impl PreparedCall for FoundTools {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        Box::pin(std::future::ready(CallOutput::text(self.text)))
    }
}

/// The parts of a tool that a search looks at.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    name: &'a str,
    description: &'a str,
    schema: &'a str,
}

impl<'a> Candidate<'a> {
    fn of(tool: &'a McpTool) -> Self {
        Self { name: &tool.name, description: &tool.description, schema: tool.schema.get() }
    }

    /// Returns how well the tool matches; 0 if it does not.
    fn score(&self, wanted: &[String]) -> usize {
        let (name, description) = (words(self.name), words(self.description));
        let of_word = |wanted: &String| {
            let fits = |found: &[String]| {
                let is_part = |word: &String| word.contains(wanted.as_str());
                usize::from(found.contains(wanted)) + usize::from(found.iter().any(is_part))
            };
            fits(&name) * 3 + fits(&description)
        };
        wanted.iter().map(of_word).sum()
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn describe(query: &str, tools: &[Candidate<'_>]) -> String {
    let wanted = words(query);
    let mut found: Vec<_> = tools.iter().map(|tool| (tool.score(&wanted), tool)).collect();
    found.retain(|(score, _)| *score > 0);
    found.sort_by_key(|(score, tool)| (Reverse(*score), tool.name));
    let mut text = String::new();
    for (_, tool) in found.iter().take(MAX_FOUND) {
        let Candidate { name, description, schema } = tool;
        if text.len() + description.len() + schema.len() > MAX_FOUND_BYTES {
            let _infallible = writeln!(text, "{name}: search for this name alone to see it");
            continue;
        }
        let _infallible = writeln!(text, "{name}: {description}\narguments: {schema}\n");
    }
    if text.is_empty() {
        let names: Vec<&str> = tools.iter().take(MAX_NAMES).map(|tool| tool.name).collect();
        return format!("no tool fits; there are: {}", names.join(", "));
    }
    let left_out = found.len().saturating_sub(MAX_FOUND);
    if left_out > 0 {
        let _infallible = writeln!(text, "{left_out} more fit; use other words to see them");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [Candidate<'static>; 4] = [
        Candidate { name: "mcp__db__query", description: "Runs a query in SQL", schema: "{}" },
        Candidate { name: "mcp__db__tables", description: "Lists the tables", schema: "{}" },
        Candidate { name: "mcp__mail__send", description: "Sends a message", schema: "{}" },
        Candidate { name: "mcp__mail__query", description: "Finds messages", schema: "{}" },
    ];

    #[test]
    fn the_best_fitting_tools_come_first() {
        let first = |query: &str| {
            let text = describe(query, &TOOLS);
            text.split(':').next().unwrap_or_default().to_owned()
        };
        assert_eq!(first("sql query"), "mcp__db__query");
        assert_eq!(first("query mail"), "mcp__mail__query");
        assert_eq!(first("SEND a message"), "mcp__mail__send");
        assert_eq!(first("table"), "mcp__db__tables");
    }

    #[test]
    fn without_a_fit_all_names_are_shown() {
        let text = describe("weather", &TOOLS);
        assert!(text.starts_with("no tool fits") && text.contains("mcp__mail__send"), "{text}");
        assert!(describe("", &TOOLS).starts_with("no tool fits"));
    }

    #[test]
    fn many_and_long_ones_are_cut() {
        let schema = "x".repeat(MAX_FOUND_BYTES / 2);
        let name = |number: usize| format!("mcp__db__query{number}");
        let names: Vec<String> = (0..30).map(name).collect();
        let tools = names.iter().map(|name| Candidate { name, description: "", schema: &schema });
        let text = describe("query", &tools.collect::<Vec<_>>());
        assert!(text.len() < MAX_FOUND_BYTES + 2000, "{}", text.len());
        assert!(text.contains("22 more fit") && text.contains("search for this name"), "{text}");
    }

    #[test]
    fn a_call_names_a_known_tool() {
        let known: [Arc<str>; 2] = ["mcp__db__query".into(), "mcp__mail__send".into()];
        let read = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            meant_tool(&raw, known.iter())
        };
        let (name, arguments) = read(r#"{"name":"mcp__db__query","arguments":{"a":1}}"#).unwrap();
        assert_eq!((&*name, arguments.get()), ("mcp__db__query", r#"{"a":1}"#));
        let error = read(r#"{"name":"mcp__db__quarry","arguments":{}}"#).unwrap_err();
        assert!(error.contains("mcp__db__query"), "{error}");
    }
}

//! Decodes the caller's tools, in both formats: `{"type":"function","function":{…}}` of Chat and
//! `{"type":"function",…}` of Responses.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{CallerTool, RawJson, ToolChoice};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::dialect::{InvalidRequest, json},
    contents::TypeTag,
};

/// Decodes the functions among the tools. Other types are the vendor's own services, which cannot
/// run here: they are accepted but not offered.
pub(super) fn functions(raw: &[&RawValue], field: &str) -> Result<Vec<CallerTool>, InvalidRequest> {
    let mut tools = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let place = format!("{field}.{index}");
        let kind: TypeTag<'_> = json::parse_part(raw, &place)?;
        if kind.kind.as_deref().unwrap_or("function") == "function" {
            add(&mut tools, function(raw, &place)?);
        }
    }
    Ok(tools)
}

/// Adds a tool. Agents know tools by name, so the first of two with the same name wins.
pub(super) fn add(tools: &mut Vec<CallerTool>, tool: CallerTool) {
    if !tools.iter().any(|known| known.name == tool.name) {
        tools.push(tool);
    }
}

/// Decodes one function, in either format.
pub(super) fn function(raw: &RawValue, place: &str) -> Result<CallerTool, InvalidRequest> {
    let tool: ToolDefinition<'_> = json::parse_part(raw, place)?;
    let flat = FunctionDefinition {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    };
    tool.function.unwrap_or(flat).into_caller_tool(place)
}

/// Decodes the legacy `functions` of Chat: definitions without the `function` wrapper.
pub(super) fn bare_functions(
    raw: &[&RawValue],
    field: &str,
) -> Result<Vec<CallerTool>, InvalidRequest> {
    let tool = |(index, raw): (usize, &&RawValue)| {
        let place = format!("{field}.{index}");
        json::parse_part::<FunctionDefinition<'_>>(raw, &place)?.into_caller_tool(&place)
    };
    raw.iter().enumerate().map(tool).collect()
}

/// Decodes the tool choice. A choice that allows only some tools removes the others.
pub(super) fn choice(
    raw: Option<&RawValue>,
    tools: &mut Vec<CallerTool>,
    field: &str,
) -> Result<ToolChoice, InvalidRequest> {
    let Some(raw) = raw else {
        return Ok(ToolChoice::Auto);
    };
    if raw.get().starts_with('"') {
        let word: Cow<'_, str> = json::parse_part(raw, field)?;
        return match &*word {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => required_choice(tools, field),
            other => {
                let why = format!("`{other}` is not one of auto, none, required");
                Err(InvalidRequest::in_field(field, why))
            }
        };
    }
    let choice: ToolChoiceObject<'_> = json::parse_part(raw, field)?;
    match choice.kind.as_deref() {
        Some("allowed_tools") => {
            let allowed = choice
                .allowed_tools
                .unwrap_or(AllowedTools { mode: choice.mode, tools: choice.tools });
            let names = allowed.tools.iter().filter_map(NamedTool::name);
            let names: Vec<&str> = names.collect();
            tools.retain(|tool| names.contains(&&*tool.name));
            match allowed.mode.as_deref() {
                Some("required") => required_choice(tools, field),
                _ => Ok(ToolChoice::Auto),
            }
        }
        None | Some("function" | "custom") => {
            let named = NamedTool { name: choice.name, function: choice.function };
            match named.name() {
                Some(name) => named_choice(name, tools, field),
                None => Err(InvalidRequest::in_field(field, "the tool has no name")),
            }
        }
        // This is one of the vendor's own services.
        Some(_) => Ok(ToolChoice::Auto),
    }
}

fn required_choice(tools: &[CallerTool], field: &str) -> Result<ToolChoice, InvalidRequest> {
    if tools.is_empty() {
        let why = "a call is required, and there is no function to call";
        return Err(InvalidRequest::in_field(field, why));
    }
    Ok(ToolChoice::Required)
}

fn named_choice(
    name: &str,
    tools: &[CallerTool],
    field: &str,
) -> Result<ToolChoice, InvalidRequest> {
    let Some(tool) = tools.iter().find(|tool| &*tool.name == name) else {
        let why = format!("there is no function `{name}` among the tools");
        return Err(InvalidRequest::in_field(field, why));
    };
    Ok(ToolChoice::Named(Arc::clone(&tool.name)))
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct ToolDefinition<'a> {
    #[serde(borrow)]
    function: Option<FunctionDefinition<'a>>,
    name: Option<Arc<str>>,
    description: Option<Arc<str>>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct FunctionDefinition<'a> {
    name: Option<Arc<str>>,
    description: Option<Arc<str>>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

impl FunctionDefinition<'_> {
    fn into_caller_tool(self, place: &str) -> Result<CallerTool, InvalidRequest> {
        let name = self.name.filter(|name| !name.is_empty());
        let Some(name) = name else {
            let field = format!("{place}.name");
            return Err(InvalidRequest::in_field(field, "a function needs a name"));
        };
        let input_schema = match self.parameters {
            None => no_parameters(),
            Some(raw) if json::is_object(raw) => raw.to_owned().into(),
            Some(_) => {
                let why = "this must be a JSON schema, which is an object";
                return Err(InvalidRequest::in_field(format!("{place}.parameters"), why));
            }
        };
        Ok(CallerTool { name, description: self.description.unwrap_or_default(), input_schema })
    }
}

fn no_parameters() -> RawJson {
    json::literal(r#"{"type":"object","properties":{}}"#)
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct ToolChoiceObject<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionName<'a>>,
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tools: Vec<NamedTool<'a>>,
    #[serde(borrow)]
    allowed_tools: Option<AllowedTools<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct AllowedTools<'a> {
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tools: Vec<NamedTool<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct NamedTool<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionName<'a>>,
}

impl NamedTool<'_> {
    fn name(&self) -> Option<&str> {
        let inner = self.function.as_ref().map(|function| &*function.name);
        inner.or(self.name.as_deref())
    }
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct FunctionName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

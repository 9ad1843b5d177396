//! Tools that are more than functions: tools in a namespace, whose calls name it next to the tool,
//! and custom tools, whose input is text instead of JSON. Agents know only functions, so the
//! namespace becomes part of the name, and the text becomes the only argument.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use angelia_core::model::CallerTool;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    super::dialect::{InvalidRequest, json},
    contents::TypeTag,
    tools,
};

/// The only argument of a custom tool.
pub(super) const CUSTOM_INPUT_FIELD: &str = "input";

const CUSTOM_INPUT_SCHEMA: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

/// The call formats of tools that are not plain functions, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolNames(Arc<HashMap<Arc<str>, CallFormat>>);

#[derive(Clone, Debug)]
pub(super) enum CallFormat {
    Function { namespace: Option<Arc<str>>, name: Arc<str> },
    Custom { name: Arc<str> },
}

impl CallFormat {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Function { name, .. } | Self::Custom { name } => name,
        }
    }
}

impl ToolNames {
    /// Decodes the tools that can be offered to an agent. The others are the vendor's own services,
    /// which cannot run here: they are accepted but not offered.
    pub(super) fn decode_tools(
        raw: &[&RawValue],
    ) -> Result<(Vec<CallerTool>, Self), InvalidRequest> {
        let mut offered = Vec::with_capacity(raw.len());
        let mut names = HashMap::new();
        for (index, raw) in raw.iter().enumerate() {
            let place = format!("tools.{index}");
            let kind: TypeTag<'_> = json::parse_part(raw, &place)?;
            match kind.kind.as_deref().unwrap_or("function") {
                "function" => tools::add(&mut offered, tools::function(raw, &place)?),
                "custom" => {
                    let tool = custom(raw, &place)?;
                    let name = Arc::clone(&tool.name);
                    names.insert(Arc::clone(&name), CallFormat::Custom { name });
                    tools::add(&mut offered, tool);
                }
                "namespace" => {
                    for (tool, spelled) in namespace(raw, &place)? {
                        names.insert(Arc::clone(&tool.name), spelled);
                        tools::add(&mut offered, tool);
                    }
                }
                _ => {}
            }
        }
        Ok((offered, Self(Arc::new(names))))
    }

    /// Returns the call format of the tool that the agent knows by this name.
    pub(super) fn call_format(&self, name: &Arc<str>) -> CallFormat {
        self.0
            .get(name)
            .cloned()
            .unwrap_or_else(|| CallFormat::Function { namespace: None, name: Arc::clone(name) })
    }
}

/// Returns the agent's name for a tool in a namespace.
pub(super) fn namespaced_name(namespace: Option<&str>, name: Arc<str>) -> Arc<str> {
    match namespace {
        None | Some("") => name,
        Some(namespace) => format!("{namespace}__{name}").into(),
    }
}

/// Extracts the text input of a custom tool call. Other arguments are passed on unchanged.
pub(super) fn custom_input_text(arguments: &str) -> String {
    #[derive(Deserialize)]
    struct Arguments {
        input: String,
    }
    match serde_json::from_str(arguments) {
        Ok(Arguments { input }) => input,
        Err(_something_else) => arguments.to_owned(),
    }
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct CustomTool<'a> {
    name: Arc<str>,
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow)]
    format: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct InputFormat<'a> {
    #[serde(borrow)]
    definition: Option<Cow<'a, str>>,
}

fn custom(raw: &RawValue, place: &str) -> Result<CallerTool, InvalidRequest> {
    let tool: CustomTool<'_> = json::parse_part(raw, place)?;
    let mut description = tool.description.unwrap_or_default().into_owned();
    let format = tool.format.map(|raw| json::parse_part(raw, place));
    if let Some(Ok(InputFormat { definition: Some(grammar) })) = format {
        // The grammar is not enforced; the agent is only told about it.
        description.push_str("\n\nThe input must follow this grammar:\n");
        description.push_str(&grammar);
    }
    Ok(CallerTool {
        name: tool.name,
        description: description.into(),
        input_schema: json::literal(CUSTOM_INPUT_SCHEMA),
    })
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct ToolNamespace<'a> {
    name: Arc<str>,
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
}

fn namespace(raw: &RawValue, place: &str) -> Result<Vec<(CallerTool, CallFormat)>, InvalidRequest> {
    let namespace: ToolNamespace<'_> = json::parse_part(raw, place)?;
    let tools = tools::functions(&namespace.tools, &format!("{place}.tools"))?;
    let spelled = |mut tool: CallerTool| {
        let name = Arc::clone(&tool.name);
        tool.name = namespaced_name(Some(&namespace.name), Arc::clone(&name));
        let namespace = Some(Arc::clone(&namespace.name));
        (tool, CallFormat::Function { namespace, name })
    };
    Ok(tools.into_iter().map(spelled).collect())
}

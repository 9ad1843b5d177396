//! Converts the rules that the CLI suggests with a permission request to our patterns.

use angelia_core::model::{ToolClass, ToolPattern};
use serde_json::value::RawValue;

use super::{protocol::control::PermissionSuggestion, tool};

/// Returns the suggested rules that are wider than the call itself, which has this `subject`.
/// Leaves out suggested changes of the permission mode, because the profile's level decides that.
pub(super) fn suggested_patterns(
    suggestions: Option<&RawValue>,
    tool: &str,
    subject: Option<&str>,
) -> Vec<ToolPattern> {
    let suggestions: Vec<PermissionSuggestion<'_>> =
        suggestions.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut texts = Vec::new();
    for suggestion in &suggestions {
        let allows = suggestion.behavior.as_str() == Some("allow");
        for rule in suggestion.rules.0.iter().flatten().filter(|_| allows) {
            let Some(name) = rule.tool_name.as_str() else { continue };
            match rule.rule_content.as_str() {
                None => texts.push(name.to_owned()),
                Some(content) if Some(content) == subject => {}
                // In the CLI's rules for files, `//` is the root.
                Some(content) if content.starts_with("//") && names_files(name) => {
                    texts.push(format!("{name}({})", &content[1..]));
                }
                Some(content) => texts.push(format!("{name}({content})")),
            }
        }
        if names_files(tool) {
            for folder in suggestion.directories.0.iter().flatten() {
                texts.push(format!("{tool}({}/**)", folder.trim_end_matches('/')));
            }
        }
    }
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn names_files(tool: &str) -> bool {
    matches!(tool::tool_class(tool), ToolClass::Read | ToolClass::Edit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wider_rules_are_proposed() {
        let patterns = |json: &str, tool: &str, subject: &str| -> Vec<String> {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let patterns = suggested_patterns(Some(&raw), tool, Some(subject));
            patterns.iter().map(ToString::to_string).collect()
        };
        let exact = r#"[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir x"}],
            "behavior":"allow","destination":"localSettings"},
            {"type":"addDirectories","directories":["/w"],"destination":"session"},
            {"type":"setMode","mode":"acceptEdits","destination":"session"}]"#;
        assert!(patterns(exact, "Bash", "mkdir x").is_empty());
        let wide = r#"[{"type":"addRules","behavior":"allow","rules":[
            {"toolName":"Bash","ruleContent":"npm run:*"},{"toolName":"Read","ruleContent":"//etc/**"},
            {"toolName":"WebSearch"}]},
            {"type":"addRules","behavior":"deny","rules":[{"toolName":"Bash"}]}]"#;
        assert_eq!(
            patterns(wide, "Bash", "npm run test"),
            ["Bash(npm run*)", "Read(/etc/**)", "WebSearch"]
        );
        let folder = r#"[{"type":"addDirectories","directories":["/o/"]}]"#;
        assert_eq!(patterns(folder, "Write", "/o/a"), ["Write(/o/**)"]);
        assert!(patterns("5", "Bash", "x").is_empty());
    }
}

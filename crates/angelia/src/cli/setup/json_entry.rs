//! The entry `agent_servers.Angelia` in an editor's JSON file. Pure.
//!
//! Not every editor allows comments in its file, so the entry is marked by a variable that it sets
//! for `angelia acp`. The variable's value records what else Angelia created: the file, or the list
//! of servers.

use serde_json::{Value, json};

use super::{
    client::{EditRefusal, Removal},
    json_text::JsonObject,
    marked_block::newline_of,
};
use crate::program::ProgramCall;

const LIST: &str = "agent_servers";
const NAME: &str = "Angelia";
const MARK: &str = "ANGELIA_SETUP";
const NEW_FILE_FLAG: &str = "[new file]";
const NEW_LIST_FLAG: &str = "[new list]";

/// Returns the text with the entry, which replaces an older one. `more` contains members of the
/// entry that only this editor has.
pub(super) fn with_entry(
    text: Option<&str>,
    tool: &str,
    acp: &ProgramCall,
    more: &Value,
) -> Result<String, EditRefusal> {
    let entry = |flag: &str| {
        let mut env: serde_json::Map<String, Value> =
            acp.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mark = format!("angelia setup {tool} {flag}");
        env.insert(MARK.to_owned(), json!(mark.trim_end()));
        let mut entry = more.clone();
        entry["command"] = json!(acp.program.to_string_lossy());
        entry["args"] = json!(acp.arguments);
        entry["env"] = env.into();
        entry
    };
    let base = text.map(without_entry).transpose()?.and_then(|base| base.text);
    let Some(base) = base else {
        return Ok(format!("{:#}\n", json!({ LIST: { NAME: entry(NEW_FILE_FLAG) } })));
    };
    let root = parse(&base)?;
    let (at, indentation, member, is_only) = match root.find(LIST) {
        None => {
            let list = json!({ NAME: entry(NEW_LIST_FLAG) });
            (
                root.start,
                "  ".to_owned(),
                format!("{}: {list}", json!(LIST)),
                root.members.is_empty(),
            )
        }
        Some(index) => {
            let list = &root.members[index];
            let servers = JsonObject::of_member(&base, list).ok_or_else(no_object)?;
            if servers.find(NAME).is_some() {
                return Err(EditRefusal::Own(format!("your own `{LIST}.{NAME}` stays")));
            }
            let indentation = format!("{}  ", indentation_at(&base, list.start));
            let member = format!("{}: {}", json!(NAME), entry(""));
            (servers.start, indentation, member, servers.members.is_empty())
        }
    };
    let comma = if is_only { "" } else { "," };
    let mut out = base.clone();
    out.insert_str(at, &format!("{}{indentation}{member}{comma}", newline_of(&base)));
    let is_restored = without_entry(&out).is_ok_and(|removed| removed.text == Some(base));
    if is_restored { Ok(out) } else { Err(no_object()) }
}

/// Returns the text without the entry.
pub(super) fn without_entry(text: &str) -> Result<Removal, EditRefusal> {
    let unchanged = || Removal { text: Some(text.to_owned()), mode: None };
    if !text.contains(MARK) {
        return Ok(unchanged());
    }
    let root = parse(text)?;
    let list = root.find(LIST).and_then(|index| Some((index, root.members.get(index)?)));
    let Some((list_index, list)) = list else { return Ok(unchanged()) };
    let servers = JsonObject::of_member(text, list).ok_or_else(no_object)?;
    let entry = servers.find(NAME).and_then(|index| Some((index, servers.members.get(index)?)));
    let Some((index, entry)) = entry else { return Ok(unchanged()) };
    let entry = text.get(entry.value.clone()).unwrap_or_default();
    if !entry.contains(MARK) {
        return Ok(unchanged());
    }
    let is_only_server = servers.members.len() == 1;
    if entry.contains(NEW_FILE_FLAG) && is_only_server && root.members.len() == 1 {
        return Ok(Removal { text: None, mode: None });
    }
    let has_made_list = entry.contains(NEW_FILE_FLAG) || entry.contains(NEW_LIST_FLAG);
    let removed = if has_made_list && is_only_server {
        root.without_member(text, list_index)
    } else {
        servers.without_member(text, index)
    };
    Ok(Removal { text: Some(removed.ok_or_else(no_object)?), mode: None })
}

fn parse(text: &str) -> Result<JsonObject, EditRefusal> {
    JsonObject::parse(text).ok_or_else(no_object)
}

fn no_object() -> EditRefusal {
    EditRefusal::Unreadable(format!("it is not a JSON object with a `{LIST}` object in it"))
}

/// Returns the white space at the start of the line that contains this position.
fn indentation_at(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let blank = line.len() - line.trim_start().len();
    line.get(..blank).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cli::setup::client::Connection;

    fn with(text: Option<&str>) -> Result<String, EditRefusal> {
        with_entry(text, "zed", &Connection::for_tests().acp, &json!({"type": "custom"}))
    }

    const SETTINGS: &str = "// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \
        \"agent_servers\": {\n    \"Other\": { \"command\": \"x\" }, /* mine */\n  },\n}\n";

    #[test]
    fn the_entry_is_added_and_goes_away_to_the_byte() {
        let written = with(Some(SETTINGS)).unwrap();
        insta::assert_snapshot!(written, @r#"
        // Zed settings
        {
          "theme": "One", // dark
          "agent_servers": {
            "Angelia": {"type":"custom","command":"/usr/bin/angelia","args":["acp"],"env":{"ANGELIA_SETUP":"angelia setup zed"}},
            "Other": { "command": "x" }, /* mine */
          },
        }
        "#);
        assert_eq!(with(Some(&written)), Ok(written.clone()), "once more changes nothing");
        assert_eq!(without_entry(&written).unwrap().text.as_deref(), Some(SETTINGS));
        let made = with(None).unwrap();
        assert_eq!(with(Some(&made)), Ok(made.clone()));
        assert_eq!(without_entry(&made).unwrap().text, None);
    }

    #[test]
    fn what_is_edited_meanwhile_stays() {
        let made = with(None).unwrap();
        let value: Value = serde_json::from_str(&made).unwrap();
        let mut with_other = value.clone();
        with_other["agent_servers"]["Other"] = json!({"command": "x"});
        with_other["theme"] = json!("One");
        let left = without_entry(&with_other.to_string()).unwrap().text.unwrap();
        let left: Value = serde_json::from_str(&left).unwrap();
        assert_eq!(left, json!({"agent_servers": {"Other": {"command": "x"}}, "theme": "One"}));
        let mut with_theme = value;
        with_theme["theme"] = json!("One");
        let left = without_entry(&with_theme.to_string()).unwrap().text.unwrap();
        assert_eq!(left, r#"{"theme":"One"}"#);
    }

    #[test]
    fn the_owners_own_entry_stays() {
        let own = r#"{"agent_servers": {"Angelia": {"command": "angelia", "args": ["acp"]}}}"#;
        assert!(matches!(with(Some(own)), Err(EditRefusal::Own(_))));
        assert_eq!(without_entry(own).unwrap().text.as_deref(), Some(own));
        for broken in ["", "[]", "{", "{\"agent_servers\": []}", "{} {}", "{\"a\" 1}", "/* {}"] {
            assert!(matches!(with(Some(broken)), Err(EditRefusal::Unreadable(_))), "{broken}");
        }
    }

    /// Generates JSON in many spellings, with comments, trailing commas and white space.
    fn json_text() -> impl Strategy<Value = String> {
        let blank = prop::sample::select(vec!["", " ", "\n", "\r\n\t", " // c } \" \n", "/* { */"]);
        let scalar = prop::sample::select(vec!["1", "-2.5e3", "true", "null", r#""a\"}\\""#]);
        let scalar = scalar.prop_map(str::to_owned);
        let value = scalar.prop_recursive(3, 12, 3, move |inner| {
            let name = prop::sample::select(vec!["a", "b c", "agent_servers", "Other", "ü"]);
            let blank = blank.clone();
            let member = (blank.clone(), name, blank.clone(), inner.clone(), blank.clone());
            let member = member
                .prop_map(|(a, name, b, value, c)| format!("{a}{}{b}:{b}{value}{c}", json!(name)));
            let object = (prop::collection::vec(member, 0..3), any::<bool>(), blank.clone());
            let object = object.prop_map(|(members, trailing, end)| {
                let comma = if trailing && !members.is_empty() { "," } else { "" };
                format!("{{{}{comma}{end}}}", members.join(","))
            });
            let list = prop::collection::vec(inner, 0..3);
            prop_oneof![2 => object, 1 => list.prop_map(|list| format!("[{}]", list.join(",")))]
        });
        (value, prop::sample::select(vec!["", "\n", " // end"]))
            .prop_map(|(value, end)| format!("{value}{end}"))
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in json_text()) {
            match with(Some(&text)) {
                Ok(written) => {
                    prop_assert_eq!(without_entry(&written).unwrap().text, Some(text));
                    prop_assert_eq!(with(Some(&written)), Ok(written.clone()));
                }
                // Only an object can have an entry.
                Err(refusal) => prop_assert!(
                    !text.starts_with('{') || text.contains("agent_servers"), "{refusal:?} {text}"
                ),
            }
        }

        #[test]
        fn any_bytes_are_survived(text in ".{0,40}|[{}\\[\\]\",:/* a\n]{0,30}ANGELIA_SETUP.{0,9}") {
            let _any = with(Some(&text));
            let _any = without_entry(&text);
        }
    }
}

//! Our entries in the blocks of `config.yaml`, which belongs to its owner. Pure.
//!
//! ```yaml
//! profiles:
//!   # >>> angelia setup ollama: …
//!   ollama: {executor: native, …}
//!   # <<< angelia setup ollama
//!   mine: {…}
//! ```
//!
//! An existing block gets our lines before its own, between marks with the indentation of its keys.
//! Missing blocks become one marked block at the end.

use serde_json::Value;

use super::{
    client::{EditRefusal, FileState, Removal},
    marked_block::{begin_line, end_line, newline_of, with_block, without_block},
};
use crate::config::{YamlBlock, parse_yaml};

/// An entry of a block.
#[derive(Debug)]
pub(super) struct ConfigEntry {
    pub(super) block: &'static str,
    pub(super) key: &'static str,
    /// The lines below the key, without indentation.
    pub(super) lines: Vec<String>,
}

impl ConfigEntry {
    fn indented(&self, indent: usize) -> impl Iterator<Item = String> {
        let outer = " ".repeat(indent);
        let head = format!("{outer}{}:", self.key);
        let lines = self.lines.iter().map(move |line| format!("{outer}  {line}"));
        std::iter::once(head).chain(lines)
    }
}

/// Returns the text with the entries, which replace this tool's older ones.
pub(super) fn with_entries(
    file: &FileState<'_>,
    tool: &str,
    entries: &[ConfigEntry],
) -> Result<String, EditRefusal> {
    let base = file.text.map(|text| without_entries(text, tool)).transpose()?;
    let base = base.and_then(|removal| removal.text);
    let old = parse(base.as_deref().unwrap_or_default())?;
    for ConfigEntry { block, key, .. } in entries {
        if !old[block][key].is_null() {
            return Err(EditRefusal::Own(format!("your own `{block}.{key}` stays")));
        }
    }
    let mut text = base.clone();
    let mut missing = Vec::new();
    for entry in entries {
        let found = YamlBlock::find(text.as_deref().unwrap_or_default(), entry.block)
            .map_err(|error| EditRefusal::Unreadable(error.to_string()))?;
        if let (Some(block), Some(text)) = (found, &mut text) {
            insert(text, &block, tool, entry);
        } else {
            missing.push(format!("{}:", entry.block));
            missing.extend(entry.indented(2));
        }
    }
    let text = match (text, missing.is_empty()) {
        (Some(text), true) => text,
        (text, _) => {
            let file = FileState { text: text.as_deref(), wide_mode: None };
            with_block(&file, tool, &missing)?
        }
    };
    // Verify the result: in a block written on one line, for example, the lines would mean
    // something else.
    if !is_added(&old, &parse(&text)?, entries) {
        let why = "its blocks are not on lines of their own, so it cannot be edited by a program";
        return Err(EditRefusal::Unreadable(why.to_owned()));
    }
    Ok(text)
}

/// Returns the text without the entries of this tool.
pub(super) fn without_entries(text: &str, tool: &str) -> Result<Removal, EditRefusal> {
    let (begin, end) = (begin_line(tool), end_line(tool));
    let mut kept = String::with_capacity(text.len());
    let mut is_ours = false;
    for line in text.split_inclusive('\n') {
        let words = line.trim_start_matches(' ');
        // The block at the end has marks without indentation, and is removed by `without_block`.
        let is_inner = words.len() < line.len();
        if is_inner && words.starts_with(&begin) {
            is_ours = true;
        } else if is_inner && is_ours && words.trim_end() == end {
            is_ours = false;
        } else if !is_ours {
            kept.push_str(line);
        }
    }
    if is_ours {
        let why = "the end of Angelia's part is gone; remove that part yourself";
        return Err(EditRefusal::Unreadable(why.to_owned()));
    }
    without_block(&kept, tool)
}

/// Inserts an entry before the others in its block.
fn insert(text: &mut String, block: &YamlBlock, tool: &str, entry: &ConfigEntry) {
    let newline = newline_of(text);
    let mark = |line: String| format!("{}{line}", " ".repeat(block.indent));
    let lines = std::iter::once(mark(begin_line(tool)))
        .chain(entry.indented(block.indent))
        .chain([mark(end_line(tool))]);
    let lines: String = lines.flat_map(|line| [line, newline.to_owned()]).collect();
    text.insert_str(block.first_line, &lines);
}

fn parse(text: &str) -> Result<Value, EditRefusal> {
    match parse_yaml(text).map_err(EditRefusal::Unreadable)? {
        value @ (Value::Null | Value::Object(_)) => Ok(value),
        _ => Err(EditRefusal::Unreadable("it has no `name: value` lines".to_owned())),
    }
}

/// Returns whether a text contains exactly the old settings and the entries.
fn is_added(old: &Value, new: &Value, entries: &[ConfigEntry]) -> bool {
    let mut rest = new.clone();
    for ConfigEntry { block, key, lines } in entries {
        let Some(settings) = rest.get_mut(block).and_then(Value::as_object_mut) else {
            return false;
        };
        let ours = settings.shift_remove(*key);
        if ours.is_none() || ours != parse_yaml(&lines.join("\n")).ok() {
            return false;
        }
        let is_new = settings.is_empty() && old[block].is_null();
        if is_new && let Some(blocks) = rest.as_object_mut() {
            match old.get(block) {
                // A block with an empty value still has its key.
                Some(empty) => blocks.insert((*block).to_owned(), empty.clone()),
                None => blocks.shift_remove(*block),
            };
        }
    }
    rest == *old || (old.is_null() && rest.as_object().is_some_and(serde_json::Map::is_empty))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> [ConfigEntry; 2] {
        [
            ConfigEntry {
                block: "providers",
                key: "x",
                lines: vec!["models: {\"a:b\": {}}".into()],
            },
            ConfigEntry { block: "profiles", key: "x", lines: vec!["executor: native".into()] },
        ]
    }

    fn with(text: Option<&str>) -> Result<String, EditRefusal> {
        with_entries(&FileState { text, wide_mode: None }, "x", &entries())
    }

    #[test]
    fn entries_go_where_their_blocks_are() {
        let text =
            "listen: 127.0.0.1:1\nprofiles:\n    # mine\n    default:\n        executor: auto\n";
        let written = with(Some(text)).unwrap();
        insta::assert_snapshot!(written, @r#"
        listen: 127.0.0.1:1
        profiles:
            # >>> angelia setup x
            x:
              executor: native
            # <<< angelia setup x
            # mine
            default:
                executor: auto
        # >>> angelia setup x: ours down to `<<<`, changes in it are lost; `angelia setup x --undo` takes it away
        providers:
          x:
            models: {"a:b": {}}
        # <<< angelia setup x
        "#);
        assert_eq!(with(Some(&written)).as_ref(), Ok(&written), "written once");
        assert_eq!(without_entries(&written, "x").unwrap().text.as_deref(), Some(text));
        // The owner changes the file in between.
        let changed = format!("{}http: {{}}\n", written.replace("auto", "claude"));
        let rest = without_entries(&changed, "x").unwrap().text.unwrap();
        assert_eq!(rest, format!("{}http: {{}}\n", text.replace("auto", "claude")));
        assert_eq!(without_entries(&with(None).unwrap(), "x").unwrap().text, None, "our own file");
    }

    #[test]
    fn settings_of_the_owner_stay() {
        for text in ["profiles:\n  x: {executor: auto}\n", "providers: {x: {api: chat}}\n"] {
            assert!(matches!(with(Some(text)), Err(EditRefusal::Own(_))), "{text}");
        }
        for text in [
            "profiles: {a: {}}\n",
            "profiles: {}\n",
            "{listen: 1}\n",
            "[a]\n",
            "a: [\n",
            "a: 1\n...\n",
        ] {
            let refused = with(Some(text));
            assert!(matches!(refused, Err(EditRefusal::Unreadable(_))), "{text} {refused:?}");
        }
        let cut = with(Some("profiles:\n  a: {}\n")).unwrap().replacen("  # <<<", "  #", 1);
        assert!(matches!(without_entries(&cut, "x"), Err(EditRefusal::Unreadable(_))));
    }

    proptest! {
        #[test]
        fn any_file_comes_back(
            blocks in prop::sample::subsequence(
                vec!["profiles:\n", "providers:\n", "providers: # two\n  a:\n    api: chat\n",
                    "profiles:\n  default:\n    # executor: auto\n", "listen: 1\n", "# a comment\n", "\n",
                    "profiles:\r\n   b: {}\r\n"], 0..5).prop_shuffle(),
            open in any::<bool>(),
        ) {
            let mut text = blocks.concat();
            if open {
                text.truncate(text.trim_end().len());
            }
            // A duplicate key makes the configuration invalid.
            let Ok(written) = with(Some(&text)) else { return Ok(()) };
            prop_assert_eq!(with(Some(&written)), Ok(written.clone()));
            prop_assert_eq!(without_entries(&written, "x").unwrap().text, Some(text));
        }
    }
}

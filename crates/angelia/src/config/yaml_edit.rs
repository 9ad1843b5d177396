//! Adds and removes API keys and other entries in `config.yaml`, which belongs to its owner, and finds its
//! blocks. Comments, order and everything else stay unchanged. A file that cannot be edited this way is
//! refused with a message.

/// The file's style does not allow editing line by line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not written as a block of lines, so it cannot be edited by a program")]
pub(crate) struct YamlEditError(pub(crate) &'static str);

/// Returns the text with another key. `item` contains the key's lines, without indentation.
pub(crate) fn add_key(text: &str, item: &[String]) -> Result<String, YamlEditError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(http) = find_top_level(&lines, "http") else {
        lines.push("http:".to_owned());
        lines.push("  keys:".to_owned());
        return Ok(insert(lines, usize::MAX, 4, item));
    };
    if !opens_block(&lines[http], "http")? {
        "http:".clone_into(&mut lines[http]);
    }
    let children = block_lines(&lines, http);
    let Some(keys) = children.find(&lines, "keys") else {
        let indent = children.indent.unwrap_or(2);
        lines.insert(http + 1, format!("{}keys:", " ".repeat(indent)));
        return Ok(insert(lines, http + 2, indent + 2, item));
    };
    let indent = indent(&lines[keys]);
    if !opens_block(lines[keys].trim_start(), "keys")? {
        lines[keys] = format!("{}keys:", " ".repeat(indent));
    }
    let found = list_items(&lines, keys);
    let indent = found.first().map_or(indent + 2, |item| item.indent);
    let at = found.last().map_or(keys + 1, |item| item.end);
    Ok(insert(lines, at, indent, item))
}

/// Returns the text without the key of this name, or `None` if there is no such key.
pub(crate) fn remove_key(text: &str, name: &str) -> Result<Option<String>, YamlEditError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(http) = find_top_level(&lines, "http") else {
        return Ok(None);
    };
    if !opens_block(&lines[http], "http")? {
        return Ok(None);
    }
    let Some(keys) = block_lines(&lines, http).find(&lines, "keys") else {
        return Ok(None);
    };
    if !opens_block(lines[keys].trim_start(), "keys")? {
        return Ok(None);
    }
    let found = list_items(&lines, keys);
    let is_it = |item: &&ListItem| {
        lines[item.start..item.end].iter().any(|line| {
            let field = line.trim_start().trim_start_matches("- ").trim_start();
            let value = field.strip_prefix("name:").unwrap_or_default();
            let value = value.split(" #").next().unwrap_or_default().trim();
            value.trim_matches(['"', '\'']) == name
        })
    };
    let Some(item) = found.iter().find(is_it) else {
        return Ok(None);
    };
    lines.drain(item.start..item.end);
    if found.len() == 1 {
        let indent = indent(&lines[keys]);
        lines[keys] = format!("{}keys: []", " ".repeat(indent));
    }
    Ok(Some(join_lines(&lines)))
}

/// Returns the text with another entry in a top-level block. `settings` are the entry's lines, without
/// indentation.
pub(crate) fn add_entry(
    text: &str,
    block: &'static str,
    key: &str,
    settings: &[String],
) -> Result<String, YamlEditError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let place = if let Some(place) = find_top_level(&lines, block) {
        if !opens_block(&lines[place], block)? {
            lines[place] = format!("{block}:");
        }
        place
    } else {
        lines.push(format!("{block}:"));
        lines.len() - 1
    };
    let outer = " ".repeat(block_lines(&lines, place).indent.unwrap_or(2));
    let entry = std::iter::once(format!("{outer}{key}:"))
        .chain(settings.iter().map(|line| format!("{outer}  {line}")));
    let entry: Vec<String> = entry.collect();
    lines.splice(place + 1..=place, entry);
    Ok(join_lines(&lines))
}

/// Returns the text without an entry of a top-level block, or `None` if there is no such entry.
pub(crate) fn remove_entry(
    text: &str,
    block: &'static str,
    key: &str,
) -> Result<Option<String>, YamlEditError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(place) = find_top_level(&lines, block) else { return Ok(None) };
    if !opens_block(&lines[place], block)? {
        return Ok(None);
    }
    let Some(entry) = block_lines(&lines, place).find(&lines, key) else { return Ok(None) };
    let below = block_lines(&lines, entry);
    // Comments and empty lines after its last setting belong to what follows.
    let last = (below.start..below.end).rev().find(|at| !is_blank_or_comment(&lines[*at]));
    lines.drain(entry..=last.unwrap_or(entry));
    if block_lines(&lines, place).indent.is_none() {
        lines[place] = format!("{block}: {{}}");
    }
    Ok(Some(join_lines(&lines)))
}

/// A block of the file: the value of a top-level key, on its own lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct YamlBlock {
    /// The byte position of the line after the key.
    pub(crate) first_line: usize,
    /// The indentation of its keys.
    pub(crate) indent: usize,
}

impl YamlBlock {
    /// Finds a block. Returns `None` if the file has no such key.
    pub(crate) fn find(text: &str, key: &'static str) -> Result<Option<Self>, YamlEditError> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let Some(place) = find_top_level(&lines, key) else { return Ok(None) };
        let before: Vec<&str> = text.split_inclusive('\n').take(place + 1).collect();
        let is_whole = before.last().is_some_and(|line| line.ends_with('\n'));
        if !is_whole || !opens_block(&lines[place], key)? {
            return Err(YamlEditError(key));
        }
        let first_line = before.iter().map(|line| line.len()).sum();
        let indent = block_lines(&lines, place).indent.unwrap_or(2);
        Ok(Some(Self { first_line, indent }))
    }
}

fn insert(mut lines: Vec<String>, at: usize, indent: usize, item: &[String]) -> String {
    let indent = " ".repeat(indent);
    let new = item.iter().enumerate().map(|(number, line)| {
        let bullet = if number == 0 { "- " } else { "  " };
        format!("{indent}{bullet}{line}")
    });
    let at = at.min(lines.len());
    lines.splice(at..at, new);
    join_lines(&lines)
}

fn join_lines(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns whether the line is empty or a comment.
fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn find_top_level(lines: &[String], key: &str) -> Option<usize> {
    lines.iter().position(|line| is_key(line, key))
}

fn is_key(line: &str, key: &str) -> bool {
    line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns whether a key's value is a block on the following lines; `false` if the value is empty in any YAML
/// spelling.
fn opens_block(line: &str, key: &'static str) -> Result<bool, YamlEditError> {
    let value = line.split_once(':').map_or("", |(_, value)| value);
    let value = match value.split_once(" #") {
        Some((value, _)) => value.trim(),
        None => value.trim(),
    };
    match value {
        "" => Ok(true),
        "{}" | "[]" | "null" | "~" => Ok(false),
        comment if comment.starts_with('#') => Ok(true),
        _ => Err(YamlEditError(key)),
    }
}

/// The range of a block's lines, and the indentation of its keys.
struct BlockLines {
    start: usize,
    end: usize,
    indent: Option<usize>,
}

impl BlockLines {
    fn find(&self, lines: &[String], key: &str) -> Option<usize> {
        let indent = self.indent?;
        let is_it = |at: &usize| {
            let line = &lines[*at];
            self::indent(line) == indent && is_key(line.trim_start(), key)
        };
        (self.start..self.end).find(is_it)
    }
}

fn block_lines(lines: &[String], parent: usize) -> BlockLines {
    let outer = indent(&lines[parent]);
    let start = parent + 1;
    let inside = |line: &&String| is_blank_or_comment(line) || indent(line) > outer;
    let count = lines[start..].iter().take_while(inside).count();
    let end = start + count;
    let first = lines[start..end].iter().find(|line| !is_blank_or_comment(line));
    BlockLines { start, end, indent: first.map(|line| indent(line)) }
}

/// The range of a list item's lines.
struct ListItem {
    start: usize,
    end: usize,
    indent: usize,
}

/// Returns the items of a list. YAML allows a list at the same indentation as its key.
fn list_items(lines: &[String], keys: usize) -> Vec<ListItem> {
    let outer = indent(&lines[keys]);
    let mut items: Vec<ListItem> = Vec::new();
    for (at, line) in lines.iter().enumerate().skip(keys + 1) {
        if is_blank_or_comment(line) {
            continue;
        }
        let (depth, is_item) = (indent(line), line.trim_start().starts_with("- "));
        let belongs = depth > outer || (depth == outer && is_item);
        if !belongs {
            break;
        }
        match items.last_mut() {
            Some(last) if depth > last.indent => last.end = at + 1,
            _ if is_item => items.push(ListItem { start: at, end: at + 1, indent: depth }),
            _ => break,
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Vec<String> {
        vec!["name: bot".to_owned(), "sha256: ab".to_owned()]
    }

    fn added(text: &str) -> String {
        add_key(text, &item()).unwrap()
    }

    #[test]
    fn a_key_is_written_where_the_keys_are() {
        assert_eq!(added(""), "http:\n  keys:\n    - name: bot\n      sha256: ab\n");
        assert_eq!(
            added("# mine\nlisten: 127.0.0.1:1\n"),
            "# mine\nlisten: 127.0.0.1:1\nhttp:\n  keys:\n    - name: bot\n      sha256: ab\n"
        );
        assert_eq!(
            added("http: {}  # nothing yet\nlisten: 1\n"),
            "http:\n  keys:\n    - name: bot\n      sha256: ab\nlisten: 1\n"
        );
        assert_eq!(
            added("http:\n    # may they?\n    agent_mode: true\nlisten: 1\n"),
            "http:\n    keys:\n      - name: bot\n        sha256: ab\n    # may they?\n    agent_mode: true\nlisten: 1\n"
        );
        assert_eq!(
            added("http:\n  keys: []\n  agent_mode: true\n"),
            "http:\n  keys:\n    - name: bot\n      sha256: ab\n  agent_mode: true\n"
        );
    }

    #[test]
    fn keys_that_are_there_stay_as_they_are() {
        let text = "http:\n  keys:  # two\n  - name: a # first\n    sha256: x\n\n  - sha256: y\n    name: 'b'\n  agent_mode: true\n";
        let with = added(text);
        assert_eq!(
            with,
            "http:\n  keys:  # two\n  - name: a # first\n    sha256: x\n\n  - sha256: y\n    name: 'b'\n  - name: bot\n    sha256: ab\n  agent_mode: true\n"
        );
        assert_eq!(remove_key(&with, "bot"), Ok(Some(text.to_owned())));
        let one = remove_key(text, "a").unwrap().unwrap();
        assert_eq!(
            one,
            "http:\n  keys:  # two\n\n  - sha256: y\n    name: 'b'\n  agent_mode: true\n"
        );
        let none = remove_key(&one, "b").unwrap().unwrap();
        assert_eq!(none, "http:\n  keys: []\n\n  agent_mode: true\n");
        assert_eq!(remove_key(text, "c"), Ok(None));
        assert_eq!(remove_key("", "c"), Ok(None));
    }

    #[test]
    fn entries_of_a_block_come_and_go() {
        let settings = vec!["token: {env: T}".to_owned(), "allow: [\"1\"]".to_owned()];
        let add = |text: &str| add_entry(text, "channels", "telegram", &settings).unwrap();
        let entry = "  telegram:\n    token: {env: T}\n    allow: [\"1\"]\n";
        assert_eq!(add(""), format!("channels:\n{entry}"));
        assert_eq!(
            add("listen: 1\nchannels: {}\n# end\n"),
            format!("listen: 1\nchannels:\n{entry}# end\n")
        );
        let text = "channels:\n    # mine\n    slack:\n        allow: []\n\nlisten: 1\n";
        let with = add(text);
        assert_eq!(remove_entry(&with, "channels", "telegram"), Ok(Some(text.to_owned())));
        let none = remove_entry(&add(""), "channels", "telegram").unwrap();
        assert_eq!(none.as_deref(), Some("channels: {}\n"));
        assert_eq!(remove_entry(text, "channels", "telegram"), Ok(None));
        assert!(add_entry("channels: {a: {}}\n", "channels", "telegram", &settings).is_err());
    }

    #[test]
    fn what_is_written_in_one_line_is_left_alone() {
        assert_eq!(add_key("http: {agent_mode: true}\n", &item()), Err(YamlEditError("http")));
        assert_eq!(add_key("http:\n  keys: [{name: a}]\n", &item()), Err(YamlEditError("keys")));
    }
}

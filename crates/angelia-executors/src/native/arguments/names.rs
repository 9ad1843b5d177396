//! Finds the tool that a name refers to. Models change the case or the separators of a name, or
//! append `_tool`. If exactly one tool matches apart from that, it is used; nothing else is
//! guessed.

/// The number of tools to suggest.
const SUGGESTIONS: usize = 3;

/// A name that matches no tool. The error is worded for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`, so nothing was run{}", suggestion(.nearest))]
pub struct UnknownTool {
    pub name: String,
    /// The tools with the most similar names, nearest first.
    pub nearest: Vec<String>,
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => "; there are no tools".to_owned(),
        names => format!("; the nearest tools are `{}`", names.join("`, `")),
    }
}

/// Returns the name of the tool that `name` refers to.
pub fn find_tool<'a>(
    name: &str,
    tools: impl IntoIterator<Item = &'a str>,
) -> Result<&'a str, UnknownTool> {
    let tools: Vec<&str> = tools.into_iter().collect();
    if let Some(exact) = tools.iter().find(|tool| **tool == name) {
        return Ok(exact);
    }
    let wanted = plain(name);
    let mut fitting = tools.iter().filter(|tool| !wanted.is_empty() && plain(tool) == wanted);
    if let (Some(tool), None) = (fitting.next(), fitting.next()) {
        return Ok(tool);
    }
    let mut nearest = tools;
    nearest.sort_by_key(|tool| (edit_distance(&plain(tool), &wanted), *tool));
    let nearest = nearest.into_iter().take(SUGGESTIONS).map(str::to_owned).collect();
    Err(UnknownTool { name: name.chars().take(64).collect(), nearest })
}

/// Returns a name in lowercase, without separators and without `tool` at the end.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    let mut plain: String = letters.collect();
    while let Some(rest) = plain.strip_suffix("tool").filter(|rest| !rest.is_empty()) {
        plain.truncate(rest.len());
    }
    plain
}

/// Returns the number of edits between the first 64 characters of two names.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 5] = ["read", "apply_patch", "ask_user", "mcp__a__read_file", "tool"];

    #[test]
    fn a_name_in_another_spelling_is_found() {
        let table = [
            ("read", "read"),
            ("Read", "read"),
            ("READ_tool", "read"),
            ("read_tool_tool", "read"),
            ("readTool", "read"),
            ("ApplyPatch", "apply_patch"),
            ("apply-patch", "apply_patch"),
            ("apply patch", "apply_patch"),
            ("\"ask_user\"", "ask_user"),
            ("mcp_a_read_file", "mcp__a__read_file"),
            ("Tool", "tool"),
        ];
        for (name, expected) in table {
            assert_eq!(find_tool(name, TOOLS), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_name_that_fits_no_tool_or_two_is_not_guessed() {
        let unknown = find_tool("raed", TOOLS).unwrap_err();
        assert_eq!(unknown.nearest, ["read", "tool", "ask_user"]);
        assert!(unknown.to_string().contains("`raed`"), "{unknown}");
        assert!(find_tool("read_file", ["readFile", "READ-FILE"]).is_err());
        assert!(find_tool("", TOOLS).is_err());
        assert!(find_tool("__", ["_", "a"]).is_err());
        assert_eq!(find_tool("x", []).unwrap_err().nearest, Vec::<String>::new());
    }
}

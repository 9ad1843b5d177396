//! The head of a `SKILL.md`: lines of `key: value` between two lines of `---`. Many programs write
//! such heads, and not all of them are valid YAML, so they are read leniently: what cannot be read
//! is left out, and the skill can still be used.

/// The parts of a `SKILL.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillText<'a> {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Everything after the head.
    pub body: &'a str,
}

/// Splits the text of a `SKILL.md` into its parts.
pub fn read_skill(text: &str) -> SkillText<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((head, body)) = split_head(text) else {
        return SkillText { body: text, ..SkillText::default() };
    };
    let mut found = SkillText { body, ..SkillText::default() };
    for (key, value) in entries(head) {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let place = match key.to_ascii_lowercase().as_str() {
            "name" => &mut found.name,
            "description" => &mut found.description,
            _ => continue,
        };
        if !value.is_empty() {
            place.get_or_insert(value);
        }
    }
    found
}

/// Returns the lines of the head, and the text after it.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut end = first.len();
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    None
}

/// Returns the keys at the start of lines with their values, which indented lines continue.
fn entries(head: &str) -> Vec<(&str, String)> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    let mut is_plain = true;
    for line in head.lines() {
        let is_continued = line.starts_with([' ', '\t']) || line.trim().is_empty();
        match (entries.last_mut(), line.split_once(':')) {
            (Some((_, value)), _) if is_continued => {
                let more = if is_plain { without_comment(line) } else { line };
                value.push(' ');
                value.push_str(more.trim());
            }
            (_, Some((key, value))) => {
                let value = value.trim();
                // `|` and `>` begin a block of several lines, and may be followed by an indicator.
                let is_block = value.starts_with(['|', '>']);
                is_plain = !is_block && !value.starts_with(['"', '\'']);
                let value = match value {
                    _ if is_block => "",
                    value if is_plain => without_comment(value),
                    value => value,
                };
                entries.push((key.trim(), value.to_owned()));
            }
            _ => {}
        }
    }
    for (_, value) in &mut entries {
        *value = unquoted(value.trim());
    }
    entries
}

fn without_comment(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    value.find(" #").map_or(value, |start| &value[..start])
}

/// Removes the quotes around a value, even if the closing one is missing.
fn unquoted(value: &str) -> String {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.strip_suffix('\'').unwrap_or(rest).replace("''", "'");
    }
    let Some(rest) = value.strip_prefix('"') else { return value.to_owned() };
    let mut text = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                Some('n' | 't') => text.push(' '),
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (Option<String>, Option<String>, &str) {
        let SkillText { name, description, body } = read_skill(text);
        (name, description, body)
    }

    #[test]
    fn heads_are_read_as_people_write_them() {
        let expected =
            (Some("pdf".to_owned()), Some("Fills forms: all of them.".to_owned()), "B\n");
        for head in [
            "name: pdf\ndescription: Fills forms: all of them.\n",
            "Name:   pdf  # the name\nDescription: 'Fills forms: all of them.'\n",
            "license: MIT\nname: \"pdf\"\ndescription: \"Fills forms: all of them.\"\n",
            "name: pdf\ndescription: >-\n  Fills forms:\n  all of them.\n",
            "name: pdf\ndescription: |\n  Fills forms:\n\n  all of them.\nallowed-tools: [a, b]\n",
            "name: pdf\ndescription:\n  Fills forms: all\n  of them.\n",
            "name: pdf\r\ndescription: Fills forms: all of them.\r\n",
            "name: pdf\ntags:\n- one\n- two\nmetadata:\n  name: other\ndescription: Fills forms: all of them.\n",
        ] {
            let text = format!("---\n{head}---\nB\n");
            assert_eq!(read(&text), expected, "{text}");
        }
        let text = "\u{feff}---\nname: pdf\ndescription: Fills forms: all of them.\n...\nB\n";
        assert_eq!(read(text), expected);
    }

    #[test]
    fn a_text_without_a_head_is_all_body() {
        for text in ["# Title\n\nwords", "---\nname: never closed\n", "", "--- x\n---\n"] {
            assert_eq!(read(text), (None, None, text));
        }
        assert_eq!(read("---\nname:\n: x\njust words\n---\n"), (None, None, ""));
        let quotes = "---\nname: 'it''s'\ndescription: \"a \\\"b\\\" c\n---\n";
        let (name, description, _) = read(quotes);
        assert_eq!((name.as_deref(), description.as_deref()), (Some("it's"), Some("a \"b\" c")));
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "(---\r?\n)?[a-z:'\"|># \n-]{0,80}(\n---\n)?.{0,40}") {
            let read = read_skill(&text);
            prop_assert!(text.ends_with(read.body));
        }
    }
}

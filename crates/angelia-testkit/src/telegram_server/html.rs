//! Parses a text with `parse_mode: HTML`, as documented by the Bot API.

const TAGS: [&str; 13] =
    ["b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "code", "pre", "a", "blockquote"];

/// Returns the text without its formatting, or the server's error message.
pub fn visible_text(html: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        if c == '<' {
            let end = rest.find('>').ok_or("Unclosed start tag")?;
            let tag = &rest[1..end];
            match tag.strip_prefix('/') {
                Some(name) => {
                    if open.pop() != Some(name) {
                        return Err(format!("Unexpected end tag \"{name}\""));
                    }
                }
                None => open.push(read_start(tag, &open)?),
            }
            rest = &rest[end + 1..];
        } else if c == '&' {
            let end = rest.find(';').ok_or("Unclosed entity")?;
            text.push(match &rest[..=end] {
                "&lt;" => '<',
                "&gt;" => '>',
                "&amp;" => '&',
                "&quot;" => '"',
                other => return Err(format!("Unknown entity {other}")),
            });
            rest = &rest[end + 1..];
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    match open.pop() {
        Some(tag) => Err(format!("Can't find end tag corresponding to start tag \"{tag}\"")),
        None => Ok(text),
    }
}

fn read_start<'a>(tag: &'a str, open: &[&str]) -> Result<&'a str, String> {
    let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    let fits = match name {
        "a" => attributes.starts_with("href=\"") && attributes.ends_with('"'),
        "code" => attributes.is_empty() || attributes.starts_with("class=\"language-"),
        _ => attributes.is_empty(),
    };
    if !TAGS.contains(&name) || !fits {
        return Err(format!("Unsupported start tag \"{tag}\""));
    }
    let in_code = open.iter().any(|outer| *outer == "code" || *outer == "pre");
    if in_code && !(name == "code" && open.last() == Some(&"pre")) {
        return Err(format!("\"{name}\" must not be inside of code"));
    }
    Ok(name)
}

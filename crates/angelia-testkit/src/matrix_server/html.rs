//! Parses the HTML of a message like clients: only the tags and attributes that the specification suggests.

const TAGS: [&str; 13] =
    ["p", "br", "strong", "b", "em", "i", "del", "s", "code", "pre", "a", "blockquote", "span"];

/// Returns the text as shown, or what is wrong with the HTML.
pub fn visible_text(html: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        if c == '<' {
            let end = rest.find('>').ok_or("a tag has no end")?;
            let tag = &rest[1..end];
            match tag.strip_prefix('/') {
                Some(name) => {
                    if open.pop() != Some(name) {
                        return Err(format!("</{name}> ends nothing"));
                    }
                    if ["p", "pre", "blockquote"].contains(&name) {
                        text.push_str("\n\n");
                    }
                }
                None if tag == "br" => text.push('\n'),
                None => open.push(read_start(tag, &open)?),
            }
            rest = &rest[end + 1..];
        } else if c == '&' {
            let end = rest.find(';').ok_or("an entity has no end")?;
            text.push(match &rest[..=end] {
                "&lt;" => '<',
                "&gt;" => '>',
                "&amp;" => '&',
                "&quot;" => '"',
                other => return Err(format!("there is no entity {other}")),
            });
            rest = &rest[end + 1..];
        } else {
            let is_literal = open.contains(&"pre");
            // Outside preformatted text, a line break is a space.
            text.push(if c == '\n' && !is_literal { ' ' } else { c });
            rest = &rest[c.len_utf8()..];
        }
    }
    match open.pop() {
        Some(tag) => Err(format!("<{tag}> has no end")),
        None => Ok(text.trim_end_matches('\n').to_owned()),
    }
}

fn read_start<'a>(tag: &'a str, open: &[&str]) -> Result<&'a str, String> {
    let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    let schemes = ["https:", "http:", "ftp:", "mailto:", "magnet:"];
    let fits = match name {
        "a" => attributes.strip_prefix("href=\"").is_some_and(|link| {
            link.ends_with('"') && schemes.iter().any(|scheme| link.starts_with(scheme))
        }),
        "code" => attributes.is_empty() || attributes.starts_with("class=\"language-"),
        _ => attributes.is_empty(),
    };
    if !TAGS.contains(&name) || !fits {
        return Err(format!("clients drop <{tag}>"));
    }
    let in_code = open.iter().any(|outer| *outer == "code" || *outer == "pre");
    if in_code && !(name == "code" && open.last() == Some(&"pre")) {
        return Err(format!("<{name}> must not be inside of code"));
    }
    let is_block = ["p", "pre", "blockquote"].contains(&name);
    if is_block && open.iter().any(|outer| *outer != "blockquote") {
        return Err(format!("<{name}> must not be inside of <{}>", open.join("><")));
    }
    Ok(name)
}

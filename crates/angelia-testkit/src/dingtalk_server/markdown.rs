//! Parses the Markdown of a message like the client, and reports what a client could not show.

/// Returns the text without its formatting.
pub fn visible_text(markdown: &str) -> Result<String, String> {
    let mut shown = Vec::new();
    let mut fence: Option<usize> = None;
    for line in markdown.split('\n') {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(length) if ticks >= length && line.trim_matches('`').is_empty() => fence = None,
            Some(_) => shown.push(line.to_owned()),
            None if ticks >= 3 && !line[ticks..].contains('`') => fence = Some(ticks),
            None => {
                let line = line.strip_prefix('>').map_or(line, |rest| rest.trim_start());
                let line = line.strip_prefix("# ").unwrap_or(line);
                shown.push(read_line(line.trim_end())?);
            }
        }
    }
    if fence.is_some() {
        return Err("a code block is open".to_owned());
    }
    Ok(shown.join("\n"))
}

fn read_line(line: &str) -> Result<String, String> {
    let mut shown = String::new();
    let (mut open_stars, mut is_link) = (0, false);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(c).len();
        match c {
            '\\' => {
                let escaped = rest[1..].chars().next().ok_or("a line ends with a backslash")?;
                if !escaped.is_ascii_punctuation() {
                    return Err(format!("a backslash before `{escaped}`"));
                }
                shown.push(escaped);
                rest = &rest[2..];
            }
            '`' => {
                let ticks = &rest[..run];
                let end = find_run(&rest[run..], run).ok_or("code is open")?;
                let code = &rest[run..run + end];
                shown.push_str(code);
                rest = &rest[run + end + ticks.len()..];
            }
            '*' if run <= 3 && (open_stars == 0 || open_stars == run) => {
                open_stars = if open_stars == 0 { run } else { 0 };
                rest = &rest[run..];
            }
            '[' if !is_link => {
                is_link = true;
                rest = &rest[1..];
            }
            ']' if is_link && rest[1..].starts_with('(') => {
                let end = rest.find(')').ok_or("a link is open")?;
                is_link = false;
                rest = &rest[end + 1..];
            }
            '*' | '[' | ']' => return Err(format!("a lone `{c}` in `{line}`")),
            '<' => return Err("raw HTML".to_owned()),
            '&' => {
                let known = [("&lt;", '<'), ("&amp;", '&')];
                let entity = known.iter().find(|(name, _)| rest.starts_with(name));
                let (length, sign) = entity.map_or((1, '&'), |(name, sign)| (name.len(), *sign));
                shown.push(sign);
                rest = &rest[length..];
            }
            c => {
                shown.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    if open_stars > 0 || is_link {
        return Err(format!("something is open in `{line}`"));
    }
    Ok(shown)
}

/// Finds a run of exactly this many backticks.
fn find_run(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let begin = at + found;
        let run = text[begin..].len() - text[begin..].trim_start_matches('`').len();
        if run == length {
            return Some(begin);
        }
        at = begin + run;
    }
    None
}

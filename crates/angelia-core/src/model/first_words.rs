//! The first words that a person wrote in an input, by which people recognise a conversation.

use super::Content;

/// Maximum number of characters kept.
const MAX_CHARS: usize = 200;

/// Shown for an input that is only an image.
const IMAGE: &str = "(an image)";

/// Returns the first line that a person wrote, without the blocks that clients put before or around
/// it, such as `<system-reminder>…</system-reminder>`.
pub fn first_words(input: &[Content]) -> Option<String> {
    let words = input.iter().find_map(|part| match part {
        Content::Text(text) => first_line(skip_injected(text)),
        Content::Image { .. } => None,
    });
    let has_image = || input.iter().any(|part| matches!(part, Content::Image { .. }));
    words.or_else(|| has_image().then(|| IMAGE.to_owned()))
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let visible = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(visible.take(MAX_CHARS).collect())
}

/// Returns the text after the injected blocks at its start.
fn skip_injected(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(after) = injected_block(rest) {
        rest = after.trim_start();
    }
    rest
}

/// Returns the text after an injected block, if the text starts with one.
fn injected_block(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let name_end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)))?;
    let name = &inside[..name_end];
    // The tag's name has two words, or is our own `stdin`. A person may begin with an HTML tag,
    // whose name is one word.
    if !(name == "stdin" || name.contains(['-', '_'])) {
        return None;
    }
    let close = format!("</{name}>");
    let at = inside.find(&close)?;
    Some(&inside[at + close.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<String> {
        let input: Vec<Content> = texts.iter().map(|text| Content::text(*text)).collect();
        first_words(&input)
    }

    #[test]
    fn injected_blocks_are_not_the_persons_words() {
        let reminder = "<system-reminder>\nYou have files.\n</system-reminder>\n";
        let caveat = "<local-command-caveat a=\"b\">x</local-command-caveat>";
        assert_eq!(of(&[reminder, "fix it"]).as_deref(), Some("fix it"));
        assert_eq!(of(&[&format!("{reminder}{caveat}\n\n fix it \nnow")]).unwrap(), "fix it");
        assert_eq!(of(&["<stdin>\ndiff\n</stdin>\nreview this"]).unwrap(), "review this");
        assert_eq!(of(&[reminder]), None);
    }

    #[test]
    fn what_a_person_may_write_stays() {
        assert_eq!(of(&["<div> is not closed"]).unwrap(), "<div> is not closed");
        assert_eq!(of(&["<b>bold</b> text"]).unwrap(), "<b>bold</b> text");
        assert_eq!(of(&["<not-closed> x"]).unwrap(), "<not-closed> x");
        assert_eq!(of(&["\n\n  a\tb\x1b[2J\nc"]).unwrap(), "a b [2J");
        assert_eq!(of(&["修复登录"]).unwrap(), "修复登录");
        assert_eq!(of(&[&"ü".repeat(500)]).unwrap().chars().count(), MAX_CHARS);
        assert_eq!(of(&[]), None);
        let image = Content::Image { media_type: "image/png".into(), data: vec![1].into() };
        assert_eq!(first_words(&[image]).as_deref(), Some(IMAGE));
    }
}

//! Slack's text format, mrkdwn: read in people's messages, written only for text without formatting.
//! Pure.

/// Escapes the three characters that Slack interprets, so that nobody is mentioned by accident.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        push_escaped(&mut escaped, c);
    }
    escaped
}

/// Like [`escape`], but returns at most `max` bytes.
pub(super) fn escape_start(text: &str, max: usize) -> String {
    const MORE: char = '…';
    let escaped = escape(text);
    if escaped.len() <= max {
        return escaped;
    }
    let mut start = String::new();
    for c in text.chars() {
        let before = start.len();
        push_escaped(&mut start, c);
        if start.len() + MORE.len_utf8() > max {
            start.truncate(before);
            break;
        }
    }
    start.push(MORE);
    start
}

fn push_escaped(text: &mut String, c: char) {
    match c {
        '&' => text.push_str("&amp;"),
        '<' => text.push_str("&lt;"),
        '>' => text.push_str("&gt;"),
        other => text.push(other),
    }
}

/// A person's message as plain text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainText {
    /// Without the mentions of the bot.
    pub(super) text: String,
    pub(super) mentions_bot: bool,
}

/// Converts mentions, links and escapes to plain text.
pub(super) fn read_text(source: &str, bot: &str) -> PlainText {
    let mut plain = PlainText { text: String::with_capacity(source.len()), mentions_bot: false };
    let mut rest = source;
    while let Some(begin) = rest.find('<') {
        push_unescaped(&mut plain.text, &rest[..begin]);
        let Some(end) = rest[begin..].find('>') else {
            rest = &rest[begin..];
            break;
        };
        let token = &rest[begin + 1..begin + end];
        if token.strip_prefix('@').is_some_and(|user| before_label(user) == bot) {
            plain.mentions_bot = true;
        } else {
            push_token(&mut plain.text, token);
        }
        rest = &rest[begin + end + 1..];
    }
    push_unescaped(&mut plain.text, rest);
    plain
}

fn before_label(token: &str) -> &str {
    token.split_once('|').map_or(token, |(id, _)| id)
}

fn push_token(text: &mut String, token: &str) {
    let (id, label) = match token.split_once('|') {
        Some((id, label)) if !label.is_empty() => (id, Some(label)),
        Some((id, _)) => (id, None),
        None => (token, None),
    };
    if let Some(user) = id.strip_prefix('@') {
        text.push('@');
        push_unescaped(text, label.unwrap_or(user).trim_start_matches('@'));
    } else if let Some(channel) = id.strip_prefix('#') {
        text.push('#');
        push_unescaped(text, label.unwrap_or(channel));
    } else if let Some(special) = id.strip_prefix('!') {
        let word = label.unwrap_or_else(|| special.split('^').next().unwrap_or_default());
        text.push('@');
        push_unescaped(text, word.trim_start_matches('@'));
    } else {
        // Slack turns words such as example.org and e-mail addresses into links.
        let bare = id.trim_start_matches("mailto:");
        let is_same = |label: &str| {
            label == bare
                || bare.trim_start_matches("https://").trim_start_matches("http://") == label
        };
        match label {
            Some(label) if is_same(label) => push_unescaped(text, label),
            Some(label) => {
                push_unescaped(text, label);
                text.push_str(" (");
                push_unescaped(text, bare);
                text.push(')');
            }
            None => push_unescaped(text, bare),
        }
    }
}

fn push_unescaped(text: &mut String, escaped: &str) {
    let mut rest = escaped;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')];
        let known = known.into_iter().find(|(entity, _)| rest.starts_with(entity));
        let (entity, c) = known.unwrap_or(("&", '&'));
        text.push(c);
        rest = &rest[entity.len()..];
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mentions_links_and_escapes_are_read() {
        let read = |text: &str| {
            let PlainText { text, mentions_bot } = read_text(text, "UBOT");
            (text, mentions_bot)
        };
        let table = [
            ("<@UBOT> do it", " do it", true),
            ("<@UBOT|ada> go", " go", true),
            ("<@U7> and <@U8|bob>", "@U7 and @bob", false),
            ("in <#C1|general> <!here> <!subteam^S1|@team>", "in #general @here @team", false),
            (
                "<http://a.org|a.org> <https://b.org/?x=1&amp;y|see>",
                "a.org see (https://b.org/?x=1&y)",
                false,
            ),
            ("<mailto:a@b.org|a@b.org> <http://c.org>", "a@b.org http://c.org", false),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 & &nbsp;", "1 < 2 && 3 > 2 & &nbsp;", false),
            ("open < end", "open < end", false),
        ];
        for (source, text, mentions) in table {
            assert_eq!(read(source), (text.to_owned(), mentions), "{source}");
        }
    }

    proptest! {
        #[test]
        fn a_text_comes_back_as_it_was_written(text in "\\PC{0,60}", max in 8_usize..80) {
            prop_assert_eq!(read_text(&escape(&text), "UBOT").text, text.clone());
            let start = escape_start(&text, max);
            prop_assert!(start.len() <= max);
            let back = read_text(&start, "UBOT").text;
            prop_assert!(text.starts_with(back.trim_end_matches('…')));
        }
    }
}

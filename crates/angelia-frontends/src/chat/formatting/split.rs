//! Splits formatted text into messages. The text has no nesting, so each message is well-formed on its own. If
//! a code block is split, the rest becomes a code block in the same language.

use std::collections::VecDeque;

use angelia_core::ports::{LengthLimit, LengthUnit, RichBlock, RichText, Span};
use unicode_segmentation::UnicodeSegmentation as _;

/// The smallest message length that we split for.
const MIN_LENGTH: usize = 16;

/// Splits a text into messages. Nothing is lost except white space at the cuts.
pub fn split_text(text: &RichText, limit: LengthLimit) -> Vec<RichText> {
    let (max, unit) = (limit.max.max(MIN_LENGTH), limit.unit);
    let mut messages = Vec::new();
    let mut current = RichText::default();
    let mut used = 0;
    let mut blocks: VecDeque<RichBlock> = text.blocks.iter().cloned().collect();
    while let Some(block) = blocks.pop_front() {
        let gap = if current.blocks.is_empty() { 0 } else { block.separator().len() };
        let length = block.measure(unit);
        let room = max.saturating_sub(used + gap);
        if length <= room {
            used += gap + length;
            current.blocks.push(block);
            continue;
        }
        // Move the block to the next message if it fits there as a whole, or if little of it would fit here.
        if !current.blocks.is_empty() && (length <= max || room < max / 4) {
            messages.push(std::mem::take(&mut current));
            used = 0;
            blocks.push_front(block);
            continue;
        }
        let (head, tail) = cut_block(block, room, unit);
        current.blocks.push(head);
        messages.push(std::mem::take(&mut current));
        used = 0;
        if let Some(tail) = tail {
            blocks.push_front(tail);
        }
    }
    messages.push(current);
    messages.retain(|message| !message.visible_text().trim().is_empty());
    messages
}

/// Like [`split_text`], for platforms that count formatting too. `measure` returns the length of a message as
/// sent, or `None` if only the visible text counts. A piece whose formatting alone is too long becomes plain
/// text.
pub fn split_to_fit(
    text: &RichText,
    limit: LengthLimit,
    measure: &dyn Fn(&RichText) -> Option<usize>,
) -> Vec<RichText> {
    split_within(text, limit, limit.max, measure)
}

/// Splits a text into messages of at most `room` visible units each, or fewer where the written form is too
/// long.
fn split_within(
    text: &RichText,
    limit: LengthLimit,
    room: usize,
    measure: &dyn Fn(&RichText) -> Option<usize>,
) -> Vec<RichText> {
    let mut messages = Vec::new();
    for message in split_text(text, LengthLimit { max: room, ..limit }) {
        match measure(&message).filter(|length| *length > limit.max) {
            None => messages.push(message),
            Some(_) if room <= MIN_LENGTH => {
                messages.push(RichText::plain(&message.visible_text()));
            }
            Some(length) => {
                let visible = limit.unit.measure(&message.visible_text()).min(room);
                let less = (visible * limit.max / length).min(visible * 9 / 10);
                messages.extend(split_within(&message, limit, less.max(MIN_LENGTH), measure));
            }
        }
    }
    messages
}

/// Cuts a block so that its first part has at most `room` units, but at least one character.
fn cut_block(block: RichBlock, room: usize, unit: LengthUnit) -> (RichBlock, Option<RichBlock>) {
    let text: String = block.spans.iter().map(|span| span.text.as_str()).collect();
    let at = find_cut(&block, &text, room, unit);
    let is_code = block.is_code();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut begin = 0;
    for span in block.spans {
        let end = begin + span.text.len();
        if end <= at {
            head.push(span);
        } else if begin >= at {
            tail.push(span);
        } else {
            let (first, rest) = span.text.split_at(at - begin);
            head.push(Span { text: first.to_owned(), style: span.style.clone() });
            tail.push(Span { text: rest.to_owned(), style: span.style });
        }
        begin = end;
    }
    trim_cut(&mut head, &mut tail, is_code);
    let part = |spans, has_gap| RichBlock { kind: block.kind.clone(), spans, has_gap };
    let tail = (!tail.is_empty()).then(|| part(tail, false));
    (part(head, block.has_gap), tail)
}

/// Removes the white space at a cut, but keeps the indentation of code.
fn trim_cut(head: &mut [Span], tail: &mut Vec<Span>, is_code: bool) {
    if let Some(last) = head.last_mut() {
        last.text.truncate(last.text.trim_end().len());
    }
    while let Some(first) = tail.first_mut() {
        let kept = if is_code {
            first.text.trim_start_matches('\n').len()
        } else {
            first.text.trim_start().len()
        };
        first.text.drain(..first.text.len() - kept);
        if kept > 0 {
            break;
        }
        tail.remove(0);
        if is_code {
            break;
        }
    }
}

/// Returns where to cut, as a byte offset: preferably at the end of a line or of a sentence in the second half
/// of the room, else between two words, else between two graphemes.
fn find_cut(block: &RichBlock, text: &str, room: usize, unit: LengthUnit) -> usize {
    let mut fits = 0;
    let mut length = 0;
    for (index, grapheme) in text.grapheme_indices(true) {
        length += unit.measure(grapheme);
        if length > room {
            break;
        }
        fits = index + grapheme.len();
    }
    if fits == 0 {
        // A single grapheme is longer than a message.
        return char_cut(text, room, unit);
    }
    let part = &text[..fits];
    let is_late = |at: &usize| *at >= fits / 2 && *at > 0;
    let line = part.rfind('\n').filter(is_late);
    if block.is_code() {
        return line.unwrap_or(fits);
    }
    let sentence = || {
        let ends = [". ", "! ", "? ", "。", "！", "？"].iter();
        ends.filter_map(|end| part.rfind(end).map(|at| at + end.len())).max().filter(is_late)
    };
    // A short message is better than a broken word.
    let word = || part.rfind(char::is_whitespace).filter(|at| *at >= fits / 4 && *at > 0);
    let at = line.or_else(sentence).or_else(word).unwrap_or(fits);
    outside_link(block, at).filter(is_late).unwrap_or(at)
}

/// Returns the beginning of a link that a cut would break.
fn outside_link(block: &RichBlock, at: usize) -> Option<usize> {
    let mut begin = 0;
    for span in &block.spans {
        let end = begin + span.text.len();
        if begin < at && at < end {
            return span.style.link.is_some().then_some(begin);
        }
        begin = end;
    }
    None
}

/// Returns the end of the last character that fits, but at least of the first one.
fn char_cut(text: &str, room: usize, unit: LengthUnit) -> usize {
    let mut length = 0;
    for (index, c) in text.char_indices() {
        length += unit.measure(c.encode_utf8(&mut [0; 4]));
        if length > room && index > 0 {
            return index;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use angelia_core::ports::BlockKind;
    use proptest::prelude::*;

    use super::{super::parse_markdown, *};

    const UNITS: [LengthUnit; 3] = [LengthUnit::Utf16, LengthUnit::CodePoints, LengthUnit::Bytes];

    fn split(markdown: &str, max: usize) -> Vec<RichText> {
        split_text(&parse_markdown(markdown), LengthLimit { max, unit: LengthUnit::CodePoints })
    }

    fn texts(messages: &[RichText]) -> Vec<String> {
        messages.iter().map(RichText::visible_text).collect()
    }

    #[test]
    fn blocks_stay_whole_if_they_fit() {
        let messages = split("one two three\n\nfour five six seven\n\neight", 24);
        assert_eq!(texts(&messages), ["one two three", "four five six seven", "eight"]);
    }

    #[test]
    fn code_goes_on_as_code_of_its_language() {
        let messages = split("```py\nline number one\n    two = 2\n  three()\n```", 30);
        assert_eq!(texts(&messages), ["line number one\n    two = 2", "  three()"]);
        for message in messages {
            let BlockKind::Code { language } = &message.blocks[0].kind else { panic!() };
            assert_eq!(language.as_deref(), Some("py"));
        }
    }

    #[test]
    fn sentences_and_links_are_not_broken_without_need() {
        let messages = split("This is one sentence. And this is another one.", 30);
        assert_eq!(texts(&messages)[0], "This is one sentence.");
        let messages = split("see all of [the long documentation](http://d) now", 20);
        assert_eq!(texts(&messages), ["see all of", "the long", "documentation now"]);
    }

    #[test]
    fn graphemes_are_never_broken() {
        let family = "👨‍👩‍👧‍👦";
        let messages = split(&family.repeat(9), 16);
        for text in texts(&messages) {
            assert!(text.graphemes(true).all(|grapheme| grapheme == family), "{text}");
        }
    }

    #[test]
    fn formatting_counts_where_the_platform_counts_it() {
        let text = parse_markdown("**one** **two** **three** **four** **five**");
        let limit = LengthLimit { max: 24, unit: LengthUnit::CodePoints };
        let measure = |text: &RichText| {
            let marks = text.blocks.iter().flat_map(|block| &block.spans);
            let marks = marks.filter(|span| span.style.bold).count() * 4;
            Some(text.visible_text().chars().count() + marks)
        };
        assert_eq!(split_to_fit(&text, limit, &|_| None), split_text(&text, limit));
        let messages = split_to_fit(&text, limit, &measure);
        assert!(messages.len() > 1 && messages.iter().all(|one| measure(one) <= Some(24)));
        assert_eq!(texts(&messages).join(" "), "one two three four five");
        // A text whose formatting alone is too long becomes plain.
        let plain = split_to_fit(&text, limit, &|text| {
            let is_styled =
                text.blocks.iter().flat_map(|block| &block.spans).any(|one| one.style.bold);
            Some(if is_styled { 100 } else { 1 })
        });
        assert_eq!(solid(&texts(&plain).concat()), "onetwothreefourfive");
    }

    fn solid(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        #[test]
        fn nothing_visible_is_lost_and_every_message_fits(
            parts in prop::collection::vec(prop_oneof![
                "\\PC{0,80}", "[a-z ]{0,60}\n", Just("\n\n".to_owned()), Just("```rs\n".to_owned()),
                Just("```\n".to_owned()), Just("| a | b |\n|---|---|\n| c | d |\n".to_owned()),
                Just("- **x** [l](http://u)\n".to_owned()), Just("> ".to_owned()), Just("👨‍👩‍👧‍👦e\u{301}".to_owned()),
            ], 0..20),
            max in 16_usize..200,
            unit in prop::sample::select(UNITS.to_vec()),
        ) {
            let text = parse_markdown(&parts.concat());
            let messages = split_text(&text, LengthLimit { max, unit });
            let joined: String = messages.iter().map(RichText::visible_text).collect();
            prop_assert_eq!(solid(&joined), solid(&text.visible_text()));
            for message in &messages {
                prop_assert!(unit.measure(&message.visible_text()) <= max, "{:?}", message);
                prop_assert!(!message.visible_text().trim().is_empty());
            }
        }
    }
}

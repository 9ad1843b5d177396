//! Recognises the many ways to say "the conversation is too long" and "the output limit is too
//! high", and reads the numbers in them.

use super::ErrorClass;

/// Codes that mean an overflow.
const CODES: [&str; 3] =
    ["context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"];

/// Phrases that mean an overflow, in lower case. All phrases of an entry must occur.
const PHRASES: &[&[&str]] = &[
    &["prompt is too long"],
    &["input is too long for requested model"],
    &["exceeds the context window"],
    &["maximum context length"],
    &["input token count", "exceeds the maximum"],
    &["maximum prompt length is"],
    &["reduce the length"],
    &["exceeds the available context size"],
    &["greater than the context length"],
    &["exceeded model token limit"],
    &["context window exceeds limit"],
    &["tokens in request more than max tokens allowed"],
    &["longer than the model's context length"],
    &["context_length_exceeded"],
    &["request_too_large"],
];

/// Phrases before the number of tokens that fit.
const BEFORE_WINDOW: [&str; 10] = [
    "maximum context length is ",
    "maximum context length of ",
    "maximum prompt length is ",
    "maximum number of tokens allowed (",
    "available context size (",
    "context length of only ",
    "context length of ",
    "model token limit: ",
    "context length is ",
    "tokens > ",
];

/// Phrases after that number.
const AFTER_WINDOW: [&str; 2] = [" maximum context length", " maximum"];

/// Statuses with which servers report an overflow; an error inside an answer has none.
const STATUSES: [u16; 4] = [400, 413, 422, 500];

pub(super) fn find(
    status: Option<u16>,
    codes: [Option<&str>; 2],
    words: &str,
    window: Option<u64>,
) -> Option<ErrorClass> {
    let possible = status.is_none_or(|status| STATUSES.contains(&status));
    if !possible || words.contains("rate limit") {
        return None;
    }
    // This comes before the phrases, because it is about our output limit, not about the
    // conversation.
    if let Some(cap) = output_cap(words) {
        return Some(cap);
    }
    let by_code = codes.into_iter().flatten().any(|code| CODES.contains(&code));
    let by_words = PHRASES.iter().any(|parts| parts.iter().all(|part| words.contains(part)));
    (by_code || by_words)
        .then(|| ErrorClass::Overflow { window: window.or_else(|| window_in(words)) })
}

/// Finds `max_tokens: 100000 > 64000` and similar phrases.
fn output_cap(words: &str) -> Option<ErrorClass> {
    const FIELDS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    const SIGNS: [&str; 5] =
        [" > ", "too large", "at most ", "must be less than", "maximum allowed number"];
    const BEFORE_LIMIT: [&str; 5] =
        ["at most ", " > ", "less than or equal to ", "less than ", "which is "];
    let is_about_prompt = words.contains("prompt is too long") || words.contains("in the messages");
    let at = FIELDS.iter().find_map(|field| words.find(field)).filter(|_| !is_about_prompt)?;
    let rest = &words[at..];
    let is_cap = SIGNS.iter().any(|sign| rest.contains(sign));
    let limit = room_beside_prompt(rest)
        .or_else(|| BEFORE_LIMIT.iter().find_map(|before| number_after(rest, before)));
    is_cap.then_some(ErrorClass::OutputCap { limit })
}

/// Finds `4000 > 4096 - 1000`: an answer may have the window minus the prompt.
fn room_beside_prompt(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once(" > ")?;
    let (window, rest) = rest.split_once(" - ")?;
    let prompt = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    window.parse::<u64>().ok()?.checked_sub(prompt.parse().ok()?)
}

fn window_in(words: &str) -> Option<u64> {
    let before = BEFORE_WINDOW.iter().find_map(|before| number_after(words, before));
    before.or_else(|| AFTER_WINDOW.iter().find_map(|after| number_before(words, after)))
}

fn number_after(words: &str, before: &str) -> Option<u64> {
    let at = words.find(before)? + before.len();
    let digits = words[at..].split(|c: char| !(c.is_ascii_digit() || c == ',')).next()?;
    digits.replace(',', "").parse().ok()
}

fn number_before(words: &str, after: &str) -> Option<u64> {
    let start = &words[..words.find(after)?];
    let digits = start.rsplit(|c: char| !(c.is_ascii_digit() || c == ',')).next()?;
    digits.replace(',', "").parse().ok()
}

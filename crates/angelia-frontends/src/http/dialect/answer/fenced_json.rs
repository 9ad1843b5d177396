//! Extracts JSON from a fenced code block, which models like to wrap it in.

/// Returns the JSON of an answer that consists of one fenced block, because the caller wants to
/// parse it without the fence.
pub(super) fn fenced_json(text: &str) -> Option<&str> {
    let block = text.trim().strip_prefix("```")?.strip_suffix("```")?;
    let (language, content) = block.split_once('\n')?;
    let language = language.trim();
    let is_json = (language.is_empty() || language.eq_ignore_ascii_case("json"))
        && serde_json::from_str::<serde::de::IgnoredAny>(content).is_ok();
    is_json.then(|| content.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_block_of_json_is_unwrapped() {
        assert_eq!(fenced_json("```json\n{\"a\": 1}\n```\n"), Some("{\"a\": 1}"));
        assert_eq!(fenced_json("\n```\n[\"```\"]\n```"), Some("[\"```\"]"));
        for text in
            ["{}", "```json\n{\n```", "```rust\n{}\n```", "Here: ```json\n{}\n```", "```{}```"]
        {
            assert_eq!(fenced_json(text), None, "{text}");
        }
    }
}

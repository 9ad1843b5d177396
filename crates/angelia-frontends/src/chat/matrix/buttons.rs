//! Reads the meaning of a reaction to one of the bot's messages. Pure.

use std::sync::Arc;

use serde_json::Value;

use crate::chat::reaction_choices::index_of;

/// The field of a message's content that stores the values of its choices.
pub(super) const CHOICES: &str = "angelia.choices";

/// Returns the meaning of a reaction to a message. `message` is the event as the server returned it, with its
/// newest edit. Only the bot's own messages have choices.
pub(super) fn read_choice(message: &Value, bot: &str, reaction: &str) -> Option<Arc<str>> {
    if message["sender"] != bot {
        return None;
    }
    let index = index_of(reaction)?;
    let edit = &message["unsigned"]["m.relations"]["m.replace"];
    let edit = Some(edit).filter(|edit| edit["sender"] == bot);
    let edited = edit.map(|edit| &edit["content"]["m.new_content"][CHOICES]);
    let found = [edited, Some(&message["content"][CHOICES])].into_iter().flatten();
    let mut found = found.filter_map(|choices| choices.get(index)?.as_str());
    found.next().map(Into::into)
}

#[cfg(test)]
mod tests {
    use angelia_core::ports::Button;
    use serde_json::json;

    use super::*;
    use crate::chat::reaction_choices::encode_choices;

    #[test]
    fn a_reaction_means_a_choice_of_the_bots_own_message() {
        let buttons = ["a", "b"].map(|value| Button {
            label: format!("label\n{value}").into(),
            value: value.into(),
            words: None,
        });
        let event = json!({"sender": "@bot:x", "content": {CHOICES: encode_choices(&buttons)}});
        let read = |event: &Value, key: &str| read_choice(event, "@bot:x", key);
        assert_eq!(read(&event, "2\u{fe0f}\u{20e3}").as_deref(), Some("b"));
        assert_eq!(read(&event, "1\u{20e3}").as_deref(), Some("a"), "without the variation");
        for other in ["3\u{fe0f}\u{20e3}", "👍", "", "1"] {
            assert_eq!(read(&event, other), None, "{other}");
        }
        let forged = json!({"sender": "@other:x", "content": event["content"]});
        assert_eq!(read(&forged, "1\u{20e3}"), None, "others cannot make buttons");
        let edited = json!({"sender": "@bot:x", "content": {}, "unsigned": {"m.relations": {
            "m.replace": {"sender": "@bot:x", "content": {"m.new_content": event["content"]}},
        }}});
        assert_eq!(read(&edited, "1\u{20e3}").as_deref(), Some("a"));
    }
}

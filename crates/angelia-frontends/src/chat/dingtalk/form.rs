//! The forms of a message, for both ways to send it. Pure.

use std::fmt::Write as _;

use angelia_core::ports::OutgoingMessage;
use serde_json::{Map, Value, json};

use super::title::{is_plain, title_of};
use crate::chat::formatting::to_common_markdown;

/// The limit on buttons of an action card.
const MAX_BUTTONS: usize = 5;

/// A link of this kind makes the client write the given text into the chat.
const WRITE_LINK: &str = "dtmd://dingtalkclient/sendMessage?content=";

/// A message in one of DingTalk's forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text(String),
    Markdown {
        title: String,
        text: String,
    },
    /// Markdown with buttons, each of which writes a text into the chat. The pairs are label and
    /// text.
    ActionCard {
        title: String,
        text: String,
        buttons: Vec<(String, String)>,
    },
}

impl Form {
    pub(super) fn of(message: &OutgoingMessage) -> Self {
        let buttons: Vec<(String, String)> = message
            .buttons
            .iter()
            .filter_map(|one| Some((one.label.to_string(), one.words.as_ref()?.to_string())))
            .take(MAX_BUTTONS)
            .collect();
        let title = title_of(&message.text);
        let text = match &message.rich {
            Some(rich) if !buttons.is_empty() || !is_plain(rich) => to_common_markdown(rich),
            _ => return Self::Text(message.text.to_string()),
        };
        if buttons.is_empty() {
            return Self::Markdown { title, text };
        }
        Self::ActionCard { title, text, buttons }
    }

    /// Returns the request body for a session webhook.
    pub(super) fn webhook_body(&self) -> Value {
        match self {
            Self::Text(text) => json!({"msgtype": "text", "text": {"content": text}}),
            Self::Markdown { title, text } => {
                json!({"msgtype": "markdown", "markdown": {"title": title, "text": text}})
            }
            Self::ActionCard { title, text, buttons } => {
                let buttons: Vec<Value> = buttons
                    .iter()
                    .map(|(label, words)| json!({"title": label, "actionURL": write_link(words)}))
                    .collect();
                json!({"msgtype": "actionCard", "actionCard": {
                    "title": title, "text": text, "btnOrientation": "0", "btns": buttons,
                }})
            }
        }
    }

    /// Returns the message key and the parameters for the API.
    pub(super) fn api_parameters(&self) -> (String, Value) {
        match self {
            Self::Text(text) => ("sampleText".to_owned(), json!({"content": text})),
            Self::Markdown { title, text } => {
                ("sampleMarkdown".to_owned(), json!({"title": title, "text": text}))
            }
            Self::ActionCard { title, text, buttons } => {
                let mut fields = Map::new();
                fields.insert("title".to_owned(), title.as_str().into());
                fields.insert("text".to_owned(), text.as_str().into());
                if let [(label, words)] = buttons.as_slice() {
                    fields.insert("singleTitle".to_owned(), label.as_str().into());
                    fields.insert("singleURL".to_owned(), write_link(words).into());
                    return ("sampleActionCard".to_owned(), fields.into());
                }
                for (index, (label, words)) in buttons.iter().enumerate() {
                    let number = index + 1;
                    fields.insert(format!("actionTitle{number}"), label.as_str().into());
                    fields.insert(format!("actionURL{number}"), write_link(words).into());
                }
                (format!("sampleActionCard{}", buttons.len()), fields.into())
            }
        }
    }
}

fn write_link(words: &str) -> String {
    let mut link = WRITE_LINK.to_owned();
    for byte in words.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                link.push(char::from(byte));
            }
            other => {
                let _infallible = write!(link, "%{other:02X}");
            }
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use angelia_core::ports::{Button, RichText};

    use super::*;
    use crate::chat::formatting::parse_markdown;

    fn message(markdown: &str, buttons: usize) -> OutgoingMessage {
        let rich: RichText = parse_markdown(markdown);
        let button = |index: usize| Button {
            label: format!("B{index}").into(),
            value: "v".into(),
            words: (index > 0).then(|| format!("/approve é {index}").into()),
        };
        OutgoingMessage {
            text: rich.visible_text().into(),
            rich: Some(rich),
            buttons: (0..buttons).map(button).collect(),
            ..OutgoingMessage::default()
        }
    }

    #[test]
    fn a_plain_text_is_text_and_buttons_write() {
        assert_eq!(Form::of(&message("a_b", 0)), Form::Text("a_b".to_owned()));
        let formatted = Form::of(&message("# Hi\n\n**b**", 0));
        assert_eq!(formatted.api_parameters().0, "sampleMarkdown");
        assert_eq!(formatted.webhook_body()["markdown"]["title"], "Hi");
        // A button without words cannot be shown.
        let one = Form::of(&message("ok?", 2)).api_parameters();
        assert_eq!(one.0, "sampleActionCard");
        assert_eq!(one.1["singleURL"], format!("{WRITE_LINK}%2Fapprove%20%C3%A9%201"));
        let many = Form::of(&message("ok?", 9));
        let (key, fields) = many.api_parameters();
        assert_eq!((key.as_str(), &fields["actionTitle5"]), ("sampleActionCard5", &json!("B5")));
        assert_eq!(many.webhook_body()["actionCard"]["btns"].as_array().unwrap().len(), 5);
    }
}

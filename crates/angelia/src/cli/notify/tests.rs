//! Tests of the message body and of the arguments of `notify-agent`.

use clap::Parser as _;
use serde_json::json;

use super::{HermesCli, body, notify_agent};

fn body(args: &[&str]) -> Result<serde_json::Value, String> {
    let all = ["notify-hermes", "--to", "coder"].iter().chain(args);
    let cli = HermesCli::try_parse_from(all).map_err(|error| error.kind().to_string())?;
    body::build_body(&cli.args).map_err(|error| format!("{:?}: {}", error.exit, error.message))
}

#[test]
fn a_text_or_a_body_with_its_type_and_channel() {
    assert_eq!(body(&["hi"]), Ok(json!({"text": "hi"})));
    assert_eq!(body(&["--help me"]), Ok(json!({"text": "--help me"})));
    assert_eq!(
        body(&["hi", "--type", "a b", "--channel", "x:y:z"]),
        Ok(json!({"text": "hi", "type": "a b", "channel": "x:y:z"}))
    );
    assert_eq!(
        body(&["--body", r#"{"n": 1, "type": "old"}"#, "--type", "new"]),
        Ok(json!({"n": 1, "type": "new"}))
    );
    assert_eq!(body(&["--body", "[1]"]), Ok(json!([1])));
}

#[test]
fn what_cannot_be_sent_is_refused_with_a_reason() {
    assert!(body(&[]).unwrap_err().starts_with("Failed: there is nothing"));
    assert!(body(&["--body", "{"]).unwrap_err().starts_with("Failed: --body is not JSON"));
    let list = body(&["--body", "[1]", "--type", "t"]).unwrap_err();
    assert!(list.starts_with("Failed: --type needs a body that is an object"), "{list}");
    assert!(body(&["hi", "--body", "{}"]).unwrap_err().contains("cannot be used with"));
}

fn parse_words(words: &[&str]) -> Option<(String, String, Option<String>)> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let args = notify_agent::parse(&words).ok()?;
    Some((args.session, args.text, args.from))
}

#[test]
fn options_of_notify_agent_end_where_its_text_begins() {
    let is = |session: &str, text: &str, from: Option<&str>| {
        Some((session.to_owned(), text.to_owned(), from.map(str::to_owned)))
    };
    assert_eq!(parse_words(&["dev", "do", "it"]), is("dev", "do it", None));
    assert_eq!(parse_words(&["--from", "be", "--to", "dev", "go"]), is("dev", "go", Some("be")));
    assert_eq!(parse_words(&["--simple", "dev", "--from", "x"]), is("dev", "--from x", None));
    assert_eq!(parse_words(&["--to", "dev", "--", "-rf"]), is("dev", "-rf", None));
    for words in [&["dev"][..], &[], &["--from", "x", "dev"], &["--to"], &["dev", " "]] {
        assert_eq!(parse_words(words), None, "{words:?}");
    }
}

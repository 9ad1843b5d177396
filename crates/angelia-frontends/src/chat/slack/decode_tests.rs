//! Tests of the decoder.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn bot() -> SlackBot {
    SlackBot { user_id: "UBOT".into(), team_id: "T1".into(), ..SlackBot::default() }
}

fn event(fields: &Value) -> Option<InboundEvent> {
    let envelope = json!({
        "type": "events_api", "envelope_id": "e", "accepts_response_payload": false,
        "payload": {"team_id": "T1", "event_id": "Ev1", "event": fields},
    });
    decode_envelope(&envelope, &bot())
}

fn in_channel(extra: &Value) -> Value {
    let mut fields = json!({
        "type": "message", "channel": "C1", "channel_type": "channel", "user": "U7", "team": "T1",
        "ts": "1700000000.000100", "text": "hello",
    });
    fields.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    fields
}

fn words(event: &InboundEvent) -> (&str, bool) {
    match &event.kind {
        InboundKind::Message(message) | InboundKind::Edited(message) => {
            (&message.text, message.is_addressed)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mention_arrives_twice_and_is_one_message_that_opens_a_thread() {
    let text = json!({"text": "<@UBOT> do it"});
    let message = event(&in_channel(&text)).unwrap();
    let mut mention = in_channel(&text);
    mention["type"] = "app_mention".into();
    mention.as_object_mut().unwrap().remove("channel_type");
    assert_eq!(event(&mention).unwrap(), message);
    assert_eq!(words(&message), ("do it", true));
    assert_eq!(&*message.chat, "C1#1700000000.000100");
    let InboundKind::Message(read) = &message.kind else { panic!() };
    assert_eq!(read.sent_at.as_second(), 1_700_000_000);
    let in_thread = event(&in_channel(&json!({
        "text": "and <@UBOT> this", "ts": "1700000009.1", "thread_ts": "1700000000.000100",
    })));
    assert_eq!(in_thread.unwrap().chat, message.chat, "the thread is the session");
    let talk = event(&in_channel(&json!({}))).unwrap();
    assert_eq!(words(&talk), ("hello", false));
    let answer = event(&in_channel(&json!({"thread_ts": "1.1", "parent_user_id": "UBOT"})));
    assert_eq!(words(&answer.unwrap()), ("hello", true));
}

#[test]
fn direct_messages_are_one_chat_and_threads_in_it_are_others() {
    let direct = |extra: &Value| {
        let mut fields = in_channel(&json!({"channel": "D7", "channel_type": "im"}));
        fields.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        event(&fields).unwrap()
    };
    let top = direct(&json!({}));
    let InboundKind::Message(message) = &top.kind else { panic!() };
    assert!(message.is_direct);
    assert_eq!((&*top.chat, &*top.sender.id), ("D7", "U7"));
    assert_eq!(&*direct(&json!({"thread_ts": "1700000000.000100"})).chat, "D7");
    assert_eq!(&*direct(&json!({"thread_ts": "1600000000.1"})).chat, "D7#1600000000.1");
}

#[test]
fn people_of_other_workspaces_have_another_id() {
    let other = event(&in_channel(&json!({"user_team": "T9"}))).unwrap();
    assert_eq!(&*other.sender.id, "T9:U7");
    assert_eq!(split_sender("T9:U7", &bot()), ("T9", "U7"));
    assert_eq!(split_sender("U7", &bot()), ("T1", "U7"));
}

#[test]
fn edits_deletions_and_files_are_read() {
    let edited = event(&json!({
        "type": "message", "subtype": "message_changed", "channel": "D7", "channel_type": "im", "ts": "9.9",
        "message": {"user": "U7", "ts": "5.5", "text": "new", "edited": {"user": "U7", "ts": "9.0"}},
        "previous_message": {"user": "U7", "ts": "5.5", "text": "old"},
    }));
    let edited = edited.unwrap();
    assert!(matches!(&edited.kind, InboundKind::Edited(message) if &*message.id == "5.5"));
    assert_eq!((&*edited.dedupe_key, words(&edited).0), ("D7:5.5:edit:9.0", "new"));
    let previewed = json!({
        "type": "message", "subtype": "message_changed", "channel": "D7", "ts": "9.9",
        "message": {"user": "U7", "ts": "5.5", "text": "a link", "attachments": []},
        "previous_message": {"user": "U7", "ts": "5.5", "text": "a link"},
    });
    assert_eq!(event(&previewed), None, "the preview of a link is no edit");
    let deleted = json!({
        "type": "message", "subtype": "message_deleted", "channel": "C1", "channel_type": "channel",
        "ts": "9.9", "deleted_ts": "5.5", "previous_message": {"user": "U7", "ts": "5.5", "text": "x"},
    });
    let deleted = event(&deleted).unwrap();
    assert_eq!((&*deleted.chat, &deleted.kind), ("C1#5.5", &InboundKind::Deleted("5.5".into())));
    let buried = json!({
        "type": "message", "subtype": "message_changed", "channel": "C1", "ts": "9.9",
        "message": {"ts": "5.5", "subtype": "tombstone", "text": "This message was deleted."},
        "previous_message": {"user": "U7", "ts": "5.5", "text": "x", "thread_ts": "5.5"},
    });
    assert_eq!(event(&buried).unwrap().kind, InboundKind::Deleted("5.5".into()));
    let shared = event(&in_channel(&json!({"subtype": "file_share", "text": "", "files": [
        {"id": "F1", "name": "a.txt", "mimetype": "text/plain", "size": 3, "url_private_download": "https://f/a"},
        {"id": "F2", "file_access": "check_file_info"},
    ]})));
    let shared = shared.unwrap();
    let InboundKind::Message(message) = &shared.kind else { panic!() };
    let ids: Vec<&str> = message.files.iter().map(|file| &*file.id).collect();
    assert_eq!(ids, ["https://f/a", "F2"]);
}

#[test]
fn presses_and_commands_are_read() {
    let press = |thread: Value| {
        let envelope = json!({"type": "interactive", "envelope_id": "e", "payload": {
            "type": "block_actions", "user": {"id": "U7", "username": "ada", "team_id": "T1"},
            "team": {"id": "T1"}, "channel": {"id": "C1", "name": "general"},
            "container": {"type": "message", "message_ts": "5.5", "channel_id": "C1", "thread_ts": thread},
            "trigger_id": "t", "response_url": "https://hooks.slack.com/x",
            "actions": [{"action_id": "b0", "block_id": "x", "value": "v:1", "action_ts": "8.8"}],
        }});
        decode_envelope(&envelope, &bot()).unwrap()
    };
    let event = press("2.2".into());
    assert_eq!((&*event.chat, &*event.sender.name), ("C1#2.2", "ada"));
    let InboundKind::Press(read) = &event.kind else { panic!() };
    assert_eq!((&*read.value, read.message_id.as_deref()), ("v:1", Some("5.5")));
    assert_eq!(split_press(&read.id), Some(("C1#2.2", "U7")));
    assert_eq!(&*press(Value::Null).chat, "C1#5.5");
    let command = json!({"type": "slash_commands", "envelope_id": "e", "payload": {
        "command": "/stop", "text": "", "user_id": "U7", "user_name": "ada", "channel_id": "D7",
        "team_id": "T1", "trigger_id": "13.5",
    }});
    let command = decode_envelope(&command, &bot()).unwrap();
    assert_eq!((&*command.chat, words(&command)), ("D7", ("/stop", true)));
}

#[test]
fn programs_and_garbage_are_left_out() {
    for nothing in [
        in_channel(&json!({"bot_id": "B1"})),
        in_channel(&json!({"user": "UBOT"})),
        in_channel(&json!({"user": null})),
        in_channel(&json!({"subtype": "channel_join"})),
        in_channel(&json!({"text": " "})),
        in_channel(&json!({"ts": ""})),
        json!({"type": "reaction_added", "user": "U7"}),
        json!({"type": "message"}),
        json!([1]),
    ] {
        assert_eq!(event(&nothing), None, "{nothing}");
    }
    for nothing in [json!({}), json!([]), json!({"type": "interactive", "payload": {"type": "x"}})]
    {
        assert_eq!(decode_envelope(&nothing, &bot()), None, "{nothing}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_decoder(text in "\\PC{0,40}", thread in "[0-9.#]{0,12}") {
        let read = event(&in_channel(&json!({"text": text, "thread_ts": thread})));
        if let Some(read) = read {
            prop_assert!(read.chat.starts_with("C1#"));
        }
    }
}

//! Text turns: whole, in deltas, several in a row, and interrupted.

use serde_json::{Value, json};

use super::{ParrotThread, deltas, kinds, last, user_with_uuid};

#[test]
fn plain_text_is_repeated_by_a_demo_that_says_so() {
    let mut parrot = ParrotThread::start(&["--session-id", "s-1"]);
    parrot.prompt("hello there");
    let lines = parrot.turn();
    let mut shape = kinds(&lines);
    shape.dedup();
    assert_eq!(
        shape,
        [
            "system init",
            "system status",
            "stream_event message_start",
            "stream_event content_block_start",
            "stream_event content_block_delta",
            "assistant",
            "stream_event content_block_stop",
            "stream_event message_delta",
            "stream_event message_stop",
            "result success",
        ]
    );
    let result = last(&lines);
    let text = result["result"].as_str().unwrap();
    assert!(text.contains("demo agent"), "{text}");
    assert!(text.contains("You said: hello there"), "{text}");
    assert!(text.contains("angelia doctor"), "{text}");
    assert_eq!(deltas(&lines), text);
    assert_eq!(result["is_error"], false);
    assert_eq!(result["total_cost_usd"], 0);
    assert_eq!(result["usage"]["input_tokens"], 2);
    let words = text.split_whitespace().count();
    assert_eq!(result["usage"]["output_tokens"], words);
    assert!(lines.iter().all(|line| line["session_id"] == "s-1"));
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn one_process_takes_many_turns_and_counts_them() {
    let mut parrot = ParrotThread::start(&["--resume", "s-2", "--model", "grey"]);
    for number in 1..=3 {
        parrot.prompt("!who\none two three");
        let lines = parrot.turn();
        let result = last(&lines);
        let text = result["result"].as_str().unwrap();
        assert!(text.contains(&format!("turn {number} of")), "{text}");
        assert!(text.contains("session s-2"), "{text}");
        assert!(text.ends_with("You said: one two three"), "{text}");
        assert_eq!(lines[0]["model"], "grey");
        assert_eq!(result["result_index"], number - 1);
        assert_eq!(result["usage"]["input_tokens"], 4);
        assert_eq!(result["modelUsage"]["grey"]["inputTokens"], 4 * number);
    }
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn an_interrupt_in_the_middle_of_a_sentence_ends_the_turn_there() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.send(&user_with_uuid("!words 1000 60000", "u-1"));
    parrot.until(|line| line["event"]["type"] == "content_block_delta");
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.until(|line| line["state"] == "cancelled");
    assert_eq!(
        kinds(&lines),
        [
            "control_response",
            "assistant",
            "user",
            "stream_event content_block_stop",
            "stream_event message_delta",
            "stream_event message_stop",
            "result error_during_execution",
            "command_lifecycle cancelled",
        ]
    );
    assert_eq!(lines[1]["message"]["content"][0]["text"], "word1 ");
    assert_eq!(lines[1]["aborted"], true);
    assert_eq!(lines[5]["abandoned_blocks"]["from_block_index"], 1);
    assert_eq!(lines[6]["terminal_reason"], "aborted_streaming");
    assert_eq!(lines[6]["user_message_uuid"], "u-1");
    assert_eq!(lines[6]["usage"]["output_tokens"], 0);

    parrot.prompt("!words 3");
    assert_eq!(last(&parrot.turn())["result"], "word1 word2 word3");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn names_of_messages_come_back_and_a_name_is_used_once() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.send(&user_with_uuid("!words 2", "u-1"));
    let lines = parrot.until(|line| line["state"] == "completed");
    let states: Vec<&Value> = lines.iter().map(|line| &line["state"]).collect();
    assert_eq!(*states[0], "queued");
    assert_eq!(*states[1], "started");
    for kind in ["init", "result", "assistant", "requesting", "message_start"] {
        let line = lines.iter().find(|line| line.to_string().contains(kind));
        assert_eq!(line.unwrap()["user_message_uuids"], json!(["u-1"]), "{kind}");
    }
    parrot.send(&user_with_uuid("!words 2", "u-1"));
    parrot.send(&user_with_uuid("!words 3", "u-2"));
    let lines = parrot.turn();
    assert_eq!(last(&lines)["user_message_uuids"], json!(["u-2"]));
    assert_eq!(parrot.close().rest.len(), 1);
}

#[test]
fn what_waits_behind_a_turn_is_answered_together_or_cancelled() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.send(&user_with_uuid("!hang", "u-1"));
    parrot.until(|line| line["status"] == "requesting");
    parrot.send(&user_with_uuid("!words 1", "u-2"));
    parrot.send(&user_with_uuid("!words 2", "u-3"));
    parrot.control(&json!({"subtype": "interrupt"}));
    let response = parrot.response();
    assert_eq!(response["response"]["still_queued"], json!(["u-2", "u-3"]));
    parrot.turn();
    let lines = parrot.turn();
    assert_eq!(last(&lines)["user_message_uuids"], json!(["u-2", "u-3"]));
    assert_eq!(last(&lines)["result"], "word1\n\nword1 word2");

    parrot.send(&user_with_uuid("!hang", "u-4"));
    parrot.until(|line| line["status"] == "requesting");
    parrot.send(&user_with_uuid("never", "u-5"));
    parrot.control(&json!({"subtype": "interrupt", "cancel_queued": true}));
    let response = parrot.response();
    assert_eq!(response["response"]["cancelled"], json!(["u-5"]));
    parrot.until(|line| line["state"] == "cancelled" && line["command_uuid"] == "u-4");
    let exit = parrot.close();
    assert!(exit.rest.is_empty(), "{:?}", exit.rest);
    assert_eq!(exit.code, 1);
}

#[test]
fn images_are_admitted_not_to_be_seen() {
    let mut parrot = ParrotThread::start(&[]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    parrot.send(&json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "text", "text": "look"}, {"type": "image", "source": source},
        {"type": "text", "text": ""}]}}));
    let lines = parrot.turn();
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("You said: look"), "{text}");
    assert!(text.contains("1 image(s); I cannot see"), "{text}");
    parrot.close();
}

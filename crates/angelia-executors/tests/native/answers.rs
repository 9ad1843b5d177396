//! The frames of each API, with the quirks of servers, as events.

use angelia_executors::native::provider::{
    AnswerDecoder, AnswerPart, Api, ProviderEvent, ReasoningSeal, StopReason,
};

use crate::{
    invariants::decode_in_reads,
    material::{CHAT_ANSWER, MESSAGES_ANSWER, RESPONSES_ANSWER, chunks, decoded, named, printed},
};

#[test]
fn a_whole_answer_of_each_api() {
    insta::assert_snapshot!("messages", decoded(Api::Messages, &named(MESSAGES_ANSWER)));
    insta::assert_snapshot!("chat", decoded(Api::Chat, &chunks(CHAT_ANSWER)));
    insta::assert_snapshot!("responses", decoded(Api::Responses, &named(RESPONSES_ANSWER)));
}

#[test]
fn an_answer_that_is_not_streamed() {
    let documents = [
        (
            Api::Messages,
            r#"{"id":"msg_1","type":"message","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"read","input":{"path":"a"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}"#,
        ),
        (
            Api::Chat,
            r#"{"id":"c","model":"m","choices":[{"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        ),
        (
            Api::Responses,
            r#"{"id":"r","model":"m","status":"completed","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"},{"type":"message","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"t","name":"read","arguments":"{\"path\":\"a\"}"}],"usage":{"input_tokens":3,"output_tokens":4}}"#,
        ),
    ];
    let mut shown = String::new();
    for (api, body) in documents {
        let mut decoder = AnswerDecoder::new(api, 7);
        let mut events = Vec::new();
        decoder.decode_document(body, &mut events);
        decoder.end(&mut events);
        shown.extend([api.as_str(), "\n", &printed(&events), "\n"]);
    }
    insta::assert_snapshot!(shown);
}

/// Returns the calls of a Chat stream as `id name arguments`, and the reason of the stop.
fn calls_of(frames: &[&str]) -> (Vec<String>, Option<StopReason>) {
    let events = decode_in_reads(Api::Chat, chunks(frames).as_bytes(), &[]);
    let call = |event: &ProviderEvent| match event {
        ProviderEvent::Part(AnswerPart::Call(call)) => {
            Some(format!("{} {} {}", call.id, call.name, call.arguments))
        }
        _ => None,
    };
    let stop = events.iter().find_map(|event| match event {
        ProviderEvent::Stop(stop) => Some(stop.clone()),
        _ => None,
    });
    (events.iter().filter_map(call).collect(), stop)
}

fn pieces(pieces: &[&str]) -> (Vec<String>, Option<StopReason>) {
    let delta = |piece: &&str| {
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{piece}]}},"finish_reason":null}}]}}"#)
    };
    let mut frames: Vec<String> = pieces.iter().map(delta).collect();
    frames.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    calls_of(&frames)
}

#[test]
fn calls_are_put_together_whatever_the_server_leaves_out() {
    let table: [(&str, &[&str], &[&str]); 11] = [
        (
            "one index for all",
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\":1}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"read","arguments":"{\"p\":2}"}}"#,
            ],
            &[r#"a read {"p":1}"#, r#"b read {"p":2}"#],
        ),
        (
            "one index for all, in pieces",
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\""}}"#,
                r#"{"index":0,"function":{"arguments":":1}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"read","arguments":"{\"p\""}}"#,
                r#"{"index":0,"function":{"arguments":":2}"}}"#,
            ],
            &[r#"a read {"p":1}"#, r#"b read {"p":2}"#],
        ),
        (
            "one index for all, no id",
            &[
                r#"{"index":0,"function":{"name":"read","arguments":"{\"p\":1}"}}"#,
                r#"{"index":0,"function":{"name":"read","arguments":"{\"p\":2}"}}"#,
            ],
            &[r#"call_7_0 read {"p":1}"#, r#"call_7_1 read {"p":2}"#],
        ),
        (
            "no index",
            &[
                r#"{"id":"a","function":{"name":"read","arguments":"{\"p\":"}}"#,
                r#"{"function":{"arguments":"1}"}}"#,
                r#"{"id":"b","function":{"name":"write","arguments":"{}"}}"#,
            ],
            &[r#"a read {"p":1}"#, "b write {}"],
        ),
        (
            "neither index nor id",
            &[
                r#"{"function":{"name":"read","arguments":"{\"p\":1}"}}"#,
                r#"{"function":{"name":"write","arguments":"{\"p\":2}"}}"#,
            ],
            &[r#"call_7_0 read {"p":1}"#, r#"call_7_1 write {"p":2}"#],
        ),
        (
            "id and name in every piece",
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\""}}"#,
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":":1}"}}"#,
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":""}}"#,
            ],
            &[r#"a read {"p":1}"#],
        ),
        (
            "an empty id in later pieces",
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":""}}"#,
                r#"{"index":0,"id":"","function":{"name":"","arguments":"{\"p\":1}"}}"#,
            ],
            &[r#"a read {"p":1}"#],
        ),
        (
            "one id for different calls",
            &[
                r#"{"index":0,"id":"x","function":{"name":"read","arguments":"{\"p\":1}"}}"#,
                r#"{"index":1,"id":"x","function":{"name":"read","arguments":"{\"p\":2}"}}"#,
            ],
            &[r#"x read {"p":1}"#, r#"call_7_1 read {"p":2}"#],
        ),
        (
            "a number as id",
            &[r#"{"index":0,"id":17,"function":{"name":"read","arguments":"{}"}}"#],
            &["17 read {}"],
        ),
        (
            "arguments as an object",
            &[r#"{"index":0,"id":"a","function":{"name":"read","arguments":{"p":[1, "x"]}}}"#],
            &[r#"a read {"p":[1, "x"]}"#],
        ),
        ("no arguments", &[r#"{"index":0,"id":"a","function":{"name":"status"}}"#], &["a status "]),
    ];
    for (quirk, given, expected) in table {
        assert_eq!(
            pieces(given),
            (expected.iter().map(ToString::to_string).collect(), Some(StopReason::ToolUse)),
            "{quirk}"
        );
    }
}

#[test]
fn sixty_four_calls_at_once_are_kept() {
    let many: Vec<String> = (0..64)
        .map(|n| {
            format!(
                r#"{{"index":{n},"id":"c{n}","function":{{"name":"read","arguments":"{{}}"}}}}"#
            )
        })
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (calls, _) = pieces(&many);
    assert_eq!(calls.len(), 64);
    assert_eq!(calls[63], "c63 read {}");
}

#[test]
fn a_stop_with_calls_is_a_tool_use() {
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}}]}"#;
    let (_, stop) = calls_of(&[call, r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#]);
    assert_eq!(stop, Some(StopReason::ToolUse));
    let (_, stop) = calls_of(&[call, r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#]);
    assert_eq!(stop, Some(StopReason::MaxTokens));
    let (_, stop) =
        calls_of(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"tool_calls"}]}"#]);
    assert_eq!(stop, Some(StopReason::EndTurn));
}

#[test]
fn an_answer_that_was_cut_off_has_no_stop_and_no_calls() {
    for (api, stream) in [
        (Api::Messages, named(&MESSAGES_ANSWER[..15])),
        (Api::Chat, chunks(&CHAT_ANSWER[..7])),
        (Api::Responses, named(&RESPONSES_ANSWER[..14])),
    ] {
        let events = decode_in_reads(api, stream.as_bytes(), &[]);
        let is_end = |event: &ProviderEvent| {
            matches!(event, ProviderEvent::Stop(_) | ProviderEvent::Part(AnswerPart::Call(_)))
        };
        assert!(!events.iter().any(is_end), "{api:?}: {}", printed(&events));
        let begun = |event: &ProviderEvent| matches!(event, ProviderEvent::CallBegin { .. });
        assert!(events.iter().any(begun), "{api:?}");
        let text =
            |event: &ProviderEvent| matches!(event, ProviderEvent::Part(AnswerPart::Text(_)));
        assert!(events.iter().any(text), "{api:?}: {}", printed(&events));
    }
}

#[test]
fn reasoning_keeps_what_its_provider_wants_back() {
    let details = chunks(&[
        r#"{"choices":[{"delta":{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0,"format":"f"}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":1}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#,
    ]);
    let events = decode_in_reads(Api::Chat, details.as_bytes(), &[]);
    let list = events.iter().find_map(|event| match event {
        ProviderEvent::Part(AnswerPart::Reasoning(reasoning)) => match &reasoning.seal {
            ReasoningSeal::Details(list) => Some(list.get().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let expected = r#"[{"type":"reasoning.text","text":"ab","index":0,"format":"f","signature":"s"},{"type":"reasoning.encrypted","data":"x","index":1}]"#;
    assert_eq!(list.as_deref(), Some(expected));

    let both = chunks(&[
        r#"{"choices":[{"delta":{"reasoning_content":"once","reasoning":"once"}}]}"#,
        r#"{"choices":[{"delta":{"content":"<think>not a tag at the beginning"},"finish_reason":"stop"}]}"#,
    ]);
    insta::assert_snapshot!("one_thought_under_two_names", decoded(Api::Chat, &both));
    let tags = chunks(&[
        r#"{"choices":[{"delta":{"content":"<thi"}}]}"#,
        r#"{"choices":[{"delta":{"content":"nk>inside</th"}}]}"#,
        r#"{"choices":[{"delta":{"content":"ink>\n\noutside"},"finish_reason":"stop"}]}"#,
    ]);
    insta::assert_snapshot!("thoughts_in_tags", decoded(Api::Chat, &tags));
    let signed = chunks(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"},"extra_content":{"vendor":{"thought_signature":"S"}}}]},"finish_reason":"stop"}]}"#,
    ]);
    insta::assert_snapshot!("a_signature_on_a_call", decoded(Api::Chat, &signed));
}

#[test]
fn frames_that_are_not_quite_json_are_read() {
    let messages = format!(
        "event: content_block_delta\ndata: {}\n\nevent: message_delta\ndata: {}\n\n",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\\ud83db\tc\"}}",
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":NaN,"input_tokens":5}}"#,
    );
    insta::assert_snapshot!("messages_not_quite_json", decoded(Api::Messages, &messages));
    let chat = chunks(&[
        "{\"choices\":[{\"delta\":{\"content\":\"a\\ud83d b\u{1}\",\"x\":Infinity}}]}",
        "{broken",
        r#"{"choices":[{"delta":{"content":"c"},"finish_reason":"stop"}]}"#,
    ]);
    insta::assert_snapshot!("chat_not_quite_json", decoded(Api::Chat, &chat));
}

#[test]
fn errors_inside_an_answer_are_reported() {
    let table = [
        (
            Api::Messages,
            named(&[
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ]),
        ),
        (
            Api::Chat,
            chunks(&[
                r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"P","raw":"{\"error\":{\"message\":\"upstream is down\"}}"}},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            ]),
        ),
        (
            Api::Responses,
            named(&[
                r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 11.05s."}}}"#,
            ]),
        ),
        (
            Api::Responses,
            named(&[
                r#"{"type":"error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}"#,
            ]),
        ),
    ];
    let shown: String = table.iter().map(|(api, stream)| decoded(*api, stream)).collect();
    insta::assert_snapshot!(shown);
}

#[test]
fn servers_that_leave_out_indices_and_ids_are_understood() {
    // As llama.cpp's server sends them.
    let stream = named(&[
        r#"{"type":"response.created","response":{"id":"resp_x","status":"in_progress"}}"#,
        r#"{"type":"response.output_item.added","item":{"type":"message","id":"msg_x","content":[],"role":"assistant"}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_x","delta":"Hel"}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_x","delta":"lo"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","id":"msg_x","status":"completed","content":[{"type":"output_text","text":"Hello"}]}}"#,
        r#"{"type":"response.completed","response":{"id":"resp_x","status":"completed","output":[],"usage":{"input_tokens":8,"output_tokens":2}}}"#,
    ]);
    insta::assert_snapshot!("responses_without_indices", decoded(Api::Responses, &stream));
    let out_of_order = named(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"a","type":"function_call","call_id":"a","name":"one","arguments":""}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"b","type":"function_call","call_id":"b","name":"two","arguments":""}}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"b","type":"function_call","call_id":"b","name":"two","arguments":"{}"}}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"a","type":"function_call","call_id":"a","name":"one","arguments":"{}"}}"#,
        r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ]);
    insta::assert_snapshot!("responses_out_of_order", decoded(Api::Responses, &out_of_order));
}

#[test]
fn stop_reasons_have_one_meaning() {
    let messages = |word: &str| {
        named(&[&format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}"}}}}"#)])
    };
    let table = [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("pause_turn", StopReason::Pause),
        ("refusal", StopReason::Refused),
        ("model_context_window_exceeded", StopReason::WindowExceeded),
        ("new_word", StopReason::Other("new_word".into())),
    ];
    for (word, expected) in table {
        let events = decode_in_reads(Api::Messages, messages(word).as_bytes(), &[]);
        let Some(ProviderEvent::Stop(stop)) = events.last() else { panic!("{word}") };
        assert_eq!(*stop, expected);
    }
}

//! A conversation of a hundred turns with one compaction and two reviews: what a provider has cached
//! stays valid, except at the compaction.

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    model_server::{ModelServer, RecordedRequest, Reply},
    request_parts::RequestParts,
    scripted_provider,
};
use serde_json::{Value, json};

use crate::{
    http,
    machine::{Machine, until},
    provider_config::configuration,
};

const TURNS: usize = 100;
const TURNS_PER_REVIEW: usize = 40;

/// After this turn the provider reports a conversation that is too long.
const LONG_TURN: usize = 60;

/// An answer and the next prompt; the Responses API may have an item of reasoning before them.
const MAX_NEW_MESSAGES: usize = 3;

fn answer(request: &RecordedRequest) -> Reply {
    let prompt = request.prompt();
    // The person's words may follow the summary in one message.
    let Some(turn) = prompt.lines().last().and_then(|line| line.strip_prefix("turn ")) else {
        // A summary, or a review.
        return Reply::text("Nothing else to say.");
    };
    let reply = Reply::text(format!("the answer to turn {turn}"));
    if turn == LONG_TURN.to_string() { reply.with_tokens(95_000, 10) } else { reply }
}

fn config(api: Api, model: &ModelServer) -> String {
    let base_url = scripted_provider::base_url(model, api);
    let more = json!({"memory": "on", "review": {"turns": TURNS_PER_REVIEW}});
    let mut config: Value = serde_json::from_str(&configuration(api, &base_url, &more)).unwrap();
    config["providers"]["local"]["models"] = json!({"m": {"context": 100_000, "output": 4_000}});
    config.to_string()
}

#[test]
fn e20_over_a_hundred_turns_only_a_compaction_changes_what_was_sent_before() {
    for api in Api::ALL {
        let machine = Machine::with_shell();
        let model = ModelServer::start().unwrap();
        model.respond_with(|request| Some(answer(request)));
        machine.configure(&config(api, &model));
        let serving = machine.serve();
        let session = http::session(&machine, &serving.socket, "default");
        let mut expected = 0;
        for turn in 1..=TURNS {
            let id = http::submit(&serving.socket, &session, &format!("turn {turn}"));
            http::follow(&serving.socket, &id);
            let ended = http::turn(&serving.socket, &id);
            assert_eq!(ended["text"], format!("the answer to turn {turn}"), "{api:?}: {ended}");
            expected += 1;
            // The compaction asks for a summary before the turn that follows the long one.
            expected += usize::from(turn == LONG_TURN + 1);
            if turn % TURNS_PER_REVIEW == 0 {
                // The next turn would end the review.
                expected += 1;
                until("the review asks", || model.model_requests().len() == expected);
            }
        }
        serving.stop().assert_code(0);

        let requests: Vec<_> = model
            .model_requests()
            .iter()
            .map(|request| RequestParts::of(&request.json()))
            .collect();
        assert_eq!(requests.len(), TURNS + 1 + TURNS / TURNS_PER_REVIEW, "{api:?}");
        let mut cold: Vec<usize> = (0..requests.len())
            .filter(|&index| {
                let first_new = requests[index].first_new_message(&requests[..index]);
                let new = first_new.map(|first| requests[index].messages.len() - first);
                new.is_none_or(|new| new > MAX_NEW_MESSAGES)
            })
            .collect();
        // A request is shorter than the one before it only after the summary. It still has the head.
        let shorter =
            |index: &usize| requests[*index].messages.len() < requests[*index - 1].messages.len();
        let after_summary: Vec<usize> = (1..requests.len()).filter(shorter).collect();
        let [after_summary] = after_summary[..] else {
            panic!("{api:?}: the conversation was shortened before {after_summary:?}");
        };
        let head = requests[after_summary].first_new_message(&requests[..after_summary]);
        // One API has the system prompt among its messages.
        let protected = requests[0].messages.len() - 1 + 3;
        assert_eq!(head, Some(protected), "{api:?}: the protected messages are sent as before");
        cold.retain(|index| *index != after_summary);
        assert_eq!(cold, [0], "{api:?}: these requests of {} are cold", requests.len());
    }
}

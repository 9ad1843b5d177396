//! Simulated tools, questions, failures and deaths.

use serde_json::{Value, json};

use super::{ParrotThread, deltas, kinds, last};

#[test]
fn a_tool_is_pretended_and_can_be_stopped() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.prompt("!think\n!tool Read");
    let lines = parrot.turn();
    let blocks: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| &line["message"]["content"][0]["type"])
        .collect();
    assert_eq!(blocks, ["thinking", "tool_use", "text"]);
    let told = lines.iter().find(|line| line["type"] == "user").unwrap();
    let result = &told["message"]["content"][0];
    assert_eq!(result["is_error"], false);
    assert!(result["content"].as_str().unwrap().contains("pretended"));
    assert_eq!(last(&lines)["num_turns"], 2);

    parrot.prompt("!tool Bash 60000");
    parrot.until(|line| line["event"]["type"] == "message_stop");
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.turn();
    assert_eq!(
        kinds(&lines),
        ["control_response", "user", "user", "result error_during_execution"]
    );
    assert_eq!(lines[1]["message"]["content"][0]["is_error"], true);
    assert_eq!(lines[3]["terminal_reason"], "aborted_tools");
    parrot.close();
}

#[test]
fn an_approval_is_asked_for_and_what_was_decided_is_said() {
    let mut parrot = ParrotThread::start(&[]);
    let decided = |parrot: &mut ParrotThread, response: &Value| {
        parrot.prompt("!ask rm -rf /");
        let question = parrot.question();
        assert_eq!(question["request"]["subtype"], "can_use_tool");
        assert_eq!(question["request"]["tool_name"], "Bash");
        assert_eq!(question["request"]["input"]["command"], "rm -rf /");
        parrot.answer(&question, response);
        parrot.turn()
    };
    let allow = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    let lines = decided(&mut parrot, &allow);
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("allowed `ls`") && text.contains("nothing ran"), "{text}");

    let deny = json!({"behavior": "deny", "message": "Better not."});
    let lines = decided(&mut parrot, &deny);
    assert_eq!(last(&lines)["result"], "You refused `rm -rf /`: Better not.");
    assert_eq!(last(&lines)["is_error"], false);
    assert_eq!(last(&lines)["permission_denials"][0]["tool_name"], "Bash");

    let stop = json!({"behavior": "deny", "message": "Stop.", "interrupt": true});
    let lines = decided(&mut parrot, &stop);
    assert_eq!(last(&lines)["terminal_reason"], "aborted_tools");

    let lines = decided(&mut parrot, &json!("yes, please"));
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("neither `allow` nor `deny`"), "{text}");
    parrot.close();
}

#[test]
fn a_question_nobody_answers_is_taken_back_or_counts_as_refused() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.prompt("!ask");
    let question = parrot.question();
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.turn();
    assert_eq!(
        kinds(&lines),
        [
            "control_cancel_request",
            "control_response",
            "user",
            "user",
            "result error_during_execution",
        ]
    );
    assert_eq!(lines[0]["request_id"], question["request_id"]);
    // The answer comes too late and is ignored.
    parrot.answer(&question, &json!({"behavior": "allow", "updatedInput": {}}));

    parrot.prompt("!ask");
    parrot.question();
    let exit = parrot.close();
    let text = last(&exit.rest)["result"].as_str().unwrap();
    assert!(text.contains("stdin was closed"), "{text}");
    assert_eq!(exit.code, 0);
}

#[test]
fn a_person_is_asked_to_choose() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.prompt("!question");
    let question = parrot.question();
    let request = &question["request"];
    assert_eq!(request["tool_name"], "AskUserQuestion");
    assert_eq!(request["requires_user_interaction"], true);
    let mut input = request["input"].clone();
    let wording = input["questions"][0]["question"].as_str().unwrap().to_owned();
    input["answers"] = json!({wording: "Blue"});
    parrot.answer(&question, &json!({"behavior": "allow", "updatedInput": input}));
    assert_eq!(last(&parrot.turn())["result"], "You chose Blue.");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn every_kind_of_failure_names_its_error_and_the_process_goes_on() {
    let table = [
        ("auth", "authentication_failed", json!(401)),
        ("billing", "billing_error", json!(400)),
        ("invalid", "invalid_request", json!(400)),
        ("model", "model_not_found", json!(404)),
        ("rate", "rate_limit", json!(429)),
        ("refused", "invalid_request", json!(null)),
        ("server", "server_error", json!(529)),
        ("unknown", "unknown", json!(null)),
    ];
    let mut parrot = ParrotThread::start(&[]);
    for (kind, error, status) in table {
        parrot.prompt(&format!("!words 2\n!fail {kind}"));
        let lines = parrot.turn();
        let result = last(&lines);
        assert_eq!(result["subtype"], "success", "{kind}");
        assert_eq!(result["is_error"], true, "{kind}");
        assert_eq!(result["api_error_status"], status, "{kind}");
        let line = &lines[lines.len() - 2];
        assert_eq!(line["error"], error, "{kind}");
        assert_eq!(line["message"]["model"], "<synthetic>", "{kind}");
        let limits = lines.iter().filter(|line| line["type"] == "rate_limit_event");
        assert_eq!(limits.count(), usize::from(kind == "rate"));
    }
    assert_eq!(parrot.close().code, 1);
}

#[test]
fn it_dies_in_the_middle_of_a_word_when_told_to() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.prompt("!die");
    let exit = parrot.wait();
    assert_eq!(exit.code, 1);
    assert_eq!(deltas(&exit.rest), "I was told to d");
    assert!(exit.rest.iter().all(|line| line["type"] != "result"));
    assert!(exit.stderr.contains("!die"), "{}", exit.stderr);
}

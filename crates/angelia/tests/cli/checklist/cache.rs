//! Support for the provider's cache: A18 a prompt that does not change, A19 the stable part first,
//! A20 numbers that show it.

use std::fs;

use angelia_testkit::model_server::ReplyUsage;
use serde_json::{Value, json};

use super::{on_each_version, system};
use crate::transcript::Transcript;

/// Returns the part of a request before the conversation.
fn prefix(request: &Value) -> (String, Value) {
    (system(request), request["tools"].clone())
}

#[test]
fn real_a18_what_changes_from_place_to_place_is_kept_out() {
    on_each_version(|lab| {
        let folders = ["one", "two"].map(|name| {
            let folder = lab.machine.place.root().join(name);
            fs::create_dir(&folder).unwrap();
            folder.to_str().unwrap().to_owned()
        });
        let prefixes = |lab: &mut super::ClaudeFixture| {
            folders.each_ref().map(|folder| {
                lab.machine.turn(&["--cwd", folder, "hello"]).completed();
                prefix(&lab.last_request().json())
            })
        };
        lab.configure(&[]);
        let [one, two] = prefixes(lab);
        assert_eq!(one, two);
        lab.configure(&["exclude_dynamic_system_prompt_sections: false"]);
        let [one, two] = prefixes(lab);
        assert_ne!(one, two);
        lab.configure_bridge(&["enabled: true"]);
        lab.machine.set("HERMES_CLAUDE_CODE_EXCLUDE_DYNAMIC_SYSTEM_PROMPT_SECTIONS", "true");
        let [one, two] = prefixes(lab);
        assert_eq!(one, two);
    });
}

/// Returns the messages without the cache markers, which also turn a text into a list of one block.
fn messages(request: &Value) -> Vec<Value> {
    let mut messages = request["messages"].as_array().unwrap().clone();
    for message in &mut messages {
        let content = &mut message["content"];
        if let Some(text) = content.as_str() {
            *content = json!([{"type": "text", "text": text}]);
        }
        for block in content.as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    messages
}

#[test]
fn real_a19_the_stable_part_comes_first_and_turns_share_it() {
    on_each_version(|lab| {
        let file = lab.machine.place.root().join("role");
        fs::write(&file, "ROLE-OF-THE-AGENT").unwrap();
        lab.configure(&[&format!("system_prompt_path: {}", file.display())]);
        let ask = |session: &str, prompt: &str| {
            lab.machine.turn(&["-s", session, prompt]).completed();
            lab.last_request().json()
        };
        // First every turn in its own process, then all turns in one process.
        for through_the_daemon in [false, true] {
            let serving = through_the_daemon.then(|| lab.machine.serve());
            let name = format!("chat {through_the_daemon}");
            let one = ask(&name, "FIRST-WORDS");
            let two = ask(&name, "SECOND-WORDS");
            let other = ask(&format!("other {through_the_daemon}"), "OTHER-WORDS");
            assert_eq!(prefix(&one), prefix(&two), "two turns of a session");
            assert_eq!(prefix(&one), prefix(&other), "two sessions");
            assert!(system(&one).contains("ROLE-OF-THE-AGENT"));
            for request in [&one, &two, &other] {
                let (system, tools) = prefix(request);
                assert!(!format!("{system}{tools}").contains("-WORDS"), "per-turn text is last");
            }
            let (first, second) = (messages(&one), messages(&two));
            assert!(second.len() > first.len());
            assert_eq!(second[..first.len()], first, "what was said is sent again as it was");
            drop(serving);
        }
    });
}

fn prefix_of(turn: &Transcript) -> String {
    turn.completed().first("usage")["prefix_sha256"].as_str().unwrap().to_owned()
}

#[test]
fn real_a20_cache_counts_and_the_hash_of_the_prefix_are_shown() {
    on_each_version(|lab| {
        let counts = ReplyUsage {
            input: 7,
            output: 5,
            cache_read: 4321,
            cache_write_5m: 30,
            cache_write_1h: 4,
        };
        lab.server.set_usage(counts);
        lab.configure(&[]);
        let one = lab.machine.turn(&["-s", "chat", "hello"]);
        let two = lab.machine.turn(&["-s", "chat", "hello again"]);
        let other = lab.machine.turn(&["hello"]);
        for turn in [&one, &two, &other] {
            for usage in [turn.completed().of_type("usage").last().unwrap(), &&turn.end()["usage"]]
            {
                assert_eq!(usage["cache_read_tokens"], 4321, "{usage}");
                assert_eq!(usage["cache_write_tokens"], 34, "{usage}");
                assert_eq!(usage["output_tokens"], 5, "{usage}");
                assert_eq!(usage["prefix_sha256"].as_str().unwrap().len(), 64);
            }
        }
        assert_eq!(prefix_of(&one), prefix_of(&two));
        assert_eq!(prefix_of(&one), prefix_of(&other));
        // Every setting that invalidates the cache changes the prefix.
        let mut seen = vec![prefix_of(&one)];
        let file = lab.machine.place.root().join("role");
        fs::write(&file, "a role").unwrap();
        for change in [
            "model: haiku".to_owned(),
            "tools: [Bash]".to_owned(),
            format!("system_prompt_path: {}", file.display()),
            "exclude_dynamic_system_prompt_sections: false".to_owned(),
        ] {
            lab.configure(&[&change]);
            let hash = prefix_of(&lab.machine.turn(&["hello"]));
            assert!(!seen.contains(&hash), "{change}");
            seen.push(hash);
        }
        let recorded = lab.machine.export(one.session());
        assert_eq!(recorded[0].end()["usage"], one.end()["usage"]);
    });
}

//! The memory of our own loop: written by its tool alone, told by a notice, seen by the next session, and
//! never changed by words of somebody else.

use std::{fs, path::PathBuf};

use angelia_core::model::{MemoryUse, Mode, PermissionLevel, SessionSpec, SystemPrompt, ToolSet};
use angelia_executors::scripted_model::{Reply, ReplyBlock};
use angelia_testkit::request_parts::without_marks;
use serde_json::json;

use crate::loop_lab::{LoopLab, call, calls, detail_of, in_each_api};

fn spec(lab: &LoopLab, memory: MemoryUse) -> SessionSpec {
    let mut spec = lab.spec();
    spec.native.memory = memory;
    spec
}

fn folder(lab: &LoopLab) -> PathBuf {
    lab.place.host.work_dir.parent().unwrap().join("memory/default")
}

fn save(key: &str, text: &str) -> ReplyBlock {
    call("memory", json!({"action": "save", "key": key, "text": text}))
}

fn save_everywhere(key: &str, text: &str) -> ReplyBlock {
    call("memory", json!({"action": "save", "key": key, "text": text, "everywhere": true}))
}

#[tokio::test]
async fn a_note_is_a_file_a_notice_and_part_of_the_next_session() {
    in_each_api(async |lab| {
        let mut spec = spec(&lab, MemoryUse::FromOwner);
        spec.permissions.level = PermissionLevel::Ask;
        let output = lab
            .turn_with(&spec, [calls([save_everywhere("style", "Be brief.")]), Reply::text("done")])
            .await;
        let detail = detail_of(&output, "memory_changed");
        assert_eq!(detail["note"], "default/everywhere/style", "{detail}");
        assert_eq!(detail["action"], "remembered");
        let file = folder(&lab).join("everywhere/style.md");
        assert_eq!(fs::read_to_string(&file).unwrap(), "Be brief.\n");
        let first = &lab.requests()[0];
        assert!(first.contains("There are none yet."), "{first:?}");

        // A person edits the file; the next session has it.
        fs::write(&file, "Be very brief.\n").unwrap();
        lab.turn_with(&spec, [calls([save("build", "Run make.")]), Reply::text("done")]).await;
        let request = lab.last_request();
        assert!(request.contains("Be very brief.") && !request.contains("## build"), "{request:?}");
        lab.turn_with(&spec, [Reply::text("done")]).await;
        assert!(lab.last_request().contains("## build\nRun make."), "{:?}", lab.last_request());
    })
    .await;
}

#[tokio::test]
async fn a_session_keeps_the_notes_that_it_began_with() {
    in_each_api(async |lab| {
        let spec = spec(&lab, MemoryUse::FromOwner);
        let mut session = lab.open_with(&spec).await;
        lab.server.script([calls([save("build", "Run make.")]), Reply::text("one")]);
        session.prompt("first").await;
        lab.server.script([Reply::text("two")]);
        session.prompt("second").await;
        session.close().await;
        let requests = lab.requests();
        let head = |number: usize| {
            let body = &requests[number].body;
            let system = ["system", "instructions"].iter().find_map(|key| body.get(*key));
            let system = system.unwrap_or(&body["messages"][0]);
            (without_marks(system), without_marks(&body["tools"]))
        };
        assert_eq!(head(0), head(2), "{:?}", lab.api);
    })
    .await;
}

#[tokio::test]
async fn file_tools_do_not_change_the_memory() {
    in_each_api(async |lab| {
        let path = folder(&lab).join("everywhere/style.md");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        let input = json!({"path": path, "content": "overwritten"});
        let edit = json!({"path": path, "old_string": "mine", "new_string": "yours"});
        let steps = [
            calls([call("read", json!({"path": path}))]),
            calls([call("write", input)]),
            calls([call("edit", edit)]),
            Reply::text("done"),
        ];
        lab.turn_with(&spec(&lab, MemoryUse::FromOwner), steps).await;
        let results = lab.last_request().results();
        for result in &results[1..] {
            assert!(result.contains("which only the tool `memory` changes"), "{results:?}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    })
    .await;
}

#[tokio::test]
async fn words_of_somebody_else_are_not_remembered() {
    in_each_api(async |lab| {
        for (memory, is_saved) in [(MemoryUse::FromOwner, false), (MemoryUse::FromAny, true)] {
            let mut session = lab.open_with(&spec(&lab, memory)).await;
            session.caller = Some("key:guest".into());
            lab.server.script([calls([save("k", "from a guest")]), Reply::text("one")]);
            session.prompt("first").await;
            // The guest's words are still in the conversation when the owner speaks.
            session.caller = None;
            lab.server.script([calls([save("l", "from the owner")]), Reply::text("two")]);
            session.prompt("second").await;
            session.close().await;
            let results = lab.last_request().results();
            for result in &results {
                assert_eq!(result.starts_with("saved"), is_saved, "{:?} {results:?}", lab.api);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn model_mode_knows_nothing_of_the_memory() {
    in_each_api(async |lab| {
        let path = folder(&lab).join("everywhere/style.md");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "a private preference").unwrap();
        let mut spec = spec(&lab, MemoryUse::FromAny);
        spec.mode = Mode::Model;
        spec.tools = ToolSet::None;
        spec.system = SystemPrompt::Replace("you are a model".into());
        lab.turn_with(&spec, [Reply::text("done")]).await;
        let request = lab.last_request();
        assert!(!request.contains("a private preference") && !request.contains("memory"));
    })
    .await;
}

#[tokio::test]
async fn secrets_and_bad_keys_are_not_written() {
    in_each_api(async |lab| {
        let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";
        let steps = [
            calls([save_everywhere("token", &format!("the token is {token}"))]),
            calls([save("../../escape", "x")]),
            calls([save("long", &"x".repeat(5000))]),
            calls([call("memory", json!({"action": "forget", "key": "token"}))]),
            calls([call("memory", json!({"action": "read"}))]),
            Reply::text("done"),
        ];
        let mut session = lab.open_with(&spec(&lab, MemoryUse::FromOwner)).await;
        lab.server.script(steps);
        let output = session.prompt("go on").await;
        session.close().await;
        let results = lab.last_request().results();
        assert!(results[0].starts_with("saved"), "{results:?}");
        let notices = output.notices();
        assert!(notices.iter().all(|notice| !notice.text.contains(token)), "{notices:?}");
        assert!(results[1].contains("is no key"), "{results:?}");
        assert!(results[2].contains("at most 4096"), "{results:?}");
        assert_eq!((&*results[3], &*results[4]), ("forgotten", "there are no notes"));
        let changes = fs::read_dir(folder(&lab).join(".changes")).unwrap();
        for change in changes {
            let text = fs::read_to_string(change.unwrap().path()).unwrap();
            assert!(!text.contains(token), "{text}");
        }
    })
    .await;
}

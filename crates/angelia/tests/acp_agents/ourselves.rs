//! Both halves of ACP at once: `angelia run` drives `angelia acp`, which runs the demo agent.

use std::fs;

use angelia_testkit::acp_agents::AcpAgent;

use crate::{
    acp_fixture::AcpAgentFixture,
    machine::{ANGELIA, Machine},
};

fn lab() -> AcpAgentFixture {
    let inner = |machine: &Machine, _: &str| AcpAgent {
        command: vec![ANGELIA.to_owned(), "acp".to_owned()],
        env: vec![
            (
                "ANGELIA_HOME".to_owned(),
                machine.place.root().join("inner").to_str().unwrap().to_owned(),
            ),
            ("PATH".to_owned(), machine.place.root().to_str().unwrap().to_owned()),
        ],
    };
    AcpAgentFixture::new(inner)
}

#[test]
fn words_tools_and_questions_pass_through_both() {
    let lab = lab();
    let turn = lab.turn("hello\n!think about it\n!tool Read\n!words 3");
    let text = turn.completed().text();
    assert!(text.contains("word1 word2 word3"), "{turn:#?}");
    assert_eq!(turn.first("tool.started")["name"], "Read");
    assert_eq!(turn.first("tool.started")["class"], "read");
    assert_eq!(turn.first("tool.finished")["ok"], true);
    assert!(!turn.of_type("reasoning").is_empty());
    assert!(turn.end()["usage"]["output_tokens"].as_u64().unwrap() > 0);

    let turn = lab.turn("!ask mkdir made");
    let finished = turn.completed().first("tool.finished");
    assert_eq!(finished["ok"], true, "{turn:#?}");
}

#[test]
fn a_conversation_goes_on_in_the_next_process() {
    let lab = lab();
    let first = lab.turn("hello");
    let second = lab.run_turn_with(&["-s", first.completed().session(), "again"]);
    second.completed();
    assert_eq!(second.first("turn.started")["resumed"], true);
    assert!(second.text().contains("again") && !second.text().contains("hello"), "{second:#?}");
}

#[test]
fn a_lost_conversation_is_carried_from_our_record() {
    let lab = lab();
    let first = lab.turn("hello");
    fs::remove_dir_all(lab.machine.place.root().join("inner")).unwrap();
    let second = lab.run_turn_with(&["-s", first.completed().session(), "again"]);
    second.completed();
    assert_eq!(second.first("turn.started")["resumed"], false);
    let codes: Vec<_> = second.of_type("notice").iter().map(|it| it["code"].clone()).collect();
    assert_eq!(codes, ["history_carried", "history_as_text"], "{second:#?}");
    // The demo agent repeats its input, which has the conversation before the new words.
    assert!(second.text().contains("User: hello"), "{second:#?}");
    assert!(second.text().contains("again"), "{second:#?}");
}

#[test]
fn what_is_interrupted_inside_is_interrupted_outside() {
    let lab = lab();
    let running = lab.machine.start(&["run", "--json", "say\n!words 2\n!hang"]);
    running.wait_for_stdout("word2");
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(crate::agent_processes::agent_pids(&lab.machine), [0_u32; 0]);
}

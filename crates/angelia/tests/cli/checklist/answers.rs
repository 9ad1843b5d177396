//! Output: A06 long and unknown lines, A07 the same events as with other agents.

use super::{bash, on_each_version};
use crate::transcript::Transcript;

#[test]
fn real_a06_a_line_of_16_mebibytes_is_taken() {
    on_each_version(|lab| {
        lab.configure(&[]);
        let bytes = 16 * 1024 * 1024;
        let ran = lab.machine.angelia(&["run", &format!("BIG:{bytes}")]);
        assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
        assert!(ran.stdout.trim_end().len() >= bytes - 1, "{} bytes", ran.stdout.len());
        assert!(ran.stdout.lines().all(|line| line.starts_with("0123456789abcde ")));
    });
}

/// Returns the kinds of events in order, without repetitions and without kinds that only some
/// agents emit.
fn outline(turn: &Transcript) -> Vec<String> {
    let kinds = turn.events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
    let mut kinds: Vec<String> =
        kinds.filter(|kind| !["usage", "native", "notice"].contains(&kind.as_str())).collect();
    kinds.dedup();
    kinds
}

#[test]
fn real_a07_text_tools_and_result_come_as_from_any_other_agent() {
    on_each_version(|lab| {
        let profile = lab.profile(&["permissions: unattended"]);
        lab.machine
            .configure(&format!("profiles:\n  default:{profile}\n  demo: {{executor: parrot}}\n"));
        let prompt = format!("THINK {} WORDS:3", bash("echo from the tool"));
        let real = lab.machine.turn(&[&prompt]);
        let demo = lab.machine.turn(&["-p", "demo", "!think\nI will.\n!tool Bash\n!words 3"]);
        assert_eq!(outline(real.completed()), outline(demo.completed()));
        for turn in [&real, &demo] {
            for (event, wanted) in [
                ("tool.started", "tool_id name class input title"),
                ("tool.finished", "tool_id ok output"),
                ("turn.started", "profile executor model native_session_id resumed warm"),
                ("text", "block text"),
                ("usage", "input_tokens output_tokens cache_read_tokens lane prefix_sha256"),
                ("turn.finished", "status text reason usage"),
            ] {
                for field in wanted.split(' ') {
                    assert!(turn.first(event).get(field).is_some(), "{event} {field}: {turn:#?}");
                }
            }
        }
        let call = real.first("tool.started");
        assert_eq!((&call["name"], &call["class"]), (&"Bash".into(), &"execute".into()));
        assert!(real.first("tool.finished")["output"].as_str().unwrap().contains("from the tool"));
        // The turn is recorded, shown and listed like any other.
        let recorded = &lab.machine.export(real.session())[0];
        assert_eq!(recorded.end(), real.end());
        lab.machine
            .angelia(&["turns", "watch", real.turn()])
            .assert_code(0)
            .assert_stdout("w0 w1 w2");
    });
}

//! The context size at the end of each recorded turn.

use super::{
    driver::{ClaudeRecording, VERSIONS, all_recordings, recording, run},
    translated::context::{readings, table},
};

fn context_readings(fixture: &ClaudeRecording) -> Vec<String> {
    readings(run(fixture).iter().flat_map(|step| &step.emitted))
}

#[test]
fn of_every_recording() {
    let told = all_recordings().into_iter().map(|fixture| {
        let told = context_readings(&fixture);
        (format!("{} {}", fixture.version, fixture.name), told)
    });
    insta::assert_snapshot!(table(told));
}

/// The turn as a whole has read twice as much.
#[test]
fn it_is_what_the_latest_request_read_and_wrote() {
    for version in VERSIONS {
        let turn = recording(version, "tool_call_with_partials");
        assert_eq!(context_readings(&turn), ["3156/1000000"], "{version}");
    }
}

#[test]
fn a_compaction_tells_what_it_left() {
    let compacted = recording("2.1.325", "slash_compact");
    assert_eq!(context_readings(&compacted)[2], "2590/1000000");
}

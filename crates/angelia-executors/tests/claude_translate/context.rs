//! The context size at the end of each recorded turn.

use super::{
    driver::{Fixture, VERSIONS, all, fixture, run},
    translated::context::{readings, table},
};

fn told(fixture: &Fixture) -> Vec<String> {
    readings(run(fixture).iter().flat_map(|step| &step.emitted))
}

#[test]
fn of_every_recording() {
    let told = all().into_iter().map(|fixture| {
        let told = told(&fixture);
        (format!("{} {}", fixture.version, fixture.name), told)
    });
    insta::assert_snapshot!(table(told));
}

/// The turn as a whole has read twice as much.
#[test]
fn it_is_what_the_latest_request_read_and_wrote() {
    for version in VERSIONS {
        let turn = fixture(version, "tool_call_with_partials");
        assert_eq!(told(&turn), ["3156/1000000"], "{version}");
    }
}

#[test]
fn a_compaction_tells_what_it_left() {
    let compacted = fixture("2.1.325", "slash_compact");
    assert_eq!(told(&compacted)[2], "2590/1000000");
}

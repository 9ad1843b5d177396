//! How full the context is at the end of each recorded turn, as the agents tell it.

use super::{
    driver::{all, drive},
    translated::context::{readings, table},
};

#[test]
fn of_every_recording() {
    let told = all().iter().map(|fixture| {
        let steps = drive(&fixture.lines);
        let told = readings(steps.iter().flat_map(|step| &step.emitted));
        (&fixture.name, told)
    });
    // Gemini tells nothing; OpenCode says 0 of turns that were cancelled.
    insta::assert_snapshot!(table(told));
}

//! The context size at the end of each recorded turn, as the agents report it.

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
    // Gemini reports nothing; OpenCode reports 0 for cancelled turns.
    insta::assert_snapshot!(table(told));
}

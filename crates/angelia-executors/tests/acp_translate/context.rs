//! How full the context is at the end of each recorded turn, as the agents tell it.

use super::{
    driver::{all, drive},
    translated::context::readings,
};

#[test]
fn of_every_recording() {
    let told = all().iter().map(|fixture| {
        let steps = drive(&fixture.lines);
        let told = readings(steps.iter().flat_map(|step| &step.emitted));
        format!("{} {}", fixture.name, told.join(" "))
    });
    let told: Vec<_> = told.collect();
    // Gemini tells nothing; OpenCode says 0 of turns that were cancelled.
    insta::assert_snapshot!(told.join("\n"));
}

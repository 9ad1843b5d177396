//! The context size at the end of each recorded turn.

use super::{
    driver::{all, run},
    translated::context::{readings, table},
};

#[test]
fn of_every_recording() {
    let told = all().iter().map(|fixture| (&fixture.name, told(&fixture.name)));
    insta::assert_snapshot!(table(told));
}

fn told(name: &str) -> Vec<String> {
    readings(run(name).iter().flat_map(|step| &step.emitted))
}

/// The turn as a whole has read twice as much.
#[test]
fn it_is_what_the_latest_request_read_and_wrote() {
    assert_eq!(told("approval-command-accept"), ["120/258400"]);
}

/// If the server has not counted tokens, its estimate is used.
#[test]
fn one_that_has_overflowed_is_full() {
    let told = told("fail-response-failed-context");
    assert_eq!(told, ["258400/258400", "120/258400"]);
    // An answer that was cut short is neither counted nor estimated.
    assert_eq!(self::told("fail-response-incomplete")[0], "-");
}

//! Tests which programs a script can run.

use super::{Invocations, everyday::HARMLESS, spellings::SPELLINGS};

/// The names of the programs, or the reason why they are not known.
fn names(script: &str) -> Result<Vec<String>, &'static str> {
    Invocations::of_script(script).map(|found| found.all.into_iter().map(|one| one.name).collect())
}

fn runs(script: &str, program: &str) -> bool {
    names(script).map_or(true, |names| names.iter().any(|name| name.eq_ignore_ascii_case(program)))
}

#[test]
fn every_spelling_of_a_command_is_found_or_refused() {
    let missed: Vec<_> = SPELLINGS.iter().filter(|script| !runs(script, "rm")).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn words_that_are_not_commands_are_not_found() {
    for script in HARMLESS {
        let found = names(script);
        let found = found.unwrap_or_else(|why| panic!("{script}: {why}"));
        assert!(!found.iter().any(|name| name.eq_ignore_ascii_case("rm")), "{script}: {found:?}");
    }
}

#[test]
fn any_text_is_parsed_or_refused() {
    let deep = "$(".repeat(10_000);
    let opened = "(".repeat(10_000);
    let cases = "case x in x) ".repeat(5000);
    let long = "a;".repeat(200_000);
    for script in [&*deep, &opened, &cases, &long, "", " ", "\\", "$", "<", "&&", "\0"] {
        let _any = names(script);
    }
}

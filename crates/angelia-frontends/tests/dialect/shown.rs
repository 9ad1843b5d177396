//! The events of a turn projected to the chunks of an answer.

use angelia_core::model::{EventKind, Failure, FailureKind, ToolClass, TurnStatus};
use insta::assert_snapshot;

use crate::events::{
    awaiting, block, call, default_options, delta, finished, format_answer, format_projection,
    result, thought, used, warning,
};
use angelia_frontends::http::dialect::{AnswerProjector, AnswerStart, ProjectorOptions};

fn failure() -> TurnStatus {
    TurnStatus::Failed(Failure::new(FailureKind::Unavailable, "the API is away").with_hint("wait"))
}

#[test]
fn deltas_are_shown_as_they_come_and_the_whole_adds_what_is_missing() {
    assert_snapshot!(format_answer(default_options(), vec![
        thought(0, "hm"),
        delta(1, "Hel"),
        delta(1, "lo"),
        block(1, "Hello, world"),
        block(2, "came whole"),
        EventKind::Usage(used(30, 12)),
        finished(TurnStatus::Completed, "came whole"),
    ]), @r#"
    begin claude/sonnet part 0
    open Reasoning
      "hm"
    close
    open Text
      "Hel"
      "lo"
      ", world"
    close
    open Text
      "came whole"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

#[test]
fn a_withdrawn_block_stays_with_a_word_about_it() {
    assert_snapshot!(format_answer(default_options(), vec![
        delta(0, "partial "),
        block(0, ""),
        delta(1, "Hello"),
        block(1, "Hello"),
        finished(TurnStatus::Completed, "Hello"),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "partial "
      "\n\n[the text above was cut off; the answer begins anew]\n\n"
    close
    open Text
      "Hello"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
    // A viewer that joins later has not seen the withdrawn text.
    assert_snapshot!(format_answer(default_options(), vec![
        block(0, ""),
        block(1, "Hello"),
        finished(TurnStatus::Completed, "Hello"),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "Hello"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

#[test]
fn interleaved_blocks_do_not_overlap() {
    assert_snapshot!(format_answer(default_options(), vec![
        delta(0, "a"),
        delta(1, "x"),
        delta(0, "b"),
        block(0, "abc"),
        block(1, "xy"),
        finished(TurnStatus::Completed, "abc"),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "a"
    close
    open Text
      "x"
    close
    open Text
      "b"
      "c"
    close
    open Text
      "y"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

fn two_parts() -> Vec<EventKind> {
    vec![
        delta(0, "I look."),
        block(0, "I look."),
        call("t0", "StructuredOutput", ToolClass::Other),
        call("t1", "get_weather", ToolClass::Other),
        call("t2", "get_weather", ToolClass::Other),
        EventKind::Usage(used(10, 5)),
        awaiting(),
        // This event belongs to the second call, which waits too.
        awaiting(),
        result("t1", true),
        result("t2", true),
        delta(1, "Sunny."),
        block(1, "Sunny."),
        finished(TurnStatus::Completed, "Sunny."),
    ]
}

#[test]
fn the_callers_calls_end_an_answer_and_the_next_part_goes_on() {
    assert_snapshot!(format_answer(default_options(), two_parts()), @r#"
    begin claude/sonnet part 0
    open Text
      "I look."
    close
    open Call { id: ToolId(t1), name: "get_weather" }
      "{\"city\": \"Paris\"}"
    close
    open Call { id: ToolId(t2), name: "get_weather" }
      "{\"city\": \"Paris\"}"
    close
    end Calls awaiting_tool_result in=10 out=5
    over
    "#);
    let after = format_answer(
        ProjectorOptions { start: AnswerStart::AfterEvent(7), ..default_options() },
        two_parts(),
    );
    let second = format_answer(
        ProjectorOptions { start: AnswerStart::Part(1), ..default_options() },
        two_parts(),
    );
    assert_eq!(after, second);
    assert_snapshot!(second, @r#"
    begin claude/sonnet part 1
    open Text
      "Sunny."
    close
    end EndTurn completed in=20 out=7
    over
    "#);
}

#[test]
fn a_call_that_the_agent_settles_itself_is_nobodys() {
    assert_snapshot!(format_answer(default_options(), vec![
        call("t1", "get_weather", ToolClass::Other),
        result("t1", false),
        awaiting(),
        block(0, "It did not work."),
        finished(TurnStatus::Completed, "It did not work."),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "It did not work."
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

#[test]
fn an_agents_own_tools_are_lines_of_reasoning() {
    let kinds = || {
        vec![
            call("t1", "get_weather", ToolClass::Execute),
            call("t2", "Read", ToolClass::Read),
            result("t1", true),
            result("t2", false),
            warning("a tool was declined: nobody can be asked"),
            block(0, "done"),
            finished(TurnStatus::Completed, "done"),
        ]
    };
    let agent = ProjectorOptions { report_activity: true, ..default_options() };
    assert_snapshot!(format_answer(agent, kinds()), @r#"
    begin claude/sonnet part 0
    open Reasoning
      "get_weather: client: get_weather\n"
      "Read: client: Read\n"
      "Read: failed\n"
      "a tool was declined: nobody can be asked\n"
    close
    open Text
      "done"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
    assert_snapshot!(format_answer(default_options(), kinds()), @r#"
    begin claude/sonnet part 0
    open Text
      "done"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

#[test]
fn a_failure_is_an_error_before_and_a_sentence_after() {
    assert_snapshot!(format_answer(default_options(), vec![finished(failure(), "")]), @"failed: the API is away; wait");
    assert_snapshot!(format_answer(default_options(), vec![delta(0, "so f"), finished(failure(), "so f")]), @r#"
    begin claude/sonnet part 0
    open Text
      "so f"
    close
    open Text
      "\n\n[the turn failed: the API is away; wait]"
    close
    end Failed(Failure { kind: Unavailable, message: "the API is away", hint: Some("wait"), retry_after: None }) failed in=30 out=12
    over
    "#);
    assert_snapshot!(format_answer(default_options(), vec![finished(TurnStatus::Interrupted, "")]), @"interrupted");
}

#[test]
fn an_answer_without_blocks_is_shown_from_the_outcome() {
    assert_snapshot!(format_answer(default_options(), vec![finished(TurnStatus::Partial, "what there is")]), @r#"
    begin claude/sonnet part 0
    open Text
      "what there is"
    close
    end Partial partial in=30 out=12
    over
    "#);
    assert_snapshot!(format_answer(default_options(), vec![finished(TurnStatus::Completed, "")]), @r"
    begin claude/sonnet part 0
    end EndTurn completed in=30 out=12
    over
    ");
}

#[test]
fn a_form_is_shown_only_when_it_is_known_whole() {
    let held = ProjectorOptions { hold_until_end: true, ..default_options() };
    assert_snapshot!(format_answer(held, vec![
        delta(0, "I will call a tool."),
        block(0, "I will call a tool."),
        call("t0", "StructuredOutput", ToolClass::Other),
        result("t0", true),
        finished(TurnStatus::Completed, r#"{"a":"hello"}"#),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "{\"a\":\"hello\"}"
    close
    end EndTurn completed in=30 out=12
    over
    "#);
}

#[test]
fn a_text_is_cut_at_its_ceiling() {
    let short = ProjectorOptions { max_tokens: Some(2), ..default_options() };
    assert_snapshot!(format_answer(short, vec![
        delta(0, "12345678"),
        delta(0, "90abcdef"),
        block(0, "1234567890abcdef"),
        finished(TurnStatus::Completed, "1234567890abcdef"),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "12345678"
      "90"
    close
    end MaxTokens partial in=0 out=0
    cut
    "#);
}

/// Projects these events for a client with a stop sequence.
fn until(word: &str, kinds: Vec<EventKind>) -> String {
    let shown = AnswerProjector::new(default_options()).with_stop_words(&[word.into()]);
    format_projection(shown, kinds)
}

#[test]
fn an_answer_ends_before_the_callers_word() {
    assert_snapshot!(until("END", vec![
        delta(0, "one E"),
        delta(0, "N"),
        delta(0, "D two"),
        block(0, "one END two"),
        finished(TurnStatus::Completed, "one END two"),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "one "
    close
    end Word("END") completed in=0 out=0
    cut
    "#);
    // Known whole, and nothing before it.
    assert_snapshot!(until("END", vec![block(0, "END"), finished(TurnStatus::Completed, "END")]), @r#"
    begin claude/sonnet part 0
    end Word("END") completed in=0 out=0
    cut
    "#);
    // Only of the outcome.
    assert_snapshot!(until("END", vec![finished(TurnStatus::Completed, "a END")]), @r#"
    begin claude/sonnet part 0
    open Text
      "a "
    close
    end Word("END") completed in=30 out=12
    cut
    "#);
}

#[test]
fn what_only_began_like_the_word_is_shown_in_its_place() {
    assert_snapshot!(until("END", vec![
        delta(0, "the E"),
        thought(1, "hm"),
        delta(2, "EN"),
        block(2, "EN"),
        call("t1", "get_weather", ToolClass::Other),
        awaiting(),
    ]), @r#"
    begin claude/sonnet part 0
    open Text
      "the "
      "E"
    close
    open Reasoning
      "hm"
    close
    open Text
      "EN"
    close
    open Call { id: ToolId(t1), name: "get_weather" }
      "{\"city\": \"Paris\"}"
    close
    end Calls awaiting_tool_result in=0 out=0
    over
    "#);
}

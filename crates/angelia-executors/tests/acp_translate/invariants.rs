//! The invariants of every recording: whole, truncated, reordered or damaged.

use std::{collections::HashSet, sync::LazyLock};

use angelia_core::model::{Decision, Verdict};
use angelia_executors::acp::translate::{AcpTranslator, SILENT};
use angelia_wire::jsonrpc::{RpcMessage, decode};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    approval_rules::{TurnSegment, check_turn},
    driver::{ReplayStep, all, context, drive, spell},
    recorded::{self, Line},
    translated::damage::{damage, of_other_types},
};

/// Checks the event rules in every turn.
fn check(steps: &[ReplayStep], place: &str) {
    let turns: HashSet<(usize, usize)> = steps.iter().map(|step| step.turn).collect();
    for turn in turns {
        if turn == (0, 0) {
            continue;
        }
        let of_turn = steps.iter().filter(|step| step.turn == turn);
        check_turn(of_turn.map(part), &format!("{place}: turn {turn:?}"));
    }
}

fn part(step: &ReplayStep) -> TurnSegment<'_> {
    let key = |told: &String| told.split(' ').next().unwrap_or_default().to_owned();
    TurnSegment {
        emitted: &step.emitted,
        answered: step.told.iter().map(key).collect(),
        ended: step.ended.is_some(),
    }
}

fn check_lines(lines: &[Line], place: &str) {
    check(&drive(lines), place);
}

#[test]
fn whole_recordings_keep_them() {
    recorded::whole(all(), check_lines);
}

#[test]
fn recordings_cut_at_any_line_keep_them() {
    recorded::cut_at_any_line(all(), check_lines);
}

#[test]
fn recordings_without_any_one_line_keep_them() {
    recorded::without_any_one_line(all(), check_lines);
}

#[test]
fn the_order_of_keys_means_nothing() {
    let signs = ["input=", " (", "detail="];
    recorded::whatever_order_of_keys(all(), &signs, |lines| spell(&drive(lines)));
}

#[test]
fn what_is_not_passed_on_is_in_the_table() {
    for fixture in all() {
        for step in drive(&fixture.lines) {
            let is_silent = step.emitted.is_empty() && step.ended.is_none() && step.told.is_empty();
            let Some(line) = step.line.filter(|_| is_silent && step.turn != (0, 0)) else {
                continue;
            };
            let value: Value = serde_json::from_str(&fixture.lines[line - 1].msg).unwrap();
            let update = &value["params"]["update"];
            let Some(kind) = update["sessionUpdate"].as_str() else {
                continue;
            };
            // A tool call arrives in several updates and is shown twice; an empty chunk is dropped.
            let is_part = kind.starts_with("tool_call") || update["content"]["text"] == "";
            let known = is_part || SILENT.iter().any(|(silent, _)| *silent == kind);
            assert!(known, "{} line {line}: {kind} is lost", fixture.name);
        }
    }
}

/// Returns all recorded agent messages, as if they belonged to one conversation.
fn messages() -> &'static [Value] {
    static MESSAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let said = all().iter().flat_map(|fixture| &fixture.lines);
        let said = said.filter(|line| line.out);
        let said = said.map(|line| serde_json::from_str::<Value>(&line.msg).unwrap());
        let short = said.filter(|message| message.to_string().len() < 4000);
        let ours = short.map(|mut message| {
            if message["params"]["sessionId"].is_string() {
                message["params"]["sessionId"] = "S".into();
            }
            message
        });
        ours.collect()
    });
    &MESSAGES
}

/// An action of the client between the agent's messages.
#[derive(Clone, Debug)]
enum Act {
    Say(usize, Option<(u32, usize)>),
    Decide(u8, Verdict),
    Stop,
    Show,
    Garbage(Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let verdict = prop::sample::select(Verdict::ALL.to_vec());
    let damage = prop::option::of((any::<u32>(), 0..of_other_types().len()));
    prop_oneof![
        12 => (any::<prop::sample::Index>(), damage)
            .prop_map(|(at, damage)| Act::Say(at.index(messages().len()), damage)),
        3 => (0..4u8, verdict).prop_map(|(key, verdict)| Act::Decide(key, verdict)),
        1 => Just(Act::Stop),
        1 => Just(Act::Show),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Act::Garbage),
    ]
}

/// Runs one turn of random actions and checks the event rules.
fn turn(translator: &mut AcpTranslator, acts: &[Act], place: &str) {
    let mut steps = Vec::new();
    let mut step = |act: &mut dyn FnMut(&mut ReplayStep)| {
        let mut step = ReplayStep { turn: (1, 1), ..ReplayStep::default() };
        act(&mut step);
        let is_over = step.ended.is_some();
        steps.push(step);
        is_over
    };
    step(&mut |step| translator.begin_turn(&mut step.emitted));
    let mut is_over = false;
    for act in acts {
        is_over = step(&mut |step| perform(translator, act, step));
        if is_over {
            break;
        }
    }
    if !is_over {
        step(&mut |step| step.ended = translator.on_end_of_output(&mut step.emitted));
    }
    assert!(!translator.in_turn());
    check(&steps, place);
}

fn perform(translator: &mut AcpTranslator, act: &Act, step: &mut ReplayStep) {
    let out = &mut step.emitted;
    match act {
        Act::Say(at, change) => {
            let mut message = messages()[*at].clone();
            if let Some((seed, other)) = change {
                damage(&mut message, *seed, &of_other_types()[*other]);
            }
            let line = message.to_string();
            match decode(line.as_bytes()) {
                Ok(RpcMessage::Notification { method, params }) => {
                    translator.on_notification(&method, params, out);
                }
                Ok(RpcMessage::Request { id, method, params }) => {
                    translator.on_request(&id, &method, params, out);
                }
                Ok(RpcMessage::Response { result, .. }) => {
                    step.ended = Some(translator.on_prompt_response(result, out));
                }
                Err(_) => translator.on_invalid_line(line.as_bytes(), out),
            }
        }
        Act::Decide(key, verdict) => {
            let decision = Decision::new(*verdict, "owner");
            if translator.decide(&key.to_string(), &decision, out).is_some() {
                step.told.push(key.to_string());
            }
        }
        Act::Stop => {
            translator.begin_stop(out);
        }
        Act::Show => translator.show_announced(out),
        Act::Garbage(bytes) => translator.on_invalid_line(bytes, out),
    }
}

proptest! {
    #[test]
    fn any_messages_keep_them(
        first in prop::collection::vec(act(), 0..40),
        second in prop::collection::vec(act(), 0..40),
    ) {
        let mut translator = AcpTranslator::new(context("S"));
        turn(&mut translator, &first, "first");
        turn(&mut translator, &second, "second");
    }
}

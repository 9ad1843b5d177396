//! The invariants of every recording: whole, truncated, reordered or damaged.

use std::{collections::HashMap, sync::LazyLock};

use angelia_core::model::{Decision, Verdict};
use angelia_executors::codex::translate::{CodexTranslator, RequestOutcome, SILENT};
use angelia_wire::jsonrpc::{RpcMessage, decode};
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

use super::{
    approval_rules::{TurnSegment, check_turn},
    driver::{ReplayStep, all, context, drive, raw, translator},
    recorded::{self, Line},
    spell::spell,
    translated::damage::{damage, of_other_types},
};

/// Checks the event rules in every turn.
fn check(steps: &[ReplayStep], place: &str) {
    let threads = steps.iter().map(|step| step.thread).max().unwrap_or(0);
    for thread in 0..=threads {
        let of_thread = || steps.iter().filter(|step| step.thread == thread);
        let turns = of_thread().map(|step| step.turn).max().unwrap_or(0);
        for turn in 1..=turns {
            let of_turn = of_thread().filter(|step| step.turn == turn).map(part);
            check_turn(of_turn, &format!("{place}: thread {thread}, turn {turn}"));
        }
    }
}

fn part(step: &ReplayStep) -> TurnSegment<'_> {
    TurnSegment {
        emitted: &step.emitted,
        answered: step.reply.iter().map(|reply| reply.id.to_string()).collect(),
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
    let signs = ["input=", " (", "permissions ", "{\"permissions\"", "asked for: ", "with: "];
    recorded::whatever_order_of_keys(all(), &signs, |lines| spell(&drive(lines)));
}

#[test]
fn what_is_not_passed_on_is_in_the_table() {
    for fixture in all() {
        for step in drive(&fixture.lines) {
            let Some(line) = step.line.filter(|_| step.is_silent()) else {
                continue;
            };
            let value: Value = serde_json::from_str(&fixture.lines[line - 1].msg).unwrap();
            let Some(method) = value["method"].as_str() else {
                continue;
            };
            let name = match value["params"]["item"]["type"].as_str() {
                Some(kind) => format!("{method}/{kind}"),
                None => method.to_owned(),
            };
            // A message between turns is kept for the next turn, or belongs to no turn.
            let kept = step.turn == 0 || matches!(method, "warning" | "configWarning");
            let known = kept || SILENT.iter().any(|(silent, _)| *silent == name);
            assert!(known, "{} line {line}: {name} is lost", fixture.name);
        }
    }
}

/// Returns all recorded server messages, as if one thread had sent them in a few turns.
fn messages() -> &'static [Value] {
    static MESSAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let mut all_of_them = Vec::new();
        for fixture in all() {
            let said = fixture.lines.iter().filter(|line| line.out);
            let said: Vec<Value> =
                said.map(|line| serde_json::from_str(&line.msg).unwrap()).collect();
            let mut names: HashMap<String, String> = HashMap::new();
            for message in &said {
                let thread = message["params"]["threadId"].as_str();
                let turn = message["params"]["turnId"].as_str();
                let turn = turn.or(message["params"]["turn"]["id"].as_str());
                if let Some(thread) = thread.or(message["params"]["thread"]["id"].as_str()) {
                    names.insert(thread.to_owned(), "T".to_owned());
                }
                if let Some(turn) = turn {
                    let number = names.len() % 3;
                    names.entry(turn.to_owned()).or_insert(format!("turn-{number}"));
                }
            }
            for message in said.into_iter().filter(|message| message["method"].is_string()) {
                let mut text = message.to_string();
                for (from, to) in &names {
                    text = text.replace(from, to);
                }
                all_of_them.push(serde_json::from_str(&text).unwrap());
            }
        }
        all_of_them
    });
    &MESSAGES
}

/// Feeds one message to a translator.
fn feed(translator: &mut CodexTranslator, message: &Value, step: &mut ReplayStep) {
    let text = message.to_string();
    match decode(text.as_bytes()) {
        Ok(RpcMessage::Notification { method, params }) => {
            let params = params.unwrap_or(RawValue::NULL);
            step.ended = translator.on_notification(&method, params, &mut step.emitted);
        }
        Ok(RpcMessage::Request { id, method, params }) => {
            let params = params.unwrap_or(RawValue::NULL);
            let out = &mut step.emitted;
            step.answer = Some(translator.on_request(&id.into(), &method, params, out));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Messages of any recordings in any order, repeated, with turns started, accepted, steered and
    /// approvals decided anywhere.
    #[test]
    fn any_sequence_of_messages_keeps_them(
        picks in prop::collection::vec((any::<u16>(), 0_u8..32), 1..120),
    ) {
        let messages = messages();
        let mut translator = translator();
        let mut steps = Vec::new();
        let mut turn = 0;
        let mut ended = true;
        let mut asked: Vec<String> = Vec::new();
        for (pick, dice) in picks {
            let mut step = ReplayStep { line: Some(0), ..ReplayStep::default() };
            match dice {
                0..4 if ended => {
                    turn += 1;
                    translator.begin_turn();
                    ended = false;
                    asked.clear();
                }
                4 => {
                    let id = json!({"turn": {"id": format!("turn-{}", pick % 3)}}).to_string();
                    translator.on_turn_accepted(&raw(&id), &mut step.emitted);
                }
                5 => translator.on_steer(),
                6 if !asked.is_empty() => {
                    let key = asked.remove(usize::from(pick) % asked.len());
                    let verdict = Verdict::ALL[usize::from(pick) % 4];
                    step.reply = translator.decide(&key, &Decision::new(verdict, "owner"));
                }
                _ => {
                    let message = &messages[usize::from(pick) % messages.len()];
                    feed(&mut translator, message, &mut step);
                }
            }
            step.turn = if ended { 0 } else { turn };
            prop_assert!(step.ended.is_none() || !ended, "ended twice");
            if let Some(RequestOutcome::Approval(key)) = &step.answer {
                asked.push(key.to_string());
            }
            ended |= step.ended.is_some();
            steps.push(step);
        }
        let mut step = ReplayStep::default();
        let signal = translator.on_end_of_output(&mut step.emitted);
        prop_assert_eq!(signal.is_some(), !ended);
        step.ended = signal;
        step.turn = turn;
        if !ended {
            steps.push(step);
        }
        check(&steps, "any order");
    }

    /// Known messages with one value replaced by something of another type, in the middle of a turn
    /// that has seen everything once.
    #[test]
    fn any_value_of_any_type_is_survived(
        before in any::<u16>(), pick in any::<u16>(), seed in any::<u32>(), other in 0..6_usize,
    ) {
        let messages = messages();
        let mut damaged = messages[usize::from(pick) % messages.len()].clone();
        damage(&mut damaged["params"], seed, &of_other_types()[other]);
        let mut translator = CodexTranslator::new(context("T"));
        translator.begin_turn();
        let mut steps = Vec::new();
        let mut feed = |message: &Value, turn: &mut usize| {
            let mut step = ReplayStep { line: Some(0), turn: *turn, ..ReplayStep::default() };
            feed(&mut translator, message, &mut step);
            if step.ended.is_some() {
                *turn = 0;
            }
            steps.push(step);
        };
        let mut turn = 1;
        feed(&json!({"method": "turn/started", "params":
            {"threadId": "T", "turn": {"id": "turn-1"}}}), &mut turn);
        for at in 0..5 {
            feed(&messages[(usize::from(before) + at) % messages.len()], &mut turn);
        }
        feed(&damaged, &mut turn);
        feed(&damaged, &mut turn);
        let mut step = ReplayStep { turn, ..ReplayStep::default() };
        let signal = translator.on_end_of_output(&mut step.emitted);
        step.ended = signal;
        prop_assert_eq!(step.ended.is_some(), turn == 1);
        steps.push(step);
        steps.retain(|step| step.turn == 1);
        check(&steps, "damaged");
    }

    /// Parameters that do not follow the protocol at all.
    #[test]
    fn any_json_is_kept_and_ends_nothing(
        method in prop::sample::select(methods()), text in ".*", number in any::<f64>(),
    ) {
        let mut translator = translator();
        translator.begin_turn();
        for params in [json!(text), json!(number), json!([text]), json!({"threadId": text})] {
            let mut step = ReplayStep::default();
            feed(&mut translator, &json!({"method": method, "params": params}), &mut step);
            prop_assert!(step.ended.is_none());
            feed(&mut translator, &json!({"method": method, "id": 1, "params": params}), &mut step);
            prop_assert!(step.ended.is_none());
        }
    }
}

fn methods() -> Vec<String> {
    let mut methods: Vec<String> = (messages().iter())
        .filter_map(|message| message["method"].as_str().map(str::to_owned))
        .collect();
    methods.push("brand/new".to_owned());
    methods.sort();
    methods.dedup();
    methods
}

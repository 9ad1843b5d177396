//! What holds for every recording, whole, cut off, reordered or damaged.

use std::{collections::HashSet, sync::LazyLock};

use angelia_core::{
    model::{Decision, Verdict},
    ports::Emitted,
};
use angelia_executors::acp::translate::{SILENT, Translator};
use angelia_wire::jsonrpc::{Incoming, decode};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    driver::{Line, Step, all, context, drive, spell},
    translated::{
        damage::{damage, of_other_types, reverse},
        rules::Seen,
    },
};

/// The rules of events hold in every turn; it ends once, last; and what is asked is answered or
/// withdrawn.
fn check(steps: &[Step], place: &str) {
    let turns: HashSet<(usize, usize)> = steps.iter().map(|step| step.turn).collect();
    for turn in turns {
        if turn == (0, 0) {
            continue;
        }
        let steps: Vec<&Step> = steps.iter().filter(|step| step.turn == turn).collect();
        check_turn(&steps, &format!("{place}: turn {turn:?}"));
    }
}

fn check_turn(steps: &[&Step], place: &str) {
    let mut seen = Seen::default();
    let mut asked = HashSet::new();
    let mut ended = 0;
    for step in steps {
        assert_eq!(ended, 0, "{place}: something behind the end");
        for emitted in &step.emitted {
            match emitted {
                Emitted::Event(kind) => seen.event(kind, place),
                Emitted::Ask(ask) => {
                    assert!(asked.insert(ask.key.to_string()), "{place}: {ask:?}");
                    for words in [&ask.title, &ask.detail, &ask.tool_name] {
                        assert!(!words.trim().is_empty(), "{place}: {ask:?}");
                    }
                }
                Emitted::Withdraw(key) => {
                    assert!(asked.remove(&**key), "{place}: {key} was not asked");
                }
                Emitted::Activity(_) => {}
            }
        }
        for told in &step.told {
            let key = told.split(' ').next().unwrap_or_default();
            asked.remove(key);
        }
        ended += usize::from(step.ended.is_some());
    }
    assert_eq!(ended, 1, "{place}");
    assert!(asked.is_empty(), "{place}: still asked {asked:?}");
    seen.check(place);
}

#[test]
fn whole_recordings_keep_them() {
    for fixture in all() {
        check(&drive(&fixture.lines), &fixture.name);
    }
}

#[test]
fn recordings_cut_at_any_line_keep_them() {
    for fixture in all() {
        for lines in 0..fixture.lines.len() {
            let steps = drive(&fixture.lines[..lines]);
            check(&steps, &format!("{} cut after {lines}", fixture.name));
        }
    }
}

#[test]
fn recordings_without_any_one_line_keep_them() {
    for fixture in all() {
        for missing in 0..fixture.lines.len() {
            let mut lines = fixture.lines.clone();
            lines.remove(missing);
            let place = format!("{} without {missing}", fixture.name);
            check(&drive(&lines), &place);
        }
    }
}

#[test]
fn the_order_of_keys_means_nothing() {
    for fixture in all() {
        let reversed: Vec<Line> = (fixture.lines.iter())
            .map(|line| Line {
                msg: reverse(&line.msg),
                ..line.clone()
            })
            .collect();
        // Kept JSON is kept in its own order; apart from that nothing differs.
        let plain = |steps: &[Step]| {
            let lines = spell(steps);
            let short = lines.lines().map(|line| {
                let ends = ["input=", " (", "detail="]
                    .iter()
                    .filter_map(|sign| line.find(sign));
                line[..ends.min().unwrap_or(line.len())].to_owned()
            });
            short.collect::<Vec<_>>()
        };
        let (straight, reversed) = (drive(&fixture.lines), drive(&reversed));
        assert_eq!(plain(&straight), plain(&reversed), "{}", fixture.name);
    }
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
            // A tool is told piece by piece and shown twice; an empty piece says nothing.
            let is_part = kind.starts_with("tool_call") || update["content"]["text"] == "";
            let known = is_part || SILENT.iter().any(|(silent, _)| *silent == kind);
            assert!(known, "{} line {line}: {kind} is lost", fixture.name);
        }
    }
}

/// Everything an agent ever said, as if it had been said in one conversation.
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

/// What a client does between the agent's messages.
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

/// Runs one turn of anything; the result keeps the rules.
fn turn(translator: &mut Translator, acts: &[Act], place: &str) {
    let mut steps = Vec::new();
    let mut step = |act: &mut dyn FnMut(&mut Step)| {
        let mut step = Step {
            turn: (1, 1),
            ..Step::default()
        };
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
        step(&mut |step| step.ended = translator.end_of_output(&mut step.emitted));
    }
    assert!(!translator.in_turn());
    check(&steps, place);
}

fn perform(translator: &mut Translator, act: &Act, step: &mut Step) {
    let out = &mut step.emitted;
    match act {
        Act::Say(at, change) => {
            let mut message = messages()[*at].clone();
            if let Some((seed, other)) = change {
                damage(&mut message, *seed, &of_other_types()[*other]);
            }
            let line = message.to_string();
            match decode(line.as_bytes()) {
                Ok(Incoming::Notification { method, params }) => {
                    translator.notification(&method, params, out);
                }
                Ok(Incoming::Request { id, method, params }) => {
                    translator.request(&id, &method, params, out);
                }
                Ok(Incoming::Response { result, .. }) => {
                    step.ended = Some(translator.answered(result, out));
                }
                Err(_) => translator.no_message(line.as_bytes(), out),
            }
        }
        Act::Decide(key, verdict) => {
            let decision = Decision::new(*verdict, "owner");
            if translator
                .decide(&key.to_string(), &decision, out)
                .is_some()
            {
                step.told.push(key.to_string());
            }
        }
        Act::Stop => {
            translator.stop(out);
        }
        Act::Show => translator.show_announced(out),
        Act::Garbage(bytes) => translator.no_message(bytes, out),
    }
}

proptest! {
    #[test]
    fn any_messages_keep_them(
        first in prop::collection::vec(act(), 0..40),
        second in prop::collection::vec(act(), 0..40),
    ) {
        let mut translator = Translator::new(context("S"));
        turn(&mut translator, &first, "first");
        turn(&mut translator, &second, "second");
    }
}

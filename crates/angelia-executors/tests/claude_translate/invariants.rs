//! The invariants of every recording: whole, truncated, reordered or damaged.

use std::collections::BTreeMap;

use angelia_core::ports::AgentEvent;
use angelia_executors::claude::translate::{SILENT_LINES, StreamSignal};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    driver::{
        ClaudeRecording, LineOutcome, VERSIONS, all_recordings, drive, format_outcomes, run,
        translator,
    },
    translated::{
        damage::{damage, of_other_types, reverse},
        rules::EventRules,
    },
};

/// Checks the event rules in every turn, and that each turn ends once.
fn check(steps: &[LineOutcome], place: &str) {
    let turns = steps.last().map_or(0, |step| step.turn);
    for turn in 1..=turns {
        let place = format!("{place}: turn {turn}");
        let steps = || steps.iter().filter(|step| step.turn == turn);
        let mut seen = EventRules::default();
        for emitted in steps().flat_map(|step| &step.emitted) {
            if let AgentEvent::Event(kind) = emitted {
                seen.event(kind, &place);
            }
        }
        let ended = steps().filter(|step| step.ended().is_some()).count();
        assert_eq!(ended, 1, "{place}");
        seen.check(&place);
    }
}

fn place(fixture: &ClaudeRecording) -> String {
    format!("{}/{}", fixture.version, fixture.name)
}

#[test]
fn whole_recordings_keep_them() {
    for fixture in all_recordings() {
        check(&run(&fixture), &place(&fixture));
    }
}

#[test]
fn recordings_cut_at_any_line_keep_them() {
    for fixture in all_recordings() {
        for lines in 0..fixture.lines.len() {
            let steps = drive(&fixture, &fixture.lines[..lines]);
            check(&steps, &format!("{} cut after {lines}", place(&fixture)));
        }
    }
}

/// The last line of every recording, and the shortest of every kind.
fn lines_to_cut(version: &str) -> Vec<(String, String)> {
    let mut shortest: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = Vec::new();
    for fixture in all_recordings().iter().filter(|fixture| fixture.version == version) {
        lines.extend(fixture.lines.last().map(|last| (place(fixture), last.clone())));
        for line in &fixture.lines {
            let Ok(json) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let known = shortest.entry(format!("{} {}", json["type"], json["subtype"]));
            let known = known.or_insert_with(|| line.clone());
            if line.len() < known.len() {
                known.clone_from(line);
            }
        }
    }
    assert!(shortest.len() > 10, "all kinds of lines are there");
    lines.extend(shortest);
    lines
}

fn cut_lines(version: &str) {
    for (place, line) in lines_to_cut(version) {
        let mut translator = translator(false);
        translator.begin_turn("u");
        for cut in 0..line.len() {
            let mut out = Vec::new();
            let signal = translator.translate_line(&line.as_bytes()[..cut], &mut out);
            assert!(signal.is_none(), "{place} at {cut}");
            assert_eq!(out.len(), usize::from(cut > 0), "{place} at {cut}");
        }
        assert!(!translator.accepts_steering(), "{place} changed something");
    }
}

#[test]
fn a_line_cut_at_any_byte_is_kept_and_ends_nothing_old() {
    cut_lines(VERSIONS[0]);
}

#[test]
fn a_line_cut_at_any_byte_is_kept_and_ends_nothing_new() {
    cut_lines(VERSIONS[1]);
}

#[test]
fn the_order_of_keys_means_nothing() {
    for fixture in all_recordings() {
        let reversed: Vec<String> = fixture.lines.iter().map(|line| reverse(line)).collect();
        let (straight, reversed) = (run(&fixture), drive(&fixture, &reversed));
        // Raw JSON keeps its own key order; everything else must be equal.
        let plain = |steps: &[LineOutcome]| {
            let lines = format_outcomes(steps);
            let lines = lines
                .lines()
                .map(|line| line.split(" input=").next().unwrap())
                .map(|line| line.split(" (").next().unwrap())
                .map(|line| line.split(": {").next().unwrap().to_owned());
            lines.filter(|line| !line.contains("=> asked mcp")).collect::<Vec<_>>()
        };
        assert_eq!(plain(&straight), plain(&reversed), "{}", place(&fixture));
    }
}

#[test]
fn what_is_not_passed_on_is_in_the_table() {
    for fixture in all_recordings() {
        for step in run(&fixture) {
            let Some(line) = step.line else { continue };
            if !step.emitted.is_empty() || step.signal.is_some() {
                continue;
            }
            let value: Value = serde_json::from_str(&fixture.lines[line - 1]).unwrap();
            let kind = value["type"].as_str().unwrap();
            let subtype = match kind {
                "stream_event" => value["event"]["type"].as_str(),
                "user" if value["isReplay"] == true => Some("replay"),
                "user" => Some("interrupted"),
                _ => value["subtype"].as_str(),
            };
            let name = subtype.map_or(kind.to_owned(), |subtype| format!("{kind}/{subtype}"));
            let known = SILENT_LINES.iter().any(|(silent, _)| *silent == name);
            assert!(known, "{} line {line}: {name} is lost", place(&fixture));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Lines of any recordings in any order, repeated, with turns started anywhere.
    #[test]
    fn any_sequence_of_lines_keeps_them(picks in prop::collection::vec((any::<u16>(), 0_u8..8), 1..80)) {
        let lines = lines();
        let mut translator = translator(false);
        let mut steps = Vec::new();
        let mut turn = 0;
        let mut ended = true;
        for (pick, dice) in picks {
            if ended && dice == 0 {
                turn += 1;
                translator.begin_turn(&format!("u{turn}"));
                ended = false;
            }
            let mut emitted = Vec::new();
            let line = &lines[usize::from(pick) % lines.len()];
            let signal = translator.translate_line(line.as_bytes(), &mut emitted);
            let step = LineOutcome { line: Some(0), emitted, signal, turn: if ended { 0 } else { turn } };
            prop_assert!(step.ended().is_none() || !ended, "ended twice");
            ended |= step.ended().is_some();
            steps.push(step);
        }
        let mut emitted = Vec::new();
        let signal = translator.end_of_output(&mut emitted).map(StreamSignal::TurnEnded);
        prop_assert_eq!(signal.is_some(), !ended);
        steps.push(LineOutcome { line: None, emitted, signal, turn });
        if ended { steps.pop(); }
        check(&steps, "any order");
    }

    /// Bytes that do not follow the protocol at all.
    #[test]
    fn any_bytes_are_kept_and_end_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut translator = translator(false);
        translator.begin_turn("u");
        let mut out = Vec::new();
        prop_assert!(translator.translate_line(&bytes, &mut out).is_none());
        let blank = bytes.iter().all(u8::is_ascii_whitespace);
        prop_assert_eq!(out.len(), usize::from(!blank));
    }

    /// Known lines with one value replaced by something of another type.
    #[test]
    fn any_value_of_any_type_is_survived(pick in any::<u16>(), seed in any::<u32>(), other in 0..6_usize) {
        let lines = lines();
        let line = &lines[usize::from(pick) % lines.len()];
        let mut value: Value = serde_json::from_str(line).unwrap();
        damage(&mut value, seed, &of_other_types()[other]);
        let mut translator = translator(false);
        translator.begin_turn("u");
        let mut out = Vec::new();
        translator.translate_line(value.to_string().as_bytes(), &mut out);
        translator.translate_line(value.to_string().as_bytes(), &mut out);
        translator.end_of_output(&mut out);
    }
}

fn lines() -> &'static [String] {
    static LINES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
        all_recordings().into_iter().flat_map(|fixture| fixture.lines).collect()
    });
    &LINES
}

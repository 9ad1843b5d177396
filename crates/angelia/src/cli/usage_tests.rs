//! Tests of usage on a wide and on a narrow terminal, and in a pipe.

use angelia_frontends::event_json::UsageJson;

use super::*;

fn row(key: Option<&str>, turns: u64, scale: u64, cost_usd: Option<f64>) -> UsageResource {
    let usage = Usage {
        input_tokens: 100 * scale,
        output_tokens: 250 * scale,
        cache_read_tokens: 9000 * scale,
        cache_write_tokens: 700 * scale,
        cost_usd,
        ..Usage::default()
    };
    let key = key.map(str::to_owned);
    UsageResource { key, start: None, turns, cold_starts: 0, usage: UsageJson(usage) }
}

fn report(by: UsageGroup, data: Vec<UsageResource>) -> UsageReport {
    let reset = Timestamp::from_second(9000).unwrap();
    UsageReport {
        by: by.as_str(),
        since: Timestamp::UNIX_EPOCH,
        data,
        total: row(None, 60, 312, Some(4.375)),
        quotas: vec![QuotaResource {
            id: "claude/five_hour".to_owned(),
            executor: "claude".to_owned(),
            window: "five_hour".to_owned(),
            used_percent: Some(42.0),
            left_percent: Some(58.0),
            exhausted: false,
            resets_at: Some(reset),
            reported_at: Timestamp::UNIX_EPOCH,
        }],
    }
}

fn show(by: UsageGroup, data: Vec<UsageResource>, view: &View) -> String {
    render(&report(by, data), by, view, Timestamp::UNIX_EPOCH)
}

fn days() -> Vec<UsageResource> {
    vec![
        row(Some("2026-11-15"), 12, 1, Some(0.125)),
        row(Some("2026-11-16"), 40, 300, Some(4.0)),
        row(Some("2026-11-17"), 8, 11, Some(0.25)),
    ]
}

#[test]
fn days_have_bars_at_a_terminal() {
    for width in [80, 40] {
        let view = View { width, has_colour: false, is_terminal: true };
        let text = show(UsageGroup::Day, days(), &view);
        let widest = text.lines().map(crate::cli::text_width::columns).max();
        assert!(widest <= Some(width), "{text}");
        insta::assert_snapshot!(format!("days_{width}"), text);
    }
    insta::assert_snapshot!("days_pipe", show(UsageGroup::Day, days(), &View::PLAIN));
}

#[test]
fn other_rows_are_named() {
    let view = View { width: 80, has_colour: false, is_terminal: true };
    let sessions = vec![
        row(Some("0193a2b4-c1d2-7000-8000-000000000000"), 3, 2, Some(1.5)),
        row(None, 1, 1, None),
    ];
    insta::assert_snapshot!("sessions_80", show(UsageGroup::Session, sessions, &view));
    let narrow = View { width: 40, ..view };
    let models = vec![row(Some("a-model-with-quite-a-long-name-20261117"), 3, 2, None)];
    insta::assert_snapshot!("models_40", show(UsageGroup::Model, models, &narrow));
    insta::assert_snapshot!("nothing", show(UsageGroup::Lane, Vec::new(), &view));
}

#[test]
fn a_line_says_what_was_used() {
    let usage = row(None, 1, 1, Some(0.0009)).usage.0;
    assert_eq!(format_used(&usage), "9.8k in (91 % cached) · 250 out · $0.0009");
    let plain = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
    assert_eq!(format_used(&plain), "7 in · 3 out");
}

#[test]
fn a_key_is_shown_by_its_name_if_that_is_clear() {
    let view = View { width: 80, has_colour: false, is_terminal: true };
    let bot = || row(Some("key:bot#0011223344556677"), 1, 1, None);
    let owner = || row(Some("owner"), 1, 1, None);
    let clear = show(UsageGroup::Key, vec![bot(), owner()], &view);
    assert!(clear.contains("\nbot  ") && clear.contains("\nowner  "), "{clear}");
    let again = row(Some("key:bot#8899aabbccddeeff"), 1, 1, None);
    let unclear = show(UsageGroup::Key, vec![bot(), again], &view);
    assert!(unclear.contains("\nkey:bot#0011223344556677"), "{unclear}");
}

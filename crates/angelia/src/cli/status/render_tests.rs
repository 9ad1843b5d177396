//! Tests of the status on a wide and on a narrow terminal, with and without colours, and in a pipe.

use angelia_core::model::{ScheduleId, SessionId, Usage};
use angelia_frontends::{
    event_json::UsageJson,
    http::{
        ConfigState,
        resources::{BusStatusResource, DaemonResource, UsageResource},
    },
};
use serde_json::json;
use uuid::Uuid;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_794_900_000).unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_794_900_000 - seconds).unwrap()
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0193_a2b4_c1d2_7000_8000_0000_0000_0000 + (number << 80))
}

fn agent(number: u128, state: &str, idle: Option<u64>, rss: Option<u64>) -> AgentResource {
    AgentResource {
        id: id(number).to_string(),
        session_id: Some(SessionId::from_uuid(id(number))),
        title: Some("Fix the \x1b[31mparser and everything that depends on it".to_owned()),
        profile: Some("default".to_owned()),
        executor: Some("claude".to_owned()),
        model: Some("sonnet".to_owned()),
        state: state.to_owned(),
        idle_seconds: idle,
        pid: rss.map(|_| 4711),
        program: Some("claude".to_owned()),
        processes: Some(3),
        rss_bytes: rss,
    }
}

fn turn(number: u128, status: &str, resumes_at: Option<Timestamp>) -> TurnResource {
    let json = json!({
        "id": id(number), "session_id": id(number + 1), "status": status,
        "created_at": ago(75), "finished_at": null,
        "input": [{"type": "text", "text": "\n  Please make the 解析器 faster, and tell me why it was slow"}],
        "text": null, "reason": null, "usage": null, "failure": null, "resumes_at": resumes_at,
    });
    serde_json::from_value(json).unwrap()
}

fn approval() -> ApprovalResource {
    let json = json!({
        "id": id(9), "session_id": id(1), "turn_id": id(2), "kind": "tool", "tool": "Bash",
        "title": "Bash rm -rf target && cargo build --release --all-features", "detail": "",
        "tool_id": null, "choices": ["once", "deny"], "diff": null,
        "asked_at": ago(20), "expires_at": ago(-90), "decided": null,
    });
    serde_json::from_value(json).unwrap()
}

fn quota(window: &str, used: f64, resets_in: i64) -> QuotaResource {
    QuotaResource {
        id: format!("claude/{window}"),
        executor: "claude".to_owned(),
        window: window.to_owned(),
        used_percent: Some(used),
        left_percent: Some(100.0 - used),
        exhausted: used >= 100.0,
        resets_at: Some(ago(-resets_in)),
        reported_at: ago(60),
    }
}

fn busy() -> StatusResource {
    let usage = Usage {
        input_tokens: 1200,
        output_tokens: 3400,
        cache_read_tokens: 96_000,
        cache_write_tokens: 2800,
        cost_usd: Some(0.0912),
        ..Usage::default()
    };
    StatusResource {
        daemon: DaemonResource {
            running: true,
            pid: Some(4242),
            version: Some("0.1.0".to_owned()),
            uptime_seconds: Some(7512),
            address: Some("127.0.0.1:4376".to_owned()),
            config: Some(ConfigState {
                path: "/home/u/.angelia/config.yaml".to_owned(),
                loaded_at: ago(7500),
                waiting: vec!["listen".to_owned(), "profiles.default.permissions".to_owned()],
                error: Some("line 3: unknown key `profils`\nmore".to_owned()),
            }),
        },
        agents: vec![
            agent(1, "busy", None, Some(171_000_000)),
            agent(2, "idle", Some(185), None),
            AgentResource {
                session_id: None,
                state: "spare".to_owned(),
                ..agent(3, "spare", None, Some(12_000_000))
            },
        ],
        max_agents: Some(64),
        turns: vec![
            turn(4, "running", None),
            turn(5, "awaiting_approval", None),
            turn(6, "parked", Some(ago(-3700))),
        ],
        approvals: vec![approval()],
        schedules: vec![
            schedule("0 9 * * 1-5", Some(ago(-3700))),
            schedule("watch /home/u/project", None),
        ],
        bus: Some(BusStatusResource { endpoints: 3, listening: 2, queued: 1, dead: 0 }),
        channels: channels(),
        quotas: vec![
            quota("five_hour", 42.0, 7380),
            quota("seven_day", 91.0, 200_000),
            quota("extra", 100.0, 60),
            quota("old", 100.0, -60),
        ],
        usage_today: UsageResource {
            turns: 12,
            usage: UsageJson(usage),
            ..UsageResource::default()
        },
    }
}

fn schedule(spec: &str, next_at: Option<Timestamp>) -> ScheduleResource {
    ScheduleResource {
        id: ScheduleId::from_uuid(id(9)),
        short_id: Some("01923456".to_owned()),
        spec: spec.to_owned(),
        tz: None,
        prompt: "Review what was merged yesterday.\nBe brief.".to_owned(),
        profile: None,
        session: None,
        cwd: None,
        to: None,
        missed: "run_once".to_owned(),
        overlap: "skip".to_owned(),
        next_at,
        last: None,
        paused: false,
        created_at: now(),
        results: Vec::new(),
    }
}

fn channels() -> Vec<ChannelResource> {
    let connected = ChannelResource {
        id: "telegram".to_owned(),
        state: "connected".to_owned(),
        last_event_at: Some(ago(90)),
        last_error: None,
        backlog: 2,
        codes: Vec::new(),
    };
    let lost = ChannelResource {
        id: "slack".to_owned(),
        state: "retrying".to_owned(),
        last_event_at: None,
        last_error: Some("it cannot be reached".to_owned()),
        backlog: 0,
        codes: Vec::new(),
    };
    vec![connected, lost]
}

fn idle() -> StatusResource {
    StatusResource {
        daemon: DaemonResource::default(),
        agents: Vec::new(),
        max_agents: None,
        turns: Vec::new(),
        approvals: Vec::new(),
        schedules: Vec::new(),
        bus: None,
        channels: Vec::new(),
        quotas: Vec::new(),
        usage_today: UsageResource::default(),
    }
}

fn terminal(width: usize, has_colour: bool) -> View {
    View { width, has_colour, is_terminal: true }
}

#[test]
fn a_busy_home() {
    for width in [80, 40] {
        let text = render(&busy(), &terminal(width, false), now());
        let widest = text.lines().map(crate::cli::text_width::columns).max();
        assert!(widest <= Some(width), "{text}");
        insta::assert_snapshot!(format!("busy_{width}"), text);
    }
    insta::assert_snapshot!("busy_pipe", render(&busy(), &View::PLAIN, now()));
    let coloured = render(&busy(), &terminal(80, true), now());
    insta::assert_snapshot!("busy_colour", coloured.replace('\x1b', "␛"));
}

#[test]
fn a_home_without_a_daemon() {
    insta::assert_snapshot!("no_daemon", render(&idle(), &terminal(80, false), now()));
}

//! One test per state, and the cases in which a watchdog typically stops the wrong turn.

use super::*;
use crate::model::{AgentStart, Notice, NoticeLevel, TextChannel, ToolCall, ToolClass, ToolResult};

const SECOND: Duration = Duration::from_secs(1);

struct WatchdogScenario {
    watchdog: Watchdog,
    now: Instant,
}

impl WatchdogScenario {
    fn new() -> Self {
        let now = Instant::now();
        Self { watchdog: Watchdog::new(TurnTimeouts::default(), now), now }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += SECOND * u32::try_from(seconds).unwrap();
        self
    }

    fn event(&mut self, kind: &EventKind) -> &mut Self {
        self.watchdog.on_event(kind, self.now);
        self
    }

    fn started(&mut self) -> &mut Self {
        self.event(&EventKind::Started(AgentStart {
            profile: "p".into(),
            executor: "e".into(),
            model: None,
            native_session_id: None,
            resumed: false,
            warm: false,
        }))
    }

    fn text(&mut self) -> &mut Self {
        let (block, channel) = (0, TextChannel::Answer);
        self.event(&EventKind::Delta { block, channel, text: "x".into() })
    }

    fn tool(&mut self, id: &str) -> &mut Self {
        self.event(&EventKind::ToolCall(ToolCall {
            id: ToolId::new(id),
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: serde_json::value::to_raw_value(&()).unwrap().into(),
            title: "make".into(),
            parent: None,
        }))
    }

    fn result(&mut self, id: &str) -> &mut Self {
        self.event(&EventKind::ToolResult(ToolResult::new(ToolId::new(id), true, "")))
    }

    fn notice(&mut self) -> &mut Self {
        self.event(&EventKind::Notice(Notice::new(NoticeLevel::Info, "retrying", "again")))
    }

    fn request_approval(&mut self) -> &mut Self {
        self.watchdog.set_oldest_approval(Some(self.now), self.now);
        self
    }

    fn decide_approval(&mut self) -> &mut Self {
        self.watchdog.set_oldest_approval(None, self.now);
        self
    }

    /// The setting of the next timeout, and the seconds until it expires.
    fn next_timeout(&self) -> (&'static str, u64) {
        let (at, rang) = self.watchdog.next_timeout();
        (rang.setting, at.duration_since(self.now).as_secs())
    }
}

#[test]
fn attempts_that_are_cut_off_are_one_retrying() {
    let mut story = WatchdogScenario::new();
    story.started();
    let retry =
        |story: &mut WatchdogScenario| story.watchdog.on_activity(Activity::Retrying, story.now);
    let block = |story: &mut WatchdogScenario, text: &str| {
        let (block, channel) = (0, TextChannel::Answer);
        story.event(&EventKind::Block { block, channel, text: text.into() });
    };
    retry(&mut story);
    for attempt in 1..4 {
        story.after(10).text();
        block(&mut story, "");
        retry(&mut story);
        assert_eq!(story.next_timeout(), ("retry_timeout", 180 - 10 * attempt));
    }
    // A complete block can be withdrawn as well.
    block(&mut story, "a thought");
    block(&mut story, "");
    retry(&mut story);
    assert_eq!(story.next_timeout(), ("retry_timeout", 150));
    // A block that stays is progress, so the next retry starts a new timeout.
    story.after(10).text();
    block(&mut story, "an answer");
    retry(&mut story);
    assert_eq!(story.next_timeout(), ("retry_timeout", 180));
}

#[test]
fn every_state_has_its_own_clock() {
    let mut story = WatchdogScenario::new();
    assert_eq!(story.next_timeout(), ("first_event_timeout", 60));
    assert_eq!(story.after(5).started().next_timeout(), ("inter_event_silence_timeout", 120));
    assert_eq!(story.after(5).text().next_timeout(), ("inter_event_silence_timeout", 120));
    assert_eq!(story.after(5).tool("a").next_timeout(), ("tool_timeout", 1800));
    assert_eq!(story.after(5).result("a").next_timeout(), ("post_tool_quiet_timeout", 90));
    story.watchdog.on_activity(Activity::Retrying, story.now);
    assert_eq!(story.next_timeout(), ("retry_timeout", 180));
    story.watchdog.on_activity(Activity::Compacting, story.now);
    assert_eq!(story.next_timeout(), ("compaction_timeout", 600));
    story.watchdog.on_activity(Activity::Background, story.now);
    assert_eq!(story.next_timeout(), ("background_grace", 900));
    assert_eq!(story.watchdog.state().to_string(), "background work");
}

#[test]
fn a_tool_that_runs_long_is_left_alone_until_its_own_clock() {
    let mut story = WatchdogScenario::new();
    story.started().tool("a");
    // Notices and text do not change the timeout of the tool.
    for _ in 0..100 {
        story.after(10).notice();
        story.after(5).text();
    }
    assert_eq!(story.next_timeout(), ("tool_timeout", 300));
}

#[test]
fn with_several_tools_the_oldest_counts() {
    let mut story = WatchdogScenario::new();
    story.started().tool("a").after(100).tool("b");
    assert_eq!(story.next_timeout(), ("tool_timeout", 1700));
    story.result("a");
    assert_eq!(story.next_timeout(), ("tool_timeout", 1800));
    assert_eq!(story.watchdog.state().to_string(), "running Bash");
    story.result("b");
    assert_eq!(story.next_timeout(), ("post_tool_quiet_timeout", 90));
}

#[test]
fn silence_counts_from_the_last_sign_of_life_and_retrying_from_the_first_retry() {
    let mut story = WatchdogScenario::new();
    story.started().after(100).notice();
    assert_eq!(story.next_timeout(), ("inter_event_silence_timeout", 120));
    story.watchdog.on_activity(Activity::Retrying, story.now);
    story.after(60).notice();
    story.watchdog.on_activity(Activity::Retrying, story.now);
    assert_eq!(story.next_timeout(), ("retry_timeout", 120));
    story.text();
    assert_eq!(story.next_timeout(), ("inter_event_silence_timeout", 120));
}

#[test]
fn the_cap_stands_still_while_somebody_else_is_awaited() {
    let mut story = WatchdogScenario::new();
    story.started().after(7000).text();
    assert_eq!(story.next_timeout(), ("inter_event_silence_timeout", 120));
    story.after(100).text();
    assert_eq!(story.next_timeout(), ("timeout", 100));

    story.request_approval();
    assert_eq!(story.next_timeout(), ("approval_timeout", 86_400));
    story.after(50_000).decide_approval();
    assert_eq!(story.next_timeout(), ("timeout", 100));
}

#[test]
fn a_tool_does_not_run_while_its_approval_is_awaited() {
    let mut story = WatchdogScenario::new();
    story.started().tool("a").after(10).request_approval();
    story.after(5000).decide_approval();
    assert_eq!(story.next_timeout(), ("tool_timeout", 1790));
}

#[test]
fn the_oldest_approval_counts_and_the_callers_tool_comes_after() {
    let mut story = WatchdogScenario::new();
    story.started().request_approval();
    story.after(10);
    assert_eq!(story.next_timeout(), ("approval_timeout", 86_390));
    // The first approval was decided, and a second one is requested now.
    story.request_approval();
    assert_eq!(story.next_timeout(), ("approval_timeout", 86_400));
    story.watchdog.on_activity(Activity::AwaitingToolResult, story.now);
    assert_eq!(story.watchdog.state(), &WatchdogState::AwaitingApproval);
    story.decide_approval();
    assert_eq!(story.next_timeout(), ("caller_tool_timeout", 600));
    story.after(5).text();
    assert_eq!(story.next_timeout(), ("caller_tool_timeout", 595));
    story.watchdog.on_tool_result(story.now);
    assert_eq!(story.watchdog.state(), &WatchdogState::WaitingForModel);
}

#[test]
fn what_rang_is_said_with_state_and_clock() {
    let mut story = WatchdogScenario::new();
    story.started().tool("a");
    let (_, rang) = story.watchdog.next_timeout();
    assert_eq!(rang.to_string(), "running Bash for longer than tool_timeout (1800 s)");
}

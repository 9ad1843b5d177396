//! One test per state, and the cases in which a watchdog typically stops the wrong turn.

use super::*;
use crate::model::{Level, Notice, Started, TextChannel, ToolCall, ToolClass, ToolResult};

const SECOND: Duration = Duration::from_secs(1);

struct Story {
    dog: Watchdog,
    now: Instant,
}

impl Story {
    fn new() -> Self {
        let now = Instant::now();
        Self { dog: Watchdog::new(Clocks::default(), now), now }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += SECOND * u32::try_from(seconds).unwrap();
        self
    }

    fn event(&mut self, kind: &EventKind) -> &mut Self {
        self.dog.event(kind, self.now);
        self
    }

    fn started(&mut self) -> &mut Self {
        self.event(&EventKind::Started(Started {
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
        self.event(&EventKind::ToolResult(ToolResult {
            id: ToolId::new(id),
            ok: true,
            output: "".into(),
        }))
    }

    fn notice(&mut self) -> &mut Self {
        self.event(&EventKind::Notice(Notice::new(Level::Info, "retrying", "again")))
    }

    fn asked(&mut self) -> &mut Self {
        self.dog.approvals(Some(self.now), self.now);
        self
    }

    fn answered(&mut self) -> &mut Self {
        self.dog.approvals(None, self.now);
        self
    }

    /// The setting of the next timeout, and the seconds until it expires.
    fn next(&self) -> (&'static str, u64) {
        let (at, rang) = self.dog.next();
        (rang.clock, at.duration_since(self.now).as_secs())
    }
}

#[test]
fn attempts_that_are_cut_off_are_one_retrying() {
    let mut story = Story::new();
    story.started();
    let retry = |story: &mut Story| story.dog.activity(Activity::Retrying, story.now);
    let block = |story: &mut Story, text: &str| {
        let (block, channel) = (0, TextChannel::Answer);
        story.event(&EventKind::Block { block, channel, text: text.into() });
    };
    retry(&mut story);
    for attempt in 1..4 {
        story.after(10).text();
        block(&mut story, "");
        retry(&mut story);
        assert_eq!(story.next(), ("retry_timeout", 180 - 10 * attempt));
    }
    // A complete block can be withdrawn as well.
    block(&mut story, "a thought");
    block(&mut story, "");
    retry(&mut story);
    assert_eq!(story.next(), ("retry_timeout", 150));
    // A block that stays is progress, so the next retry starts a new timeout.
    story.after(10).text();
    block(&mut story, "an answer");
    retry(&mut story);
    assert_eq!(story.next(), ("retry_timeout", 180));
}

#[test]
fn every_state_has_its_own_clock() {
    let mut story = Story::new();
    assert_eq!(story.next(), ("first_event_timeout", 60));
    assert_eq!(story.after(5).started().next(), ("inter_event_silence_timeout", 120));
    assert_eq!(story.after(5).text().next(), ("inter_event_silence_timeout", 120));
    assert_eq!(story.after(5).tool("a").next(), ("tool_timeout", 1800));
    assert_eq!(story.after(5).result("a").next(), ("post_tool_quiet_timeout", 90));
    story.dog.activity(Activity::Retrying, story.now);
    assert_eq!(story.next(), ("retry_timeout", 180));
    story.dog.activity(Activity::Compacting, story.now);
    assert_eq!(story.next(), ("compaction_timeout", 600));
    story.dog.activity(Activity::Background, story.now);
    assert_eq!(story.next(), ("background_grace", 900));
    assert_eq!(story.dog.state().to_string(), "background work");
}

#[test]
fn a_tool_that_runs_long_is_left_alone_until_its_own_clock() {
    let mut story = Story::new();
    story.started().tool("a");
    // Notices and text do not change the timeout of the tool.
    for _ in 0..100 {
        story.after(10).notice();
        story.after(5).text();
    }
    assert_eq!(story.next(), ("tool_timeout", 300));
}

#[test]
fn with_several_tools_the_oldest_counts() {
    let mut story = Story::new();
    story.started().tool("a").after(100).tool("b");
    assert_eq!(story.next(), ("tool_timeout", 1700));
    story.result("a");
    assert_eq!(story.next(), ("tool_timeout", 1800));
    assert_eq!(story.dog.state().to_string(), "running Bash");
    story.result("b");
    assert_eq!(story.next(), ("post_tool_quiet_timeout", 90));
}

#[test]
fn silence_counts_from_the_last_sign_of_life_and_retrying_from_the_first_retry() {
    let mut story = Story::new();
    story.started().after(100).notice();
    assert_eq!(story.next(), ("inter_event_silence_timeout", 120));
    story.dog.activity(Activity::Retrying, story.now);
    story.after(60).notice();
    story.dog.activity(Activity::Retrying, story.now);
    assert_eq!(story.next(), ("retry_timeout", 120));
    story.text();
    assert_eq!(story.next(), ("inter_event_silence_timeout", 120));
}

#[test]
fn the_cap_stands_still_while_somebody_else_is_awaited() {
    let mut story = Story::new();
    story.started().after(7000).text();
    assert_eq!(story.next(), ("inter_event_silence_timeout", 120));
    story.after(100).text();
    assert_eq!(story.next(), ("timeout", 100));

    story.asked();
    assert_eq!(story.next(), ("approval_timeout", 86_400));
    story.after(50_000).answered();
    assert_eq!(story.next(), ("timeout", 100));
}

#[test]
fn a_tool_does_not_run_while_its_approval_is_awaited() {
    let mut story = Story::new();
    story.started().tool("a").after(10).asked();
    story.after(5000).answered();
    assert_eq!(story.next(), ("tool_timeout", 1790));
}

#[test]
fn the_oldest_approval_counts_and_the_callers_tool_comes_after() {
    let mut story = Story::new();
    story.started().asked();
    story.after(10);
    assert_eq!(story.next(), ("approval_timeout", 86_390));
    // The first approval was decided, and a second one is requested now.
    story.asked();
    assert_eq!(story.next(), ("approval_timeout", 86_400));
    story.dog.activity(Activity::AwaitingToolResult, story.now);
    assert_eq!(story.dog.state(), &State::AwaitingApproval);
    story.answered();
    assert_eq!(story.next(), ("caller_tool_timeout", 600));
    story.after(5).text();
    assert_eq!(story.next(), ("caller_tool_timeout", 595));
    story.dog.tool_result_given(story.now);
    assert_eq!(story.dog.state(), &State::WaitingForModel);
}

#[test]
fn what_rang_is_said_with_state_and_clock() {
    let mut story = Story::new();
    story.started().tool("a");
    let (_, rang) = story.dog.next();
    assert_eq!(rang.to_string(), "running Bash for longer than tool_timeout (1800 s)");
}

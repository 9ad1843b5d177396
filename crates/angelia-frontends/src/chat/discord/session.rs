//! The protocol of one gateway connection: hello, identify or resume, heartbeats, and the end. Pure: it takes
//! frames and the time, and returns what to do.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

/// The time limit for the gateway's hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(15);

/// The time limit for the start of the session, or for the next missed event.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// After this many failed attempts to resume a session, a new one is started.
const MAX_FAILED_RESUMES: u32 = 3;

/// Where a session resumes after an interruption. This is the platform's cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResumePoint {
    #[serde(rename = "session")]
    pub(super) session_id: Arc<str>,
    pub(super) seq: u64,
    pub(super) url: Arc<str>,
}

impl ResumePoint {
    pub(super) fn parse(cursor: &str) -> Option<Self> {
        serde_json::from_str(cursor).ok()
    }

    pub(super) fn to_cursor(&self) -> Arc<str> {
        serde_json::to_string(self).unwrap_or_default().into()
    }
}

/// How a connection begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionStart {
    Identify,
    Resume(ResumePoint),
}

impl SessionStart {
    /// Resumes at `point` if there is one, unless resuming has failed too often.
    pub(super) fn choose(point: Option<ResumePoint>, resumes: ResumeRecord) -> Self {
        match point {
            Some(point) if resumes.failed < MAX_FAILED_RESUMES => Self::Resume(point),
            _ => Self::Identify,
        }
    }
}

/// How often resuming has failed recently. Outlives connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResumeRecord {
    failed: u32,
}

impl ResumeRecord {
    pub(super) const fn note_failure(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Records that the session is gone, so that the next connection identifies.
    pub(super) const fn give_up(&mut self) {
        self.failed = MAX_FAILED_RESUMES;
    }

    pub(super) const fn note_success(&mut self) {
        self.failed = 0;
    }
}

/// A frame from the gateway.
#[derive(Debug, Deserialize)]
pub(super) struct GatewayFrame {
    op: u8,
    #[serde(default)]
    d: Value,
    s: Option<u64>,
    t: Option<String>,
}

/// What the connection must do.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    Identify,
    Resume(ResumePoint),
    /// Send a heartbeat with the number of the last event.
    Heartbeat(Option<u64>),
    /// The session has started or resumed.
    Live,
    Dispatch {
        name: String,
        data: Value,
    },
    Leave(Ending),
}

/// How a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The session resumes in another connection; immediately if this one was live.
    Resume(String),
    /// The session is gone.
    Identify(String),
    /// The session resumes in another connection after a pause.
    Lost(String),
    /// Only the owner can fix this.
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    AwaitsHello,
    AwaitsReady,
    Live,
}

#[derive(Clone, Copy, Debug)]
struct Heartbeat {
    interval: Duration,
    next_at: Instant,
    is_answered: bool,
}

/// One connection to the gateway.
#[derive(Debug)]
pub(super) struct GatewaySession {
    start: SessionStart,
    phase: Phase,
    /// When the current phase must be over. Unused once the session is live.
    deadline: Instant,
    heartbeat: Option<Heartbeat>,
    seq: Option<u64>,
    /// The id of the session, and the address for resuming it.
    known: Option<(Arc<str>, Arc<str>)>,
}

impl GatewaySession {
    pub(super) fn new(start: SessionStart, now: Instant) -> Self {
        let (seq, known) = match &start {
            SessionStart::Identify => (None, None),
            SessionStart::Resume(point) => {
                let known = (Arc::clone(&point.session_id), Arc::clone(&point.url));
                (Some(point.seq), Some(known))
            }
        };
        let (phase, deadline) = (Phase::AwaitsHello, now + HELLO_DEADLINE);
        Self { start, phase, deadline, heartbeat: None, seq, known }
    }

    pub(super) fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    pub(super) const fn is_resume(&self) -> bool {
        matches!(self.start, SessionStart::Resume(_))
    }

    /// Returns where the session would resume, once that is known.
    pub(super) fn resume_point(&self) -> Option<ResumePoint> {
        let (session_id, url) = self.known.clone()?;
        Some(ResumePoint { session_id, seq: self.seq?, url })
    }

    /// Returns when to call [`GatewaySession::on_time`] next.
    pub(super) fn wake_at(&self) -> Instant {
        let beat = self.heartbeat.map(|beat| beat.next_at);
        match (self.phase, beat) {
            (Phase::Live, Some(beat)) => beat,
            (_, Some(beat)) => beat.min(self.deadline),
            (_, None) => self.deadline,
        }
    }

    /// Handles a frame. `chance`, a random number between 0 and 1, spreads the first heartbeats of many
    /// connections.
    pub(super) fn on_frame(
        &mut self,
        frame: GatewayFrame,
        now: Instant,
        chance: f64,
    ) -> Vec<Reaction> {
        match frame.op {
            0 => self.on_dispatch(frame, now),
            1 => vec![Reaction::Heartbeat(self.seq)],
            7 => leave(Ending::Resume("Discord asks for another connection".to_owned())),
            9 if frame.d == Value::Bool(true) => {
                leave(Ending::Resume("Discord interrupted the session".to_owned()))
            }
            9 => leave(Ending::Identify("Discord has ended the session".to_owned())),
            10 if self.phase == Phase::AwaitsHello => self.on_hello(&frame.d, now, chance),
            11 => {
                if let Some(beat) = &mut self.heartbeat {
                    beat.is_answered = true;
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn on_time(&mut self, now: Instant) -> Vec<Reaction> {
        if self.phase != Phase::Live && now >= self.deadline {
            let what = match self.phase {
                Phase::AwaitsHello => "Discord did not say hello in time",
                _ => "Discord did not begin the session in time",
            };
            return leave(Ending::Lost(what.to_owned()));
        }
        let Some(beat) = &mut self.heartbeat else { return Vec::new() };
        if now < beat.next_at {
            return Vec::new();
        }
        if !beat.is_answered {
            return leave(Ending::Resume("Discord did not answer a heartbeat".to_owned()));
        }
        beat.is_answered = false;
        beat.next_at = now + beat.interval;
        vec![Reaction::Heartbeat(self.seq)]
    }

    fn on_hello(&mut self, data: &Value, now: Instant, chance: f64) -> Vec<Reaction> {
        let interval = data["heartbeat_interval"].as_u64().filter(|interval| *interval > 0);
        let Some(interval) = interval.map(Duration::from_millis) else {
            return leave(Ending::Lost("Discord's hello has no interval".to_owned()));
        };
        let next_at = now + interval.mul_f64(chance.clamp(0.0, 1.0));
        self.heartbeat = Some(Heartbeat { interval, next_at, is_answered: true });
        self.phase = Phase::AwaitsReady;
        self.deadline = now + READY_DEADLINE;
        match &self.start {
            SessionStart::Identify => vec![Reaction::Identify],
            SessionStart::Resume(point) => vec![Reaction::Resume(point.clone())],
        }
    }

    fn on_dispatch(&mut self, frame: GatewayFrame, now: Instant) -> Vec<Reaction> {
        let GatewayFrame { d: data, s, t, .. } = frame;
        self.seq = self.seq.max(s);
        // When a session resumes, the missed events arrive first, so each one extends the deadline.
        self.deadline = now + READY_DEADLINE;
        match t.as_deref() {
            Some("READY") => {
                let text = |name: &str| data[name].as_str().map(Arc::from);
                self.known = text("session_id").zip(text("resume_gateway_url"));
                // A new session restarts the numbering.
                self.seq = s;
                self.go_live()
            }
            Some("RESUMED") => self.go_live(),
            Some(_) => t.map(|name| Reaction::Dispatch { name, data }).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn go_live(&mut self) -> Vec<Reaction> {
        self.phase = Phase::Live;
        vec![Reaction::Live]
    }
}

fn leave(ending: Ending) -> Vec<Reaction> {
    vec![Reaction::Leave(ending)]
}

/// Returns the meaning of a close code of the gateway.
pub(super) fn ending_of_close(code: u16, reason: &str) -> Ending {
    const PORTAL: &str = "https://discord.com/developers/applications";
    let gap = if reason.is_empty() { "" } else { ": " };
    let said = format!("{code}{gap}{reason}");
    match code {
        4004 => Ending::Refused(format!(
            "Discord does not accept the token ({said}); reset it at {PORTAL}, page Bot"
        )),
        4010 | 4011 => Ending::Refused(format!(
            "the bot is in too many servers for one connection ({said}); use a bot of your own"
        )),
        4012 => Ending::Refused(format!(
            "Discord no longer speaks version 10 of the gateway ({said}); update angelia"
        )),
        4013 => Ending::Refused(format!(
            "Discord does not know the intents that were asked for ({said}); update angelia"
        )),
        4014 => Ending::Refused(format!(
            "the bot may not read messages ({said}); enable \"Message Content Intent\" at {PORTAL}, page Bot"
        )),
        4003 | 4007 | 4009 => Ending::Identify(format!("Discord has ended the session ({said})")),
        _ => Ending::Lost(format!("Discord closed the connection ({said})")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(40);

    fn frame(value: Value) -> GatewayFrame {
        serde_json::from_value(value).unwrap()
    }

    fn point(seq: u64) -> ResumePoint {
        ResumePoint { session_id: "s1".into(), seq, url: "wss://resume".into() }
    }

    fn hello() -> GatewayFrame {
        frame(json!({"op": 10, "d": {"heartbeat_interval": 40_000}}))
    }

    fn ready() -> GatewayFrame {
        frame(json!({"op": 0, "s": 1, "t": "READY", "d": {
            "session_id": "s1", "resume_gateway_url": "wss://resume", "user": {"id": "9"},
        }}))
    }

    fn live(now: Instant) -> GatewaySession {
        let mut session = GatewaySession::new(SessionStart::Identify, now);
        assert_eq!(session.on_frame(hello(), now, 0.5), [Reaction::Identify]);
        assert_eq!(session.on_frame(ready(), now, 0.0), [Reaction::Live]);
        session
    }

    #[test]
    fn a_session_begins_and_knows_where_it_goes_on() {
        let now = Instant::now();
        let mut session = live(now);
        assert!(session.is_live() && !session.is_resume());
        let event = frame(json!({"op": 0, "s": 2, "t": "MESSAGE_CREATE", "d": {"id": "5"}}));
        let wanted = Reaction::Dispatch { name: "MESSAGE_CREATE".into(), data: json!({"id": "5"}) };
        assert_eq!(session.on_frame(event, now, 0.0), [wanted]);
        let point = session.resume_point().unwrap();
        assert_eq!(point, self::point(2));
        assert_eq!(ResumePoint::parse(&point.to_cursor()), Some(point));
        assert_eq!(ResumePoint::parse("1234"), None);
    }

    #[test]
    fn a_resumed_session_gets_what_it_missed_before_it_is_live() {
        let now = Instant::now();
        let mut session = GatewaySession::new(SessionStart::Resume(point(7)), now);
        assert_eq!(session.on_frame(hello(), now, 0.0), [Reaction::Resume(point(7))]);
        let later = now + READY_DEADLINE.mul_f64(0.9);
        let missed = frame(json!({"op": 0, "s": 8, "t": "MESSAGE_CREATE", "d": {}}));
        assert!(matches!(session.on_frame(missed, later, 0.0)[..], [Reaction::Dispatch { .. }]));
        assert!(!session.is_live(), "there may be more");
        // Each event extends the deadline.
        assert_eq!(session.on_time(now), [Reaction::Heartbeat(Some(8))]);
        session.heartbeat = None;
        assert_eq!(session.on_time(now + READY_DEADLINE), []);
        let resumed = frame(json!({"op": 0, "s": 9, "t": "RESUMED", "d": {}}));
        assert_eq!(session.on_frame(resumed, later, 0.0), [Reaction::Live]);
        assert_eq!(session.resume_point(), Some(point(9)));
    }

    #[test]
    fn heartbeats_come_in_time_and_want_an_answer() {
        let now = Instant::now();
        let mut session = live(now);
        assert_eq!(session.wake_at(), now + INTERVAL / 2, "the first one comes after a part");
        assert_eq!(session.on_time(now), []);
        let first = now + INTERVAL / 2;
        assert_eq!(session.on_time(first), [Reaction::Heartbeat(Some(1))]);
        session.on_frame(frame(json!({"op": 11})), first, 0.0);
        assert_eq!(session.on_time(first + INTERVAL), [Reaction::Heartbeat(Some(1))]);
        // The gateway may ask for a heartbeat at any time.
        let asked = session.on_frame(frame(json!({"op": 1, "d": null})), first, 0.0);
        assert_eq!(asked, [Reaction::Heartbeat(Some(1))]);
        let silent = session.on_time(first + INTERVAL * 2);
        assert!(matches!(&silent[..], [Reaction::Leave(Ending::Resume(_))]), "{silent:?}");
    }

    #[test]
    fn hello_and_ready_have_deadlines() {
        let now = Instant::now();
        let mut session = GatewaySession::new(SessionStart::Identify, now);
        assert_eq!(session.wake_at(), now + HELLO_DEADLINE);
        assert!(matches!(
            &session.on_time(now + HELLO_DEADLINE)[..],
            [Reaction::Leave(Ending::Lost(why))] if why.contains("hello")
        ));
        session.on_frame(hello(), now, 1.0);
        assert_eq!(session.wake_at(), now + READY_DEADLINE);
        assert!(matches!(
            &session.on_time(now + READY_DEADLINE)[..],
            [Reaction::Leave(Ending::Lost(why))] if why.contains("session")
        ));
    }

    #[test]
    fn the_gateway_can_end_a_connection_or_the_session() {
        let now = Instant::now();
        let table = [
            (json!({"op": 7}), true),
            (json!({"op": 9, "d": true}), true),
            (json!({"op": 9, "d": false}), false),
        ];
        for (value, keeps) in table {
            let reactions = live(now).on_frame(frame(value.clone()), now, 0.0);
            let [Reaction::Leave(ending)] = &reactions[..] else { panic!("{reactions:?}") };
            assert_eq!(matches!(ending, Ending::Resume(_)), keeps, "{value}");
            assert_eq!(matches!(ending, Ending::Identify(_)), !keeps, "{value}");
        }
    }

    #[test]
    fn close_codes_say_what_to_do() {
        for code in [4004, 4010, 4011, 4012, 4013, 4014] {
            assert!(matches!(ending_of_close(code, ""), Ending::Refused(_)), "{code}");
        }
        for code in [4007, 4009] {
            assert!(matches!(ending_of_close(code, ""), Ending::Identify(_)), "{code}");
        }
        for code in [1000, 1001, 1006, 4000, 4001, 4002, 4005, 4008] {
            assert!(matches!(ending_of_close(code, ""), Ending::Lost(_)), "{code}");
        }
        let Ending::Refused(why) = ending_of_close(4014, "Disallowed intent(s).") else { panic!() };
        assert!(why.contains("Message Content Intent") && why.contains("4014: Disallowed"));
    }

    #[test]
    fn a_session_that_cannot_be_resumed_is_given_up() {
        let mut record = ResumeRecord::default();
        for _ in 0..MAX_FAILED_RESUMES {
            let start = SessionStart::choose(Some(point(1)), record);
            assert_eq!(start, SessionStart::Resume(point(1)));
            record.note_failure();
        }
        assert_eq!(SessionStart::choose(Some(point(1)), record), SessionStart::Identify);
        record.note_success();
        assert_ne!(SessionStart::choose(Some(point(1)), record), SessionStart::Identify);
        record.give_up();
        assert_eq!(SessionStart::choose(Some(point(1)), record), SessionStart::Identify);
        assert_eq!(SessionStart::choose(None, ResumeRecord::default()), SessionStart::Identify);
    }

    proptest! {
        #[test]
        fn no_order_of_frames_breaks_a_session(
            frames in prop::collection::vec((0_u8..13, prop::option::of(0_u64..9), 0_usize..6), 0..30),
        ) {
            let now = Instant::now();
            let mut session = GatewaySession::new(SessionStart::Identify, now);
            let names = [json!(null), json!("READY"), json!("RESUMED"), json!("X")];
            let bodies = [json!(null), json!(true), json!({"heartbeat_interval": 5}), json!([]), json!({
                "session_id": "a", "resume_gateway_url": "b",
            }), json!(7)];
            for (index, (op, seq, body)) in frames.iter().enumerate() {
                let name = &names[index % names.len()];
                let value = json!({"op": op, "s": seq, "t": name, "d": bodies[*body]});
                let at = now + Duration::from_millis(index as u64 * 3);
                session.on_frame(frame(value), at, 0.3);
                session.on_time(at);
                prop_assert!(session.wake_at() >= now);
            }
        }
    }
}

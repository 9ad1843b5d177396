//! The events of a turn, and the invariants that every turn must keep.

use serde_json::Value;

/// The events of one turn, in order.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    pub(crate) events: Vec<Value>,
}

impl Transcript {
    /// Parses the output of `run --json`: events without a gap in their numbers, and one end.
    #[track_caller]
    pub(crate) fn read(stdout: &str) -> Self {
        let parse = |line: &str| match serde_json::from_str(line) {
            Ok(event) => event,
            Err(error) => panic!("not an event: {error}: {line:?}"),
        };
        let transcript = Self { events: stdout.lines().map(parse).collect() };
        let numbers: Vec<u64> =
            transcript.events.iter().filter_map(|e| e["seq"].as_u64()).collect();
        let wanted: Vec<u64> = (1..=transcript.events.len() as u64).collect();
        assert_eq!(numbers, wanted, "{transcript:#?}");
        transcript.ends_once();
        transcript
    }

    /// Parses the output of `sessions export`, turn by turn.
    pub(crate) fn read_export(stdout: &str) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for line in stdout.lines().skip(1) {
            let object: Value = serde_json::from_str(line).unwrap();
            if object.get("seq").is_none() {
                turns.push(Self { events: Vec::new() });
            } else {
                turns.last_mut().unwrap().events.push(object);
            }
        }
        turns
    }

    /// Asserts that there is exactly one end, and nothing after it.
    #[track_caller]
    pub(crate) fn ends_once(&self) {
        let ends = self.events.iter().filter(|event| event["type"] == "turn.finished").count();
        assert_eq!(ends, 1, "{self:#?}");
        assert_eq!(self.events.last().unwrap()["type"], "turn.finished", "{self:#?}");
    }

    pub(crate) fn end(&self) -> &Value {
        self.events.last().unwrap()
    }

    pub(crate) fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    pub(crate) fn first(&self, kind: &str) -> &Value {
        match self.of_type(kind).first() {
            Some(event) => event,
            None => panic!("no {kind} in {self:#?}"),
        }
    }

    pub(crate) fn turn(&self) -> &str {
        self.end()["turn_id"].as_str().unwrap()
    }

    pub(crate) fn session(&self) -> &str {
        self.end()["session_id"].as_str().unwrap()
    }

    /// Returns the answer.
    pub(crate) fn text(&self) -> &str {
        self.end()["text"].as_str().unwrap()
    }

    #[track_caller]
    pub(crate) fn completed(&self) -> &Self {
        assert_eq!(self.end()["status"], "completed", "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn failed(&self, kind: &str) -> &Value {
        let failure = &self.end()["failure"];
        assert_eq!(failure["kind"], kind, "{self:#?}");
        failure
    }

    /// Returns the events without the values that differ from run to run.
    pub(crate) fn shape(&self) -> Vec<Value> {
        let mut events = self.events.clone();
        for event in &mut events {
            for (name, value) in event.as_object_mut().unwrap() {
                if name.ends_with("_id") || name == "time" {
                    *value = format!("[{name}]").into();
                }
            }
            hide_prefix(event);
            hide_prefix(&mut event["usage"]);
        }
        events
    }
}

fn hide_prefix(usage: &mut Value) {
    if let Some(prefix) = usage.get_mut("prefix_sha256").filter(|prefix| prefix.is_string()) {
        *prefix = "[sha256]".into();
    }
}

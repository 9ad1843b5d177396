//! The directives in a prompt that script the model's answer.
//!
//! | directive | the model |
//! |---|---|
//! | `ECHO:text` | answers with everything after the colon |
//! | `WORDS:n` `WORDS:n:ms` | answers n words, one delta each, with ms between them |
//! | `BIG:n` | answers with n bytes of text |
//! | `TOOL:{"name":…,"input":…}:END` | calls the tool (an array: several in one message), then answers |
//! | `TOOL:{"any_of":[…]}:END` | calls the first of these tools that the request offers, then answers |
//! | `ROUNDS:n` | calls a tool n times in a row, then answers; without `TOOL`, a harmless shell command |
//! | `THINK` | thinks before it answers or calls |
//! | `SLOW:ms` | waits before the first byte |
//! | `STATUS:nnn` `STATUS:nnn:times` | fails with that status (with `ECHO:` as the message) |
//! | `LIMIT` `LIMIT:epoch` | refuses because of the subscription's limit until then, and answers after that |
//! | `LIMIT_WARNING` | answers, with the headers of a nearly used subscription |
//! | `HANG_HEADERS` `HANG_BODY` | stops answering before or after the response's head |
//! | `CUT` `CUT:times` | resets the connection after the first delta |
//! | `CUT_CALL` `CUT_CALL:times` | resets the connection inside a tool call |
//! | `MALFORMED` `ERROR_EVENT` `ERROR_AFTER_TEXT` `HTML` `EMPTY` `NO_STOP` | breaks the stream in that way |
//! | `KEEP_ALIVES` | sends nothing but keep-alives |
//! | `OVERFLOW:n` `OVERFLOW:n:times` | finds the conversation longer than its window of n tokens |
//! | `QUOTA` | has no balance left |
//! | `REFUSE` `MAXTOK` | ends the message for that reason |
//!
//! Directives combine: tools are called first, and the other directives determine how the turn
//! continues. `times` limits a failure to that many requests with exactly this prompt; later
//! requests get the normal answer.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{
    DEFAULT_TEXT,
    fault::{ApiError, Fault},
    reply::{Reply, ReplyBlock, ReplyStop},
};

/// Returns the directive that makes the model call one tool.
pub fn tool_call_directive(name: &str, input: &Value) -> String {
    format!("TOOL:{}:END", json!({"name": name, "input": input}))
}

/// Returns the directive that makes the model call the first of these tools that it is offered.
pub fn any_tool_call_directive(tools: &[(&str, Value)]) -> String {
    let tools = tools.iter().map(|(name, input)| json!({"name": name, "input": input}));
    format!("TOOL:{}:END", json!({"any_of": tools.collect::<Vec<_>>()}))
}

/// When a limit resets if the prompt does not say: far enough ahead for any test.
pub const DEFAULT_LIMIT_RESET: u64 = 4_000_000_000;

/// Returns the current time in Unix seconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The directives found in one prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directives {
    calls: Vec<ScriptedCall>,
    rounds: Option<usize>,
    think: bool,
    answer: AnswerSpec,
    pause: Duration,
    wait: Duration,
    stop: Option<ReplyStop>,
    limit_warning: bool,
    failure: Option<(ScriptedFailure, Option<usize>)>,
    /// A directive that could not be parsed. The model's answer names it, so that the test fails
    /// visibly.
    unreadable: Option<String>,
}

/// A tool call, given as a list of alternatives. Never empty.
#[derive(Clone, Debug, PartialEq)]
struct ScriptedCall(Vec<(String, Value)>);

impl ScriptedCall {
    fn parse(mut call: Value) -> Self {
        let alternatives = match call["any_of"].take() {
            Value::Array(alternatives) if !alternatives.is_empty() => alternatives,
            _ => vec![call],
        };
        let alternatives = alternatives.into_iter().map(|mut call| {
            let name = call["name"].as_str().unwrap_or("Bash").to_owned();
            (name, call["input"].take())
        });
        Self(alternatives.collect())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
enum AnswerSpec {
    #[default]
    Default,
    Echo(String),
    Words(usize),
    Big(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ScriptedFailure {
    Status(u16),
    Limit(u64),
    Error(ApiError),
    Fault(Fault),
}

impl Directives {
    /// Parses a prompt. Returns `None` if it contains no directive at all.
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = Self::default();
        let rest = found.take_calls(text);
        let (rest, echo) = match rest.split_once("ECHO:") {
            Some((before, echo)) => (before, Some(echo)),
            None => (rest.as_str(), None),
        };
        if let Some(echo) = echo {
            found.answer = AnswerSpec::Echo(echo.to_owned());
        }
        for word in rest.split_whitespace() {
            if found.take_word(word).is_none() {
                found.unreadable.get_or_insert_with(|| word.to_owned());
            }
        }
        (found != Self::default()).then_some(found)
    }

    /// Selects, for each call with alternatives, the first tool that the request offers, or the
    /// first alternative if the request offers none of them.
    pub(super) fn choose_tools(&mut self, offered: impl FnOnce() -> Vec<String>) {
        if self.calls.iter().all(|call| call.0.len() == 1) {
            return;
        }
        let offered = offered();
        for ScriptedCall(alternatives) in &mut self.calls {
            let chosen = alternatives.iter().position(|(name, _)| offered.contains(name));
            alternatives.swap(0, chosen.unwrap_or_default());
        }
    }

    /// Returns the answer after `rounds` rounds of tool results, if this prompt has already failed
    /// `failed` times.
    pub fn reply(&self, rounds: usize, tool_failed: bool, failed: usize) -> Reply {
        if let Some(word) = &self.unreadable {
            return Reply::text(format!("The scripted model cannot read the directive {word}"));
        }
        let wanted = self.rounds.unwrap_or(usize::from(!self.calls.is_empty()));
        let reply = if rounds < wanted {
            self.call(rounds)
        } else if let Some(failure) = self.failure(failed) {
            failure
        } else {
            self.answer(rounds, tool_failed)
        };
        reply.with_wait(self.wait)
    }

    /// Reports whether the answer after `rounds` rounds is a scripted failure.
    pub fn is_scripted_failure(&self, rounds: usize, failed: usize) -> bool {
        let wanted = self.rounds.unwrap_or(usize::from(!self.calls.is_empty()));
        rounds >= wanted && self.failure(failed).is_some()
    }

    fn call(&self, round: usize) -> Reply {
        let mut blocks = Vec::new();
        if self.think {
            blocks.push(ReplyBlock::Thinking("Let me think.".into()));
        }
        blocks.push(ReplyBlock::Text("I will call a tool.".into()));
        if self.calls.is_empty() {
            let input = json!({
                "command": format!("echo round-{round}"),
                "description": format!("round {round}"),
            });
            blocks.push(ReplyBlock::Tool { name: "Bash".into(), input });
        }
        for (name, input) in self.calls.iter().filter_map(|call| call.0.first()) {
            blocks.push(ReplyBlock::Tool { name: name.clone(), input: input.clone() });
        }
        Reply::message(blocks).with_pause(self.pause)
    }

    fn failure(&self, failed: usize) -> Option<Reply> {
        let (failure, times) = self.failure?;
        if times.is_some_and(|times| failed >= times) {
            return None;
        }
        Some(match (failure, &self.answer) {
            (ScriptedFailure::Status(code), AnswerSpec::Echo(message)) => {
                Reply::status_with(code, message)
            }
            (ScriptedFailure::Status(code), _) => Reply::status(code),
            (ScriptedFailure::Limit(reset), _) => {
                return (reset > now()).then(|| Reply::subscription_limit(reset));
            }
            (ScriptedFailure::Error(error), _) => Reply::error(error),
            (ScriptedFailure::Fault(fault), _) => Reply::fault(fault),
        })
    }

    fn answer(&self, rounds: usize, tool_failed: bool) -> Reply {
        let mut blocks = Vec::new();
        if self.think && rounds == 0 {
            blocks.push(ReplyBlock::Thinking("Let me think.".into()));
        }
        blocks.push(match &self.answer {
            AnswerSpec::Echo(text) => ReplyBlock::Text(text.clone()),
            AnswerSpec::Words(count) => ReplyBlock::Words(*count),
            AnswerSpec::Big(bytes) => {
                ReplyBlock::Text("0123456789abcde ".repeat(bytes.div_ceil(16)))
            }
            AnswerSpec::Default if rounds > 0 => {
                ReplyBlock::Text(format!("Tool finished; is_error={tool_failed}."))
            }
            AnswerSpec::Default => ReplyBlock::Text(DEFAULT_TEXT.into()),
        });
        let reply = Reply::message(blocks)
            .with_pause(self.pause)
            .with_stop(self.stop.unwrap_or(ReplyStop::Natural));
        if self.limit_warning { reply.with_limit_warning(DEFAULT_LIMIT_RESET) } else { reply }
    }

    /// Removes every `TOOL:…:END` from the text and returns the rest.
    fn take_calls(&mut self, text: &str) -> String {
        let mut rest = text.to_owned();
        while let Some(start) = rest.find("TOOL:") {
            // Parse the JSON instead of searching for the next `:END`: the tool's input may itself
            // contain a prompt with a `TOOL:` directive.
            let json = start + "TOOL:".len();
            let mut values = serde_json::Deserializer::from_str(&rest[json..]).into_iter();
            let call = values.next();
            let end = json + values.byte_offset();
            let calls = match call {
                Some(Ok(Value::Array(calls))) => calls,
                Some(Ok(call @ Value::Object(_))) => vec![call],
                _ => {
                    self.unreadable = Some(rest.split_off(start));
                    break;
                }
            };
            if !rest[end..].starts_with(":END") {
                self.unreadable = Some(rest.split_off(start));
                break;
            }
            rest.replace_range(start..end + ":END".len(), " ");
            self.calls.extend(calls.into_iter().map(ScriptedCall::parse));
        }
        rest
    }

    /// Applies a word of the prompt. Returns `None` for a directive whose numbers cannot be parsed.
    fn take_word(&mut self, word: &str) -> Option<()> {
        let (name, numbers) = word.split_once(':').unwrap_or((word, ""));
        let mut numbers = numbers.split(':').filter(|number| !number.is_empty());
        match name {
            "WORDS" => {
                self.answer = AnswerSpec::Words(numbers.next()?.parse().ok()?);
                if let Some(pause) = numbers.next() {
                    // An explicit pause of 0 still means one write per delta. A pause of zero would
                    // send everything in one write, so use the shortest pause there is.
                    let pause = pause.parse().map(Duration::from_millis).ok()?;
                    self.pause = pause.max(Duration::from_nanos(1));
                }
            }
            "BIG" => self.answer = AnswerSpec::Big(numbers.next()?.parse().ok()?),
            "ROUNDS" => self.rounds = Some(numbers.next()?.parse().ok()?),
            "SLOW" => self.wait = Duration::from_millis(numbers.next()?.parse().ok()?),
            "THINK" => self.think = true,
            "REFUSE" => self.stop = Some(ReplyStop::Refusal),
            "MAXTOK" => self.stop = Some(ReplyStop::MaxTokens),
            "LIMIT_WARNING" => self.limit_warning = true,
            "STATUS" => {
                let code = numbers.next()?.parse().ok()?;
                self.fail(ScriptedFailure::Status(code), numbers.next())?;
            }
            "LIMIT" => {
                let reset = numbers.next().map_or(Ok(DEFAULT_LIMIT_RESET), str::parse).ok()?;
                self.fail(ScriptedFailure::Limit(reset), None)?;
            }
            "OVERFLOW" => {
                let window = numbers.next()?.parse().ok()?;
                let overflow = ScriptedFailure::Error(ApiError::Overflow { window });
                self.fail(overflow, numbers.next())?;
            }
            "QUOTA" => {
                self.fail(ScriptedFailure::Error(ApiError::InsufficientQuota), numbers.next())?;
            }
            _ => {
                if let Some(fault) = fault(name) {
                    self.fail(ScriptedFailure::Fault(fault), numbers.next())?;
                }
            }
        }
        Some(())
    }

    fn fail(&mut self, failure: ScriptedFailure, times: Option<&str>) -> Option<()> {
        let times = times.map(str::parse).transpose().ok()?;
        self.failure = Some((failure, times));
        Some(())
    }
}

fn fault(name: &str) -> Option<Fault> {
    Some(match name {
        "HANG_HEADERS" => Fault::HangHeaders,
        "HANG_BODY" => Fault::HangBody,
        "CUT" => Fault::ConnectionReset,
        "MALFORMED" => Fault::BadJson,
        "ERROR_EVENT" => Fault::ErrorEvent,
        "HTML" => Fault::Html,
        "EMPTY" => Fault::Empty,
        "NO_STOP" => Fault::MissingStop,
        "ERROR_AFTER_TEXT" => Fault::ErrorAfterText,
        "CUT_CALL" => Fault::CutCall,
        "KEEP_ALIVES" => Fault::KeepAlives,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_model::reply::{ReplyBody, ReplyMessage};

    fn message(text: &str, rounds: usize) -> ReplyMessage {
        let ReplyBody::Message(message) = reply(text, rounds, 0).body else {
            panic!("not a message")
        };
        message
    }

    fn reply(text: &str, rounds: usize, failed: usize) -> Reply {
        Directives::parse(text).unwrap().reply(rounds, false, failed)
    }

    fn texts(message: &ReplyMessage) -> Vec<String> {
        message.blocks.iter().map(ReplyBlock::full_text).collect()
    }

    #[test]
    fn plain_words_are_no_directive() {
        for text in ["", "hello", "please think", "CUTTING EDGE", "a:b WORDSMITH"] {
            assert_eq!(Directives::parse(text), None, "{text}");
        }
    }

    #[test]
    fn echo_takes_the_rest_as_it_is() {
        assert_eq!(texts(&message("ECHO:CUT me: STATUS:500", 0)), ["CUT me: STATUS:500"]);
    }

    #[test]
    fn words_have_a_number_and_a_pause() {
        let words = message("WORDS:2:7", 0);
        assert_eq!((texts(&words), words.pause), (vec!["w0 w1 ".into()], Duration::from_millis(7)));
        assert!(message("WORDS:2", 0).pause.is_zero());
        assert!(!message("WORDS:2:0", 0).pause.is_zero());
        assert_eq!(message("BIG:100", 0).blocks[0].full_text().len(), 112);
    }

    #[test]
    fn a_tool_is_called_once_and_then_answered() {
        let text = r#"THINK TOOL:{"name":"Read","input":{"file_path":"a"}}:END ECHO:done"#;
        let call = message(text, 0);
        assert!(call.calls_tool());
        assert_eq!(texts(&call), ["Let me think.", "I will call a tool.", r#"{"file_path":"a"}"#]);
        assert_eq!(texts(&message(text, 1)), ["done"]);
    }

    #[test]
    fn of_alternatives_the_one_that_is_offered_is_called() {
        let text = any_tool_call_directive(&[("Bash", json!({"a": 1})), ("bash", json!({"b": 2}))]);
        let called = |offered: &[&str]| {
            let mut directives = Directives::parse(&text).unwrap();
            directives.choose_tools(|| offered.iter().map(|name| (*name).to_owned()).collect());
            let ReplyBody::Message(message) = directives.reply(0, false, 0).body else {
                panic!("not a message")
            };
            texts(&message).pop().unwrap()
        };
        assert_eq!(called(&["read", "bash"]), r#"{"b":2}"#);
        assert_eq!(called(&["Bash", "bash"]), r#"{"a":1}"#);
        assert_eq!(called(&[]), r#"{"a":1}"#);
    }

    #[test]
    fn several_tools_go_into_one_message() {
        let text = r#"TOOL:[{"name":"A","input":{}},{"name":"B","input":{}}]:END"#;
        assert_eq!(message(text, 0).blocks.len(), 3);
        assert_eq!(texts(&message(text, 1)), ["Tool finished; is_error=false."]);
    }

    #[test]
    fn rounds_repeat_the_call() {
        for round in 0..3 {
            assert!(message("ROUNDS:3", round).calls_tool());
        }
        assert!(!message("ROUNDS:3", 3).calls_tool());
    }

    #[test]
    fn failures_end_after_their_number_of_times_and_wait_for_the_tools() {
        let status = |text, rounds, failed| match reply(text, rounds, failed).body {
            ReplyBody::Status { code, message } => Some((code, message)),
            _ => None,
        };
        assert_eq!(status("STATUS:529", 0, 99), Some((529, None)));
        assert_eq!(status("STATUS:500:2", 0, 1), Some((500, None)));
        assert_eq!(status("STATUS:500:2", 0, 2), None);
        assert_eq!(status("STATUS:400 ECHO:too long", 0, 0), Some((400, Some("too long".into()))));
        assert_eq!(status("ROUNDS:1 STATUS:529", 0, 0), None);
        assert_eq!(status("ROUNDS:1 STATUS:529", 1, 0), Some((529, None)));
        assert!(matches!(reply("CUT:1", 0, 0).body, ReplyBody::Fault(Fault::ConnectionReset)));
        assert!(matches!(reply("CUT:1", 0, 1).body, ReplyBody::Message(_)));
        let overflow = reply("OVERFLOW:4096:1", 0, 0).body;
        assert!(matches!(overflow, ReplyBody::Error(ApiError::Overflow { window: 4096 })));
        assert!(matches!(reply("OVERFLOW:4096:1", 0, 1).body, ReplyBody::Message(_)));
    }

    #[test]
    fn a_limit_carries_its_headers() {
        let limit = reply("LIMIT:1800000000", 0, 0);
        let reset = limit.headers.iter().find(|(name, _)| name.ends_with("unified-reset"));
        assert_eq!(reset.unwrap().1, "1800000000");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for text in ["WORDS:many", "TOOL:{", "TOOL:nonsense:END", "STATUS:x", "CUT:x"] {
            assert!(texts(&message(text, 0))[0].contains("cannot read"), "{text}");
        }
    }
}

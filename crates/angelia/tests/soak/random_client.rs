//! The random behaviour of the clients: each kind of request with its share.

use std::{collections::BTreeMap, sync::Mutex};

use angelia_testkit::plain_http::PlainResponse;
use serde_json::{Value, json};

use crate::{
    raw_client::{ApiDialect, DaemonAddress, RawRequest},
    seeded_random::SeededRandom,
};

/// The allowed statuses. The agent may have been killed (502), the turn interrupted (409), the
/// queue or the agent slots full (429); an internal error (500) is never allowed.
const ALLOWED: [u16; 5] = [200, 409, 429, 502, 503];

/// One client.
pub(crate) struct RandomClient<'a> {
    pub(crate) address: &'a DaemonAddress,
    pub(crate) rng: SeededRandom,
    pub(crate) name: usize,
    pub(crate) tally: &'a Mutex<BTreeMap<String, u64>>,
}

impl RandomClient<'_> {
    /// Sends about this many requests.
    pub(crate) fn work(&mut self, requests: usize) {
        let mut sent = 0;
        while sent < requests {
            sent += match self.rng.below(100) {
                0..35 => self.converse(),
                35..50 => self.leave(false),
                50..65 => self.leave(true),
                65..75 => self.leave_and_come_back(),
                75..82 => self.ask_twice(),
                82..92 => self.use_a_tool(),
                92..96 => self.hang_up_on_a_hanging_agent(),
                _ => self.have_it_die(),
            };
        }
    }

    fn note(&self, what: impl Into<String>) {
        let mut tally = self.tally.lock().unwrap();
        *tally.entry(what.into()).or_default() += 1;
    }

    fn check(&self, what: &str, answer: &PlainResponse) {
        self.note(format!("{what}: {}", answer.status));
        assert!(ALLOWED.contains(&answer.status), "{what}: {answer:?}");
    }

    fn prompt(&mut self) -> String {
        let number = self.rng.next() % 1_000_000;
        match self.rng.below(4) {
            0 => format!("WORDS:8:1 {number}"),
            1 => format!("THINK WORDS:3 {number}"),
            _ => format!("ECHO:answer {number}"),
        }
    }

    fn request(&mut self, conversation: &[Value], stream: bool) -> RawRequest {
        let dialect = self.rng.one_of(&ApiDialect::ALL);
        RawRequest { dialect, body: dialect.body(conversation, stream), headers: String::new() }
    }

    fn single_prompt_request(&mut self, stream: bool) -> RawRequest {
        let prompt = self.prompt();
        self.request(&[user(&prompt)], stream)
    }

    /// Runs one turn, or several with the history.
    fn converse(&mut self) -> usize {
        if self.rng.percent(50) {
            let answer = self.single_prompt_request(true).send_and_read(self.address);
            self.check("streamed", &answer);
            return 1;
        }
        let mut asked = self.single_prompt_request(false);
        let dialect = asked.dialect;
        let field = if dialect == ApiDialect::Responses { "input" } else { "messages" };
        let turns = 1 + self.rng.below(3);
        for turn in 1..=turns {
            let answer = asked.send_and_read(self.address);
            self.check("conversation", &answer);
            if answer.status != 200 {
                return turn;
            }
            let (said, _) = dialect.assistant_messages(&answer.body);
            let prompt = self.prompt();
            let told = asked.body[field].as_array_mut().unwrap();
            told.extend(said);
            told.push(user(&prompt));
        }
        turns
    }

    fn leave(&mut self, midway: bool) -> usize {
        let stream = midway || self.rng.percent(50);
        let asked = self.single_prompt_request(stream);
        if midway {
            asked.disconnect_midway(self.address);
        } else {
            let half = self.rng.percent(30);
            asked.disconnect_early(self.address, half);
        }
        self.note(if midway { "left midway" } else { "left at once" });
        1
    }

    fn leave_and_come_back(&mut self) -> usize {
        let mut asked = self.single_prompt_request(true);
        if self.rng.percent(50) {
            asked.disconnect_midway(self.address);
        } else {
            asked.disconnect_early(self.address, false);
        }
        "x-stainless-retry-count: 1\r\n".clone_into(&mut asked.headers);
        let answer = asked.send_and_read(self.address);
        self.check("came back", &answer);
        2
    }

    fn ask_twice(&mut self) -> usize {
        let stream = self.rng.percent(50);
        let mut asked = self.single_prompt_request(stream);
        let key = self.rng.next();
        asked.headers = format!("idempotency-key: {}-{key}\r\n", self.name);
        let again = asked.clone();
        if self.rng.percent(50) {
            asked.disconnect_midway(self.address);
        } else {
            let answer = asked.send_and_read(self.address);
            self.check("asked once", &answer);
        }
        let answer = again.send_and_read(self.address);
        self.check("asked twice", &answer);
        2
    }

    /// Calls a tool whose result may come at once, late, or never.
    fn use_a_tool(&mut self) -> usize {
        let number = self.rng.next() % 1_000_000;
        let call = format!(r#"TOOL:{{"name":"mcp__client__find","input":{{"n":{number}}}}}:END"#);
        let mut asked = self.request(&[user(&call)], false);
        let dialect = asked.dialect;
        asked.body["tools"] = json!([dialect.tool()]);
        let answer = asked.send_and_read(self.address);
        self.check("tool called", &answer);
        if answer.status != 200 || self.rng.percent(40) {
            self.note("result never came");
            return 1;
        }
        let (said, calls) = dialect.assistant_messages(&answer.body);
        let field = if dialect == ApiDialect::Responses { "input" } else { "messages" };
        let told = asked.body[field].as_array_mut().unwrap();
        told.extend(said);
        told.extend(calls.iter().map(|id| dialect.tool_result(id)));
        if self.rng.percent(20) {
            asked.body["stream"] = json!(true);
            asked.disconnect_midway(self.address);
            self.note("left after the result");
        } else {
            let answer = asked.send_and_read(self.address);
            self.check("result given", &answer);
        }
        2
    }

    fn hang_up_on_a_hanging_agent(&mut self) -> usize {
        let number = self.rng.next();
        let prompt = format!("HANG {number}");
        self.request(&[user(&prompt)], true).disconnect_midway(self.address);
        self.note("hung up on a hanging agent");
        1
    }

    fn have_it_die(&mut self) -> usize {
        let how = self.rng.one_of(&["DIE", "EXIT:3"]);
        let number = self.rng.next();
        let stream = self.rng.percent(50);
        let prompt = format!("{how} {number}");
        let answer = self.request(&[user(&prompt)], stream).send_and_read(self.address);
        self.check("the agent died", &answer);
        1
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

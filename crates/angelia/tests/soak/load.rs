//! The random behaviour of the clients: each kind of request with its share.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::{Value, json};

use crate::{
    client::{Answer, Asked, Dialect, Door},
    seeded::Chance,
};

/// The allowed statuses. The agent may have been killed (502), the turn interrupted (409), the
/// queue or the agent slots full (429); an internal error (500) is never allowed.
const ALLOWED: [u16; 5] = [200, 409, 429, 502, 503];

/// One client.
pub(crate) struct Client<'a> {
    pub(crate) door: &'a Door,
    pub(crate) chance: Chance,
    pub(crate) name: usize,
    pub(crate) tally: &'a Mutex<BTreeMap<String, u64>>,
}

impl Client<'_> {
    /// Sends about this many requests.
    pub(crate) fn work(&mut self, requests: usize) {
        let mut sent = 0;
        while sent < requests {
            sent += match self.chance.below(100) {
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

    fn check(&self, what: &str, answer: &Answer) {
        self.note(format!("{what}: {}", answer.status));
        assert!(ALLOWED.contains(&answer.status), "{what}: {answer:?}");
    }

    fn prompt(&mut self) -> String {
        let number = self.chance.next() % 1_000_000;
        match self.chance.below(4) {
            0 => format!("WORDS:8:1 {number}"),
            1 => format!("THINK WORDS:3 {number}"),
            _ => format!("ECHO:answer {number}"),
        }
    }

    fn asked(&mut self, conversation: &[Value], stream: bool) -> Asked {
        let dialect = self.chance.one_of(&Dialect::ALL);
        Asked { dialect, body: dialect.body(conversation, stream), headers: String::new() }
    }

    fn one(&mut self, stream: bool) -> Asked {
        let prompt = self.prompt();
        self.asked(&[user(&prompt)], stream)
    }

    /// Runs one turn, or several with the history.
    fn converse(&mut self) -> usize {
        if self.chance.percent(50) {
            let answer = self.one(true).whole(self.door);
            self.check("streamed", &answer);
            return 1;
        }
        let mut asked = self.one(false);
        let dialect = asked.dialect;
        let field = if dialect == Dialect::Responses { "input" } else { "messages" };
        let turns = 1 + self.chance.below(3);
        for turn in 1..=turns {
            let answer = asked.whole(self.door);
            self.check("conversation", &answer);
            if answer.status != 200 {
                return turn;
            }
            let (said, _) = dialect.answer(&answer.json());
            let prompt = self.prompt();
            let told = asked.body[field].as_array_mut().unwrap();
            told.extend(said);
            told.push(user(&prompt));
        }
        turns
    }

    fn leave(&mut self, midway: bool) -> usize {
        let stream = midway || self.chance.percent(50);
        let asked = self.one(stream);
        if midway {
            asked.leave_midway(self.door);
        } else {
            let half = self.chance.percent(30);
            asked.leave_at_once(self.door, half);
        }
        self.note(if midway { "left midway" } else { "left at once" });
        1
    }

    fn leave_and_come_back(&mut self) -> usize {
        let mut asked = self.one(true);
        if self.chance.percent(50) {
            asked.leave_midway(self.door);
        } else {
            asked.leave_at_once(self.door, false);
        }
        "x-stainless-retry-count: 1\r\n".clone_into(&mut asked.headers);
        let answer = asked.whole(self.door);
        self.check("came back", &answer);
        2
    }

    fn ask_twice(&mut self) -> usize {
        let stream = self.chance.percent(50);
        let mut asked = self.one(stream);
        let key = self.chance.next();
        asked.headers = format!("idempotency-key: {}-{key}\r\n", self.name);
        let again = asked.clone();
        if self.chance.percent(50) {
            asked.leave_midway(self.door);
        } else {
            let answer = asked.whole(self.door);
            self.check("asked once", &answer);
        }
        let answer = again.whole(self.door);
        self.check("asked twice", &answer);
        2
    }

    /// Calls a tool whose result may come at once, late, or never.
    fn use_a_tool(&mut self) -> usize {
        let number = self.chance.next() % 1_000_000;
        let call = format!(r#"TOOL:{{"name":"mcp__client__find","input":{{"n":{number}}}}}:END"#);
        let mut asked = self.asked(&[user(&call)], false);
        let dialect = asked.dialect;
        asked.body["tools"] = json!([dialect.tool()]);
        let answer = asked.whole(self.door);
        self.check("tool called", &answer);
        if answer.status != 200 || self.chance.percent(40) {
            self.note("result never came");
            return 1;
        }
        let (said, calls) = dialect.answer(&answer.json());
        let field = if dialect == Dialect::Responses { "input" } else { "messages" };
        let told = asked.body[field].as_array_mut().unwrap();
        told.extend(said);
        told.extend(calls.iter().map(|id| dialect.result(id)));
        if self.chance.percent(20) {
            asked.body["stream"] = json!(true);
            asked.leave_midway(self.door);
            self.note("left after the result");
        } else {
            let answer = asked.whole(self.door);
            self.check("result given", &answer);
        }
        2
    }

    fn hang_up_on_a_hanging_agent(&mut self) -> usize {
        let number = self.chance.next();
        let prompt = format!("HANG {number}");
        self.asked(&[user(&prompt)], true).leave_midway(self.door);
        self.note("hung up on a hanging agent");
        1
    }

    fn have_it_die(&mut self) -> usize {
        let how = self.chance.one_of(&["DIE", "EXIT:3"]);
        let number = self.chance.next();
        let stream = self.chance.percent(50);
        let prompt = format!("{how} {number}");
        let answer = self.asked(&[user(&prompt)], stream).whole(self.door);
        self.check("the agent died", &answer);
        1
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

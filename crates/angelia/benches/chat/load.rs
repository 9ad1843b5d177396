//! The messages of a thousand people, and what the platform got for them.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    benchmark::{process_usage::private_megabytes, report::SampleSeries},
    telegram_server::{BotCall, TelegramServer},
};
use anyhow::{Result, bail};

pub(crate) const CHATS: u32 = 1000;

/// The time between two messages, of whomever.
const INTERVAL: Duration = Duration::from_millis(100);

/// Further people, whose messages are not counted.
const WARM_UP: u32 = 20;

const PATIENCE: Duration = Duration::from_mins(1);

/// The platform's rates: a message a second in a chat, thirty in all.
const CHAT_PERIOD: Duration = Duration::from_secs(1);
const OVERALL_COUNT: usize = 30;

/// Requests of a busy machine may arrive closer together than they were sent.
const TRANSPORT_SLACK: Duration = Duration::from_millis(50);

/// The ids of the people who write.
pub(crate) fn people() -> impl Iterator<Item = u32> {
    1..=CHATS + WARM_UP
}

pub(crate) struct ChatLoad<'a> {
    server: &'a TelegramServer,
    text: &'a str,
    /// The daemon.
    pid: u32,
}

pub(crate) struct LoadFigures {
    /// From the message to its answer.
    pub(crate) answered: SampleSeries,
    /// The most private memory of the daemon.
    pub(crate) megabytes: f64,
    pub(crate) requests: usize,
    pub(crate) over_budget: u32,
}

impl<'a> ChatLoad<'a> {
    pub(crate) const fn new(server: &'a TelegramServer, text: &'a str, pid: u32) -> Self {
        Self { server, text, pid }
    }

    pub(crate) fn warm_up(&self) -> Result<()> {
        for person in CHATS + 1..=CHATS + WARM_UP {
            self.server.say(person.into(), self.text);
        }
        self.wait_for_answers(WARM_UP as usize)
    }

    /// Writes one message in each chat, and waits for the answers.
    pub(crate) fn run(&self) -> Result<LoadFigures> {
        let begun = Instant::now();
        let mut said = HashMap::new();
        let mut megabytes: f64 = 0.0;
        for person in 1..=CHATS {
            thread::sleep((begun + INTERVAL * person).saturating_duration_since(Instant::now()));
            said.insert(i64::from(person), Instant::now());
            self.server.say(person.into(), self.text);
            if person % 10 == 0 {
                megabytes = megabytes.max(private_megabytes(self.pid)?);
            }
        }
        self.wait_for_answers((CHATS + WARM_UP) as usize)?;
        let mut answered = SampleSeries::default();
        let sent = self.server.calls("sendMessage");
        for call in &sent {
            let chat = call.fields["chat_id"].as_i64().unwrap_or_default();
            answered.add_all(said.remove(&chat).map(|at| call.at.duration_since(at)));
        }
        let requests = ["getUpdates", "sendMessageDraft", "sendChatAction"];
        let requests = requests.map(|method| self.server.calls(method).len()).iter().sum::<usize>();
        let over_budget = count_over_budget(&sent);
        let megabytes = megabytes.max(private_megabytes(self.pid)?);
        Ok(LoadFigures { answered, megabytes, requests: requests + sent.len(), over_budget })
    }

    fn wait_for_answers(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.server.calls("sendMessage").len() < count {
            if Instant::now() > deadline {
                let found = self.server.calls("sendMessage").len();
                bail!("{found} of {count} messages were answered");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Counts the messages that came too early after others.
fn count_over_budget(sent: &[BotCall]) -> u32 {
    let mut last_in_chat: HashMap<i64, Instant> = HashMap::new();
    let mut over = 0;
    for (index, call) in sent.iter().enumerate() {
        let chat = call.fields["chat_id"].as_i64().unwrap_or_default();
        let last = last_in_chat.insert(chat, call.at);
        let is_early = |last: Instant| call.at.duration_since(last) + TRANSPORT_SLACK < CHAT_PERIOD;
        let before = index.checked_sub(OVERALL_COUNT).and_then(|index| sent.get(index));
        over += u32::from(last.is_some_and(is_early) || before.is_some_and(|one| is_early(one.at)));
    }
    over
}

//! A daemon that people talk to on chat platforms, each on the fake of its server. The checks are the same for
//! every platform ([`ChatPlatform`]); what only one platform has is in its file.
//!
//! - `lab`: a machine with the channel, and the checks with the demo agent.
//! - `real`: the checks with the real Claude Code.
//! - `bus`: the checks of rules of the bus and of schedules that send to chats.
//! - `conversation`: a message that stops a turn, and questions.

mod bus;
mod conversation;
mod dingtalk;
mod dingtalk_bus;
mod discord;
mod feishu;
mod lab;
mod matrix;
mod mattermost;
mod program;
mod real;
mod slack;
mod telegram;
mod wecom;

use std::fmt::Write as _;

use crate::machine::Machine;

/// A fake platform with two people who write to the bot directly.
pub(crate) trait ChatPlatform {
    /// The key in `channels`.
    fn name(&self) -> &'static str;

    /// The secrets: the key in the configuration, and the value.
    fn secrets(&self) -> Vec<(&'static str, String)>;

    fn base_url(&self) -> String;

    /// Returns the lines of the configuration that say how the platform is reached.
    fn connection_lines(&self, machine: &mut Machine) -> String {
        let mut lines = String::new();
        for (key, value) in self.secrets() {
            let variable = format!("CHAT_{}", key.to_ascii_uppercase());
            machine.set(&variable, value);
            let _infallible = writeln!(lines, "    {key}: {{env: {variable}}}");
        }
        let _infallible = writeln!(lines, "    base_url: {}", self.base_url());
        lines
    }

    /// The id of a person, as in `allow`.
    fn person(&self, person: Person) -> String;

    /// The address of the direct chat with the person who may decide, without the platform.
    fn chat(&self) -> String;

    /// The person writes to the bot.
    fn say(&self, person: Person, text: &str);

    /// Returns the bot's messages to the person, as they read now.
    fn messages(&self, person: Person) -> Vec<ShownMessage>;

    /// The person presses a button of a message of the bot, which may be one to somebody else.
    fn press(&self, person: Person, message: &ShownMessage, label: &str);

    /// Returns what people were told in answer to their presses, besides messages.
    fn press_answers(&self) -> Vec<String>;

    /// Delivers the last event `times` more times.
    fn redeliver(&self, times: usize);

    /// Returns how many events were delivered so far.
    fn deliveries(&self) -> usize;

    /// Returns how often an answer was shown before it was complete.
    fn previews(&self) -> usize;
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// May talk and decide.
    Owner,
    /// May talk only where a test says so.
    Stranger,
}

/// A message of the bot, as a person sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownMessage {
    pub(crate) id: String,
    /// Without formatting.
    pub(crate) text: String,
    /// The labels.
    pub(crate) buttons: Vec<String>,
}

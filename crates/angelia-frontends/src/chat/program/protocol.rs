//! The lines between us and a program. A request has an `id`, and the answer has the same `id` and either a
//! `result` or an `error`. A line without an `id` expects no answer.

use std::{borrow::Cow, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of this protocol.
pub(super) const PROTOCOL: u32 = 1;

/// A request to the program.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
#[schemars(rename = "AngeliaRequest")]
pub(super) enum ProgramRequest<'a> {
    /// The first request; answered with `Abilities`.
    Initialize(Initialize<'a>),
    /// Connect, and begin to send events; answered when the connection stands. Events that were not answered
    /// are sent again.
    Receive(Receive<'a>),
    /// Look whether everything is set up, without receiving anything; answered with `Findings`.
    Check(Empty),
    /// A sign of life is wanted.
    Ping(Empty),
    /// Send a message; answered with `Sent`.
    Send(Send<'a>),
    /// Replace a message, with its buttons. A message that already reads so is a success. Needs `edit`.
    Edit(Edit<'a>),
    /// Begin a message that shows an answer while it is written; answered with `Sent`. Needs `stream`.
    BeginStream(Send<'a>),
    /// The whole answer so far.
    UpdateStream(Edit<'a>),
    /// The whole answer; it may come twice. Refused if the message cannot be changed any more.
    EndStream(Edit<'a>),
    /// Show an answer that is not complete, for a while. Needs `stream` with `draft`.
    ShowDraft(ShowDraft<'a>),
    /// Show that an answer is being written. Needs `typing`.
    Typing(MessagePlace<'a>),
    /// Send a file; answered with `Sent`. Needs `files`.
    SendFile(SendFile<'a>),
    /// Fetch a file of an event; answered with `FileContent`. Needs `files`.
    FetchFile(FetchFile<'a>),
    /// Tell the person who pressed a button this. Needs `buttons`.
    AnswerPress(AnswerPress<'a>),
    /// The commands, for a menu of the platform. Needs `commands`.
    RegisterCommands(RegisterCommands<'a>),
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Empty {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Initialize<'a> {
    /// 1.
    pub(super) protocol: u32,
    /// The name of the channel in the configuration.
    pub(super) name: &'a str,
    /// The version of Angelia.
    pub(super) version: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Receive<'a> {
    /// The cursor of the last event that was stored; null at the very first time.
    pub(super) cursor: Option<&'a str>,
}

/// A chat, and a thread of it if there is one.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Place")]
pub(super) struct MessagePlace<'a> {
    pub(super) chat: &'a str,
    pub(super) thread: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Send<'a> {
    #[serde(flatten)]
    pub(super) place: MessagePlace<'a>,
    pub(super) message: Message<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Edit<'a> {
    #[serde(flatten)]
    pub(super) place: MessagePlace<'a>,
    /// As the program returned it for this message.
    pub(super) message_id: &'a str,
    pub(super) message: Message<'a>,
}

/// A message to people.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Message<'a> {
    /// The same at every attempt: with the ability `idempotent`, the second one must not arrive.
    pub(super) id: &'a str,
    /// The text in Markdown.
    pub(super) markdown: String,
    /// The text without formatting.
    pub(super) text: &'a str,
    /// An earlier attempt may have arrived.
    pub(super) may_repeat: bool,
    pub(super) buttons: Vec<MessageButton<'a>>,
    /// The id of the message that this one answers.
    pub(super) reply_to: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Button")]
pub(super) struct MessageButton<'a> {
    pub(super) label: &'a str,
    /// For the event of the press.
    pub(super) value: &'a str,
    /// The command that does the same, if there is one.
    pub(super) words: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ShowDraft<'a> {
    #[serde(flatten)]
    pub(super) place: MessagePlace<'a>,
    /// The same for every version of the draft.
    pub(super) draft: String,
    pub(super) markdown: String,
    pub(super) text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SendFile<'a> {
    #[serde(flatten)]
    pub(super) place: MessagePlace<'a>,
    /// The same at every attempt.
    pub(super) id: &'a str,
    pub(super) path: Cow<'a, str>,
    pub(super) name: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FetchFile<'a> {
    /// As in the event.
    pub(super) file_id: &'a str,
    /// The largest size that is wanted, in bytes.
    pub(super) limit: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AnswerPress<'a> {
    /// As in the event.
    pub(super) press_id: &'a str,
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RegisterCommands<'a> {
    pub(super) commands: Vec<Command<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Command<'a> {
    /// Without the slash.
    pub(super) name: &'a str,
    pub(super) about: &'a str,
}

/// The answer to `initialize`. What is left out is not there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Abilities {
    /// A sent message can be edited.
    pub(super) edit: bool,
    pub(super) typing: bool,
    pub(super) buttons: bool,
    /// Files can be sent and fetched.
    pub(super) files: bool,
    /// A message that is sent twice under one id arrives once.
    pub(super) idempotent: bool,
    /// The platform has a menu of commands.
    pub(super) commands: bool,
    pub(super) max_length: Option<MaxLength>,
    pub(super) stream: Option<Stream>,
}

/// The longest message. A longer text comes in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) struct MaxLength {
    pub(super) max: usize,
    #[serde(default)]
    pub(super) unit: Unit,
    /// The field of a message that is counted.
    #[serde(default)]
    pub(super) of: Counted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    #[default]
    CodePoints,
    Utf16,
    Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counted {
    #[default]
    Text,
    Markdown,
}

/// How an answer is shown while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
pub(super) struct Stream {
    pub(super) means: Means,
    /// Seconds between two updates.
    #[serde(default = "one_second")]
    pub(super) interval: f64,
    /// Seconds after which the platform ends a stream, or a draft disappears.
    #[serde(default = "one_minute")]
    pub(super) lifetime: f64,
}

const fn one_second() -> f64 {
    1.0
}

const fn one_minute() -> f64 {
    60.0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Means {
    /// A message that is edited: `begin_stream`, `update_stream` and `end_stream` are `send` and `edit`.
    Edit,
    /// A message that grows: `begin_stream`, `update_stream`, `end_stream`.
    Stream,
    /// A preview: `show_draft`; the answer is a message of its own.
    Draft,
}

/// The answer to whatever sends a message.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Sent {
    /// The platform's id of the message, for edits.
    pub(super) message_id: Option<String>,
}

/// The answer to `check`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Findings {
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Finding {
    #[serde(default)]
    pub(super) problem: bool,
    /// For people.
    pub(super) text: String,
}

/// The answer to `fetch_file`: one of the two.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct FileContent {
    /// A file on this machine.
    pub(super) path: Option<PathBuf>,
    /// The bytes in Base64, for small files.
    pub(super) data: Option<String>,
}

/// Why a request has failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(super) struct Failure {
    pub(super) kind: FailureWord,
    /// For people.
    pub(super) message: String,
    /// Seconds after which another attempt may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureWord {
    /// It will never succeed; for `receive`, `check` and `lost`: the credentials are refused.
    Refused,
    /// Nothing has arrived; another attempt may succeed.
    NotSent,
    /// It may have arrived.
    #[default]
    Unknown,
}

/// A line of the program that is no answer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
#[schemars(rename = "ProgramMessage")]
pub(super) enum ProgramMessage {
    /// Something that a person did. It has an `id`; the answer comes when it is stored. An error, or no answer:
    /// send it again.
    Event(Box<Event>),
    /// The connection to the platform lives. Without an `id`; answers and events say the same.
    Alive,
    /// The connection to the platform is lost, or cannot be made. The program is started again after a pause.
    Lost(Failure),
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub(super) struct Event {
    /// The same for every delivery of the event, and for no other event.
    pub(super) key: String,
    /// A place in the stream of events behind this one, for the next `receive`.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    pub(super) chat: String,
    #[serde(default)]
    pub(super) thread: Option<String>,
    pub(super) sender: Person,
    #[serde(flatten)]
    pub(super) kind: EventKind,
}

/// The person who did it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) struct Person {
    /// An id that the person cannot change.
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    /// The ids of the roles that the person has in the chat.
    #[serde(default)]
    pub(super) roles: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum EventKind {
    Message(PersonMessage),
    /// A message with this id reads so now.
    Edited(PersonMessage),
    /// Its sender has deleted this message.
    Deleted {
        message_id: String,
    },
    Press(Press),
    /// The person wants the answer to stop.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub(super) struct PersonMessage {
    pub(super) message_id: String,
    /// Without the mention of the bot.
    #[serde(default)]
    pub(super) text: String,
    /// A conversation with this person alone.
    #[serde(default)]
    pub(super) direct: bool,
    /// It mentions the bot, or answers one of its messages.
    #[serde(default)]
    pub(super) addressed: bool,
    /// The text of another one's message that this one answers.
    #[serde(default)]
    pub(super) quoted: Option<String>,
    #[serde(default)]
    pub(super) files: Vec<File>,
    /// RFC 3339; without it, now.
    #[serde(default)]
    pub(super) sent_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) struct File {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) media_type: Option<String>,
    /// In bytes.
    #[serde(default)]
    pub(super) size: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) struct Press {
    /// For `answer_press`.
    pub(super) press_id: String,
    /// The value of the button.
    pub(super) value: String,
    #[serde(default)]
    pub(super) message_id: Option<String>,
    #[serde(default)]
    pub(super) direct: bool,
}

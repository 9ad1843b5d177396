//! The test setup: sample messages, a recording screen, recorded commands, and a bus that the test
//! controls.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use angelia_core::{
    engine::rules::ColourMode,
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    ports::{
        BoxFuture, Bus, BusInbox, Clock, CommandOutput, CommandProgram, CommandRunner, CommandSpec,
        CommandStartError,
        bus::{
            AttachError, AttachRequest, BusCounts, BusDelivery, BusError, BusPosition, DeadLetter,
            DeliveryNotifier, EndpointState, InboxError, PendingReceipts, Presence, PublishError,
            QueuedMessage, Receipt,
        },
    },
};
use angelia_frontends::bus_rules::Screen;
use tokio::sync::mpsc;
use uuid::Uuid;

pub(crate) const SENT_AT: i64 = 1_700_000_000;

pub(crate) fn name(name: &str) -> EndpointName {
    EndpointName::new(name).unwrap()
}

/// Returns a message with a unique number as its id.
pub(crate) fn message(from: &str, verified: bool, body: &str) -> BusMessage {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let envelope = format!(r#"{{"type":"message","id":"{id}","ts":{SENT_AT},"body":{body}}}"#);
    BusMessage {
        id: id.into(),
        from: Some(from.into()),
        verified,
        to: Destination::Endpoint(name("coder")),
        envelope: envelope.into(),
    }
}

#[derive(Default)]
pub(crate) struct RecordingScreen {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) notices: Mutex<Vec<String>>,
}

impl RecordingScreen {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        self.notices.lock().unwrap().clone()
    }
}

impl Screen for RecordingScreen {
    fn ink(&self) -> ColourMode {
        ColourMode::Colour
    }

    fn show(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }

    fn show_notice(&self, line: &str) {
        self.notices.lock().unwrap().push(line.to_owned());
    }
}

/// Records the commands it is asked to run. Every path that ends in `.sh` counts as a program; the
/// test decides its output.
pub(crate) struct RecordingCommands {
    pub(crate) commands: mpsc::Sender<CommandSpec>,
    pub(crate) answer: Mutex<Result<CommandOutput, CommandStartError>>,
    pub(crate) gate: tokio::sync::Semaphore,
}

pub(crate) fn command_output(text: &str, ok: bool) -> CommandOutput {
    CommandOutput { ok, timed_out: false, stdout: text.as_bytes().to_vec(), stderr: String::new() }
}

impl RecordingCommands {
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<CommandSpec>) {
        let (asked, notes) = mpsc::channel(1024);
        let commands = Self {
            commands: asked,
            answer: Mutex::new(Ok(command_output("", true))),
            gate: tokio::sync::Semaphore::new(10_000),
        };
        (Arc::new(commands), notes)
    }
}

impl CommandRunner for RecordingCommands {
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>> {
        Box::pin(async move {
            self.commands.try_send(command).unwrap();
            self.gate.acquire().await.unwrap().forget();
            self.answer.lock().unwrap().clone()
        })
    }

    fn is_program(&self, path: &str) -> bool {
        path.strip_suffix(".sh").is_some()
    }
}

pub(crate) fn shell_line(command: &CommandSpec) -> &str {
    match &command.program {
        CommandProgram::Shell(line) => line,
        CommandProgram::File(path, _) => path,
    }
}

#[derive(Default)]
pub(crate) struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> jiff::Timestamp {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        jiff::Timestamp::from_second(SENT_AT + i64::try_from(count).unwrap()).unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.0.fetch_add(1, Ordering::Relaxed), 1)
    }
}

/// Records everything that is published. A fixed set of endpoints has listened once and is away.
pub(crate) struct RecordingBus {
    pub(crate) published: mpsc::Sender<BusMessage>,
    pub(crate) dead_letters: mpsc::Sender<(BusMessage, String)>,
    pub(crate) seen: Vec<&'static str>,
}

impl Bus for RecordingBus {
    fn publish(
        &self,
        messages: Vec<BusMessage>,
        _watch: Option<DeliveryNotifier>,
    ) -> BoxFuture<'_, PendingReceipts> {
        let (receipts, published) = PendingReceipts::new(messages.len());
        let receipt = |message: &BusMessage| {
            Ok(Receipt {
                id: Arc::clone(&message.id),
                presence: Presence::Listening,
                repeated: false,
            })
        };
        receipts.send(messages.iter().map(receipt).collect()).unwrap();
        for message in messages {
            self.published.try_send(message).unwrap();
        }
        Box::pin(std::future::ready(published))
    }

    fn store_dead_letter(
        &self,
        message: BusMessage,
        reason: String,
    ) -> BoxFuture<'_, Result<(), PublishError>> {
        self.dead_letters.try_send((message, reason)).unwrap();
        Box::pin(async { Ok(()) })
    }

    fn attach(
        &self,
        _claim: AttachRequest,
    ) -> BoxFuture<'_, Result<Box<dyn BusInbox>, AttachError>> {
        Box::pin(async { Err(AttachError::Bus(BusError::Closed)) })
    }

    fn verify_token(&self, _name: &str, _token: &str) -> bool {
        false
    }

    fn presence(&self, name: &EndpointName) -> Presence {
        if self.seen.contains(&name.as_str()) { Presence::Away } else { Presence::NeverSeen }
    }

    fn listeners(&self) -> Vec<(EndpointName, Uuid)> {
        Vec::new()
    }

    fn endpoints(&self) -> Vec<EndpointState> {
        let state = |known: &&str| EndpointState { name: name(known), session: None, queued: 0 };
        self.seen.iter().map(state).collect()
    }

    fn counts(&self) -> BusCounts {
        BusCounts::default()
    }

    fn peek<'a>(
        &'a self,
        _name: &'a EndpointName,
        _limit: usize,
    ) -> BoxFuture<'a, Result<Vec<QueuedMessage>, BusError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn dead_letters(
        &self,
        _before: Option<BusPosition>,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn resend(&self, _dead: BusPosition) -> BoxFuture<'_, Result<Receipt, BusError>> {
        Box::pin(async { Err(BusError::NotFound) })
    }

    fn discard(&self, _dead: BusPosition) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async { Err(BusError::NotFound) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The inbox of `coder`; acknowledgements and refusals go to the test.
pub(crate) struct ManualInbox {
    name: EndpointName,
    deliveries: mpsc::Receiver<BusDelivery>,
    settled: mpsc::Sender<(u64, Option<String>)>,
}

pub(crate) struct InboxControl {
    pub(crate) deliver: mpsc::Sender<BusDelivery>,
    pub(crate) settled: mpsc::Receiver<(u64, Option<String>)>,
}

pub(crate) fn inbox() -> (ManualInbox, InboxControl) {
    let (deliver, deliveries) = mpsc::channel(64);
    let (noted, settled) = mpsc::channel(64);
    let inbox = ManualInbox { name: name("coder"), deliveries, settled: noted };
    (inbox, InboxControl { deliver, settled })
}

impl BusInbox for ManualInbox {
    fn endpoint(&self) -> &EndpointName {
        &self.name
    }

    fn session(&self) -> Uuid {
        Uuid::nil()
    }

    fn is_proven(&self) -> bool {
        true
    }

    fn next(&mut self, _limit: usize) -> BoxFuture<'_, Result<Vec<BusDelivery>, InboxError>> {
        Box::pin(async {
            match self.deliveries.recv().await {
                Some(delivery) => Ok(vec![delivery]),
                None => Err(BusError::Closed.into()),
            }
        })
    }

    fn ack(&mut self, taken: &[BusPosition]) {
        for position in taken {
            self.settled.try_send((position.0, None)).unwrap();
        }
    }

    fn mark_written(&mut self, _taken: &[BusPosition]) {}

    fn dead_letter(&mut self, taken: BusPosition, reason: &str) {
        self.settled.try_send((taken.0, Some(reason.to_owned()))).unwrap();
    }
}

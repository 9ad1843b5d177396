//! The test setup: sample messages, a recording screen, recorded commands, and a bus that the test
//! controls.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use angelia_core::{
    engine::rules::Ink,
    model::{
        EndpointName,
        bus::{Destination, Message},
    },
    ports::{
        BoxFuture, Bus, Clock, CommandFailed, CommandLine, Commands, Inbox, Program, Ran,
        bus::{
            AttachError, BusCounts, BusError, Claim, DeadLetter, Delivery, EndpointState,
            InboxError, Position, Presence, Published, Receipt, Watch,
        },
    },
};
use angelia_frontends::bus_rules::Screen;
use tokio::sync::mpsc;
use uuid::Uuid;

pub(crate) const SENT: i64 = 1_700_000_000;

pub(crate) fn name(name: &str) -> EndpointName {
    EndpointName::new(name).unwrap()
}

/// Returns a message with a unique number as its id.
pub(crate) fn message(from: &str, verified: bool, body: &str) -> Message {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let envelope = format!(r#"{{"type":"message","id":"{id}","ts":{SENT},"body":{body}}}"#);
    Message {
        id: id.into(),
        from: Some(from.into()),
        verified,
        to: Destination::Endpoint(name("coder")),
        envelope: envelope.into(),
    }
}

#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) shown: Mutex<Vec<String>>,
    pub(crate) remarks: Mutex<Vec<String>>,
}

impl Lines {
    pub(crate) fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }

    pub(crate) fn remarks(&self) -> Vec<String> {
        self.remarks.lock().unwrap().clone()
    }
}

impl Screen for Lines {
    fn ink(&self) -> Ink {
        Ink::Colour
    }

    fn show(&self, line: &str) {
        self.shown.lock().unwrap().push(line.to_owned());
    }

    fn remark(&self, line: &str) {
        self.remarks.lock().unwrap().push(line.to_owned());
    }
}

/// Records the commands it is asked to run. Every path that ends in `.sh` counts as a program; the
/// test decides its output.
pub(crate) struct NotedCommands {
    pub(crate) asked: mpsc::Sender<CommandLine>,
    pub(crate) answer: Mutex<Result<Ran, CommandFailed>>,
    pub(crate) gate: tokio::sync::Semaphore,
}

pub(crate) fn said(text: &str, ok: bool) -> Ran {
    Ran { ok, timed_out: false, stdout: text.as_bytes().to_vec(), stderr: String::new() }
}

impl NotedCommands {
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<CommandLine>) {
        let (asked, notes) = mpsc::channel(1024);
        let commands = Self {
            asked,
            answer: Mutex::new(Ok(said("", true))),
            gate: tokio::sync::Semaphore::new(10_000),
        };
        (Arc::new(commands), notes)
    }
}

impl Commands for NotedCommands {
    fn run(&self, command: CommandLine) -> BoxFuture<'_, Result<Ran, CommandFailed>> {
        Box::pin(async move {
            self.asked.try_send(command).unwrap();
            self.gate.acquire().await.unwrap().forget();
            self.answer.lock().unwrap().clone()
        })
    }

    fn is_program(&self, path: &str) -> bool {
        path.strip_suffix(".sh").is_some()
    }
}

pub(crate) fn shell_line(command: &CommandLine) -> &str {
    match &command.program {
        Program::Shell(line) => line,
        Program::File(path, _) => path,
    }
}

#[derive(Default)]
pub(crate) struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> jiff::Timestamp {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        jiff::Timestamp::from_second(SENT + i64::try_from(count).unwrap()).unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.0.fetch_add(1, Ordering::Relaxed), 1)
    }
}

/// Records everything that is published, and lists a fixed set of endpoints.
pub(crate) struct NotedBus {
    pub(crate) published: mpsc::Sender<Message>,
    pub(crate) known: Vec<&'static str>,
}

impl Bus for NotedBus {
    fn publish(&self, messages: Vec<Message>, _watch: Option<Watch>) -> BoxFuture<'_, Published> {
        let (receipts, published) = Published::new(messages.len());
        let receipt = |message: &Message| {
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

    fn attach(&self, _claim: Claim) -> BoxFuture<'_, Result<Box<dyn Inbox>, AttachError>> {
        Box::pin(async { Err(AttachError::Bus(BusError::Closed)) })
    }

    fn proves(&self, _name: &str, _token: &str) -> bool {
        false
    }

    fn listening(&self) -> Vec<(EndpointName, Uuid)> {
        Vec::new()
    }

    fn endpoints(&self) -> Vec<EndpointState> {
        let state = |known: &&str| EndpointState { name: name(known), session: None, queued: 0 };
        self.known.iter().map(state).collect()
    }

    fn counts(&self) -> BusCounts {
        BusCounts::default()
    }

    fn dead_letters(
        &self,
        _before: Option<Position>,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn resend(&self, _dead: Position) -> BoxFuture<'_, Result<Receipt, BusError>> {
        Box::pin(async { Err(BusError::NotFound) })
    }

    fn discard(&self, _dead: Position) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async { Err(BusError::NotFound) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The inbox of `coder`; acknowledgements and refusals go to the test.
pub(crate) struct StringInbox {
    name: EndpointName,
    deliveries: mpsc::Receiver<Delivery>,
    settled: mpsc::Sender<(u64, Option<String>)>,
}

pub(crate) struct InboxStrings {
    pub(crate) deliver: mpsc::Sender<Delivery>,
    pub(crate) settled: mpsc::Receiver<(u64, Option<String>)>,
}

pub(crate) fn inbox() -> (StringInbox, InboxStrings) {
    let (deliver, deliveries) = mpsc::channel(64);
    let (noted, settled) = mpsc::channel(64);
    let inbox = StringInbox { name: name("coder"), deliveries, settled: noted };
    (inbox, InboxStrings { deliver, settled })
}

impl Inbox for StringInbox {
    fn endpoint(&self) -> &EndpointName {
        &self.name
    }

    fn session(&self) -> Uuid {
        Uuid::nil()
    }

    fn next(&mut self, _limit: usize) -> BoxFuture<'_, Result<Vec<Delivery>, InboxError>> {
        Box::pin(async {
            match self.deliveries.recv().await {
                Some(delivery) => Ok(vec![delivery]),
                None => Err(BusError::Closed.into()),
            }
        })
    }

    fn ack(&mut self, taken: &[Position]) {
        for position in taken {
            self.settled.try_send((position.0, None)).unwrap();
        }
    }

    fn handed(&mut self, _taken: &[Position]) {}

    fn refuse(&mut self, taken: Position, reason: &str) {
        self.settled.try_send((taken.0, Some(reason.to_owned()))).unwrap();
    }
}

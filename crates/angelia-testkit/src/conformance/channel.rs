//! Checks that every chat platform adapter must pass, against a fake of the platform.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use angelia_core::ports::{
    Button, Channel, ConnectionError, EventInbox, InboundEvent, InboundKind, InboundMessage,
    OutgoingFile, OutgoingMessage, RichText, SendErrorKind, StoreError, StoreFuture, StreamMeans,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Abilities that not every platform has. The suite skips what a platform lacks.
#[derive(Clone, Copy, Debug)]
pub struct PlatformAbilities {
    /// People can edit their messages, and the bot is notified.
    pub edits: bool,
    /// The adapter acknowledges events.
    pub acknowledgements: bool,
    /// The platform delivers an event again.
    pub redelivery: bool,
    /// Events that arrive while the adapter is disconnected are delivered later.
    pub backlog: bool,
    /// The platform can refuse a text's formatting.
    pub formatting_refusals: bool,
    /// A person can prevent the bot from writing to them.
    pub blocking: bool,
    /// The platform reports the names of files.
    pub file_names: bool,
    /// The platform refuses a file of one gigabyte.
    pub file_limit: bool,
}

impl PlatformAbilities {
    pub const ALL: Self = Self {
        edits: true,
        acknowledgements: true,
        redelivery: true,
        backlog: true,
        formatting_refusals: true,
        blocking: true,
        file_names: true,
        file_limit: true,
    };
}

/// A fake platform as driven by the suite.
pub trait FakePlatform {
    fn abilities(&self) -> PlatformAbilities {
        PlatformAbilities::ALL
    }

    /// Creates an adapter that is connected to the fake.
    fn adapter(&self) -> Arc<dyn Channel>;

    /// Returns the direct chat with one person.
    fn chat(&self) -> String;

    /// Simulates a message from the person.
    fn say(&self, text: &str);

    /// Simulates that the person edits their last message.
    fn edit_last(&self, text: &str);

    /// Simulates a file from the person.
    fn send_file(&self, name: &str, bytes: &[u8]);

    /// Simulates that the person presses a button on the bot's last message.
    fn press(&self, label: &str);

    /// Delivers everything once more, acknowledged or not.
    fn redeliver(&self);

    /// Delivers something that no adapter can read.
    fn push_garbage(&self);

    /// Returns whether the platform has received an acknowledgement for everything.
    fn is_acknowledged(&self) -> bool;

    /// Returns the bot's messages in their current form: text, button labels, and the content of a
    /// file.
    fn messages(&self) -> Vec<(String, Vec<String>, Option<Vec<u8>>)>;

    /// Refuses the next message: too many requests, retry in a second.
    fn limit_next_send(&self);

    /// Refuses the next message because of its formatting.
    fn refuse_next_formatting(&self);

    /// Accepts the next message, but cuts the connection before answering.
    fn cut_next_send(&self);

    /// Breaks the connection once while events are being received.
    fn break_connection(&self);

    /// Simulates that the person blocks the bot.
    fn block(&self);
}

/// Records what an adapter stores. Can be made to fail.
struct RecordingInbox {
    events: mpsc::Sender<(Vec<InboundEvent>, Option<Arc<str>>)>,
    is_broken: AtomicBool,
    is_connected: AtomicBool,
}

impl EventInbox for RecordingInbox {
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if self.is_broken.load(Ordering::Relaxed) {
                return Err(StoreError::Failed { message: "the disk is full".to_owned() });
            }
            // A receiver that is being stopped may still accept an event.
            self.events
                .try_send((events, cursor))
                .map_err(|error| StoreError::Failed { message: error.to_string() })
        })
    }

    fn note_alive(&self) {
        self.is_connected.store(true, Ordering::Relaxed);
    }
}

/// A receiving adapter.
struct Receiving {
    events: mpsc::Receiver<(Vec<InboundEvent>, Option<Arc<str>>)>,
    inbox: Arc<RecordingInbox>,
    cursor: Option<Arc<str>>,
    stop: tokio_util::sync::CancellationToken,
    ended: mpsc::Receiver<ConnectionError>,
}

impl Receiving {
    fn start(adapter: Arc<dyn Channel>, cursor: Option<Arc<str>>) -> Self {
        let (sender, events) = mpsc::channel(64);
        let inbox = Arc::new(RecordingInbox {
            events: sender,
            is_broken: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
        });
        let stop = tokio_util::sync::CancellationToken::new();
        let (told, ended) = mpsc::channel(64);
        let (own, token) = (Arc::clone(&inbox), stop.clone());
        let from = cursor.clone();
        let tasks = angelia_core::task::TaskGroup::new();
        tasks.spawn(async move {
            let receiving = adapter.receive(from, &*own);
            if let Some(error) = token.run_until_cancelled(receiving).await {
                let _nobody = told.try_send(error);
            }
        });
        Self { events, inbox, cursor, stop, ended }
    }

    /// Returns the next non-empty batch of events.
    async fn next(&mut self) -> Vec<InboundEvent> {
        loop {
            let (events, cursor) = timeout(PATIENCE, self.events.recv()).await.unwrap().unwrap();
            self.cursor = cursor.or(self.cursor.take());
            if !events.is_empty() {
                return events;
            }
        }
    }

    async fn next_message(&mut self) -> InboundMessage {
        let events = self.next().await;
        match &events[0].kind {
            InboundKind::Message(message) | InboundKind::Edited(message) => message.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn end(self) -> Option<Arc<str>> {
        self.stop.cancel();
        self.cursor
    }
}

fn message(id: &str, text: &str) -> OutgoingMessage {
    OutgoingMessage {
        id: id.into(),
        text: text.into(),
        rich: Some(RichText::plain(text)),
        ..OutgoingMessage::default()
    }
}

fn button(label: &str, value: &str) -> Button {
    Button { label: label.into(), value: value.into(), words: None }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Checks receiving: connecting, storing before acknowledging, repetitions, edits, presses, files,
/// garbage, and reconnecting with the cursor.
pub async fn check_receiving(platform: &dyn FakePlatform) {
    let adapter = platform.adapter();
    let abilities = platform.abilities();
    let mut receiving = Receiving::start(Arc::clone(&adapter), None);
    platform.say("one");
    let first = receiving.next().await;
    let InboundKind::Message(words) = &first[0].kind else { panic!("{first:?}") };
    assert_eq!((&*words.text, words.is_direct), ("one", true));
    assert_eq!(*first[0].chat, *platform.chat());
    if abilities.acknowledgements {
        until("it is acknowledged", || platform.is_acknowledged()).await;
    }
    if abilities.redelivery {
        platform.redeliver();
        let again = receiving.next().await;
        assert_eq!(again[0].dedupe_key, first[0].dedupe_key, "a repetition has the same key");
    }
    if abilities.edits {
        platform.edit_last("one, changed");
        let edited = receiving.next().await;
        assert!(
            matches!(&edited.last().unwrap().kind, InboundKind::Edited(words) if &*words.text == "one, changed")
        );
    }

    platform.push_garbage();
    platform.say("after garbage");
    assert_eq!(&*receiving.next_message().await.text, "after garbage");

    // An event that cannot be stored is not acknowledged.
    receiving.inbox.is_broken.store(true, Ordering::Relaxed);
    platform.say("kept");
    let error = timeout(PATIENCE, receiving.ended.recv()).await.unwrap().unwrap();
    assert!(error.message.contains("the disk is full"), "{error}");
    assert!(!abilities.acknowledgements || !platform.is_acknowledged());
    let cursor = receiving.end();
    let mut receiving = Receiving::start(Arc::clone(&adapter), cursor);
    if abilities.acknowledgements || abilities.backlog {
        assert_eq!(&*receiving.next_message().await.text, "kept");
    } else {
        let inbox = Arc::clone(&receiving.inbox);
        until("it receives again", || inbox.is_connected.load(Ordering::Relaxed)).await;
    }
    if abilities.acknowledgements {
        // Otherwise the event would rightly be delivered again after the break.
        until("it is acknowledged", || platform.is_acknowledged()).await;
    }

    platform.break_connection();
    if abilities.backlog {
        platform.say("over the break");
    }
    let _lost = timeout(PATIENCE, receiving.ended.recv()).await;
    let cursor = receiving.end();
    let mut receiving = Receiving::start(Arc::clone(&adapter), cursor);
    if !abilities.backlog {
        platform.say("over the break");
    }
    assert_eq!(&*receiving.next_message().await.text, "over the break");

    if adapter.capabilities().files {
        platform.send_file("notes.txt", b"some notes");
        let words = receiving.next_message().await;
        let file = &words.files[0];
        assert!(!abilities.file_names || &*file.name == "notes.txt", "{file:?}");
        assert_eq!(adapter.fetch_file(file, 1000).await.unwrap(), b"some notes");
        let error = adapter.fetch_file(file, 3).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{error}");
    }
    if adapter.capabilities().buttons {
        let buttons = vec![button("Yes", "v:1")];
        let asked = OutgoingMessage { buttons, ..message("b1", "really?") };
        adapter.send(&platform.chat(), &asked).await.unwrap();
        platform.press("Yes");
        let events = receiving.next().await;
        let InboundKind::Press(press) = &events[0].kind else { panic!("{events:?}") };
        assert_eq!(&*press.value, "v:1");
        adapter.answer_press(press, "thank you").await.unwrap();
    }
    receiving.end();
}

/// Checks sending: text, edits, "not modified", removed buttons, files, drafts, refusals and lost
/// answers.
pub async fn check_sending(platform: &dyn FakePlatform) {
    let adapter = platform.adapter();
    let chat = platform.chat();
    let texts = || platform.messages().into_iter().map(|(text, _, _)| text).collect::<Vec<_>>();
    let mut sent = adapter.send(&chat, &message("m1", "hello <b> & *you*")).await.unwrap();
    assert_eq!(texts(), ["hello <b> & *you*"]);
    if adapter.capabilities().edit {
        let with_button = |text: &str| OutgoingMessage {
            buttons: vec![button("Go", "g")],
            ..message("m1", text)
        };
        if sent.message_id.is_none() {
            // Some platforms can only edit messages with buttons.
            sent = adapter.send(&chat, &with_button("asked")).await.unwrap();
        }
        let shown = || platform.messages().pop().unwrap();
        adapter.edit(&chat, &sent, &with_button("edited")).await.unwrap();
        adapter.edit(&chat, &sent, &with_button("edited")).await.unwrap();
        assert_eq!(shown().1, ["Go"]);
        adapter.edit(&chat, &sent, &message("m1", "edited")).await.unwrap();
        assert_eq!(shown(), ("edited".to_owned(), Vec::new(), None));
    }
    if let StreamMeans::Draft { .. } = adapter.stream_means(&chat) {
        adapter.show_draft(&chat, 1 << 40, &RichText::plain("so far")).await.unwrap();
    }
    if matches!(adapter.stream_means(&chat), StreamMeans::Edit { .. } | StreamMeans::Stream { .. })
    {
        let begun = adapter.begin_stream(&chat, &message("s1", "so")).await.unwrap();
        assert!(begun.message_id.is_some(), "the answer takes its place");
        // A preview that comes too early may be omitted, but the end may not.
        let _early = adapter.update_stream(&chat, &begun, &message("s1", "so far")).await;
        adapter.end_stream(&chat, &begun, &message("s1", "so far, so good")).await.unwrap();
        adapter.end_stream(&chat, &begun, &message("s1", "so far, so good")).await.unwrap();
        assert_eq!(texts().last().unwrap(), "so far, so good");
        assert_eq!(texts().iter().filter(|text| text.starts_with("so")).count(), 1);
    }
    platform.limit_next_send();
    let error = adapter.send(&chat, &message("m2", "too much")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.retry_after),
        (SendErrorKind::NotSent, Some(Duration::from_secs(1)))
    );
    let abilities = platform.abilities();
    if abilities.formatting_refusals {
        platform.refuse_next_formatting();
        adapter.send(&chat, &message("m3", "plain")).await.unwrap();
        assert_eq!(texts().last().unwrap(), "plain");
    }
    platform.cut_next_send();
    let error = adapter.send(&chat, &message("m4", "perhaps")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unknown, "{error}");
    if adapter.capabilities().idempotent {
        adapter.send(&chat, &message("m4", "perhaps")).await.unwrap();
        assert_eq!(texts().iter().filter(|text| *text == "perhaps").count(), 1);
    }
    if adapter.capabilities().files {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        std::fs::write(&path, "content").unwrap();
        let file = OutgoingFile { id: "f1".into(), path, name: "out.txt".into() };
        adapter.send_file(&chat, &file).await.unwrap();
        assert_eq!(platform.messages().last().unwrap().2.as_deref(), Some(&b"content"[..]));
        if abilities.file_limit {
            let path = folder.path().join("big.bin");
            // The file is sparse, so it takes no space.
            std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
            let file = OutgoingFile { id: "f2".into(), path, name: "big.bin".into() };
            let count = platform.messages().len();
            let error = adapter.send_file(&chat, &file).await.unwrap_err();
            assert_eq!(error.kind, SendErrorKind::Refused, "{error}");
            assert!(error.message.contains("big.bin has more than"), "{error}");
            assert_eq!(platform.messages().len(), count);
        }
    }
    if abilities.blocking {
        platform.block();
        let error = adapter.send(&chat, &message("m5", "anybody?")).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{error}");
    }
}

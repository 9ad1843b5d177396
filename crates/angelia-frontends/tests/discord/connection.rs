//! The connection to the gateway: a break is resumed, a session that is gone begins anew, and what only the owner can
//! change is said.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    ports::{
        Channel, ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent, InboundKind,
        StoreFuture,
    },
    task::TaskGroup,
};
use angelia_testkit::{
    direct_session::wait_until,
    discord_server::{BOT_ID, CHANNEL, DiscordServer, GatewayFault},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use super::{PERSON, adapter};

const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps what the adapter stores.
struct Inbox(mpsc::Sender<(Vec<InboundEvent>, Option<Arc<str>>)>);

impl EventInbox for Inbox {
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        let _nobody = self.0.try_send((events, cursor));
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

/// An adapter that receives, as the host lets it: after an error, again with the last cursor.
struct Receiving {
    adapter: Arc<dyn Channel>,
    stored: mpsc::Receiver<(Vec<InboundEvent>, Option<Arc<str>>)>,
    ended: mpsc::Receiver<ConnectionError>,
    cursor: Option<Arc<str>>,
}

impl Receiving {
    fn start(adapter: Arc<dyn Channel>, cursor: Option<Arc<str>>) -> Self {
        let (sender, stored) = mpsc::channel(64);
        let (told, ended) = mpsc::channel(64);
        let (own, from) = (Arc::clone(&adapter), cursor.clone());
        TaskGroup::new().spawn(async move {
            let inbox = Inbox(sender);
            let error = own.receive(from, &inbox).await;
            let _nobody = told.try_send(error);
        });
        Self { adapter, stored, ended, cursor }
    }

    async fn next(&mut self) -> InboundEvent {
        loop {
            let stored = timeout(PATIENCE, self.stored.recv()).await.unwrap();
            let Some((mut events, cursor)) = stored else {
                panic!("it has ended: {:?}", self.ended.recv().await)
            };
            self.cursor = cursor.or(self.cursor.take());
            if !events.is_empty() {
                return events.remove(0);
            }
        }
    }

    async fn next_text(&mut self) -> String {
        let event = self.next().await;
        match event.kind {
            InboundKind::Message(message) | InboundKind::Edited(message) => {
                message.text.to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    async fn end(&mut self) -> ConnectionError {
        timeout(PATIENCE, self.ended.recv()).await.unwrap().unwrap()
    }

    /// Connects again, with what was stored last.
    async fn again(mut self) -> Self {
        self.end().await;
        while let Ok((_, cursor)) = self.stored.try_recv() {
            self.cursor = cursor.or(self.cursor.take());
        }
        Self::start(self.adapter, self.cursor)
    }
}

async fn connected(server: &DiscordServer) -> Receiving {
    let mut receiving = Receiving::start(adapter(server), None);
    server.say(PERSON, "first");
    assert_eq!(receiving.next_text().await, "first");
    receiving
}

#[tokio::test]
async fn a_later_process_resumes_and_gets_what_was_missed() {
    let server = DiscordServer::start();
    let receiving = connected(&server).await;
    let identify = &server.frames(2)[0];
    assert_eq!(identify["intents"], 37_377);
    assert!(identify["properties"]["browser"] == "angelia");
    server.fail_gateway(GatewayFault::Cut);
    server.say(PERSON, "while nobody was there");
    let cursor = receiving.cursor.clone();
    drop(receiving);
    let mut later = Receiving::start(adapter(&server), cursor);
    assert_eq!(later.next_text().await, "while nobody was there");
    server.say(PERSON, "and now");
    assert_eq!(later.next_text().await, "and now");
    assert_eq!((server.frames(2).len(), server.frames(6).len()), (1, 1));
    assert_eq!(server.frames(6)[0]["seq"], 3, "behind READY, the server and the first message");
}

#[tokio::test]
async fn discord_may_ask_for_another_connection_at_any_time() {
    let server = DiscordServer::start();
    let mut receiving = connected(&server).await;
    for (number, fault) in
        [GatewayFault::Reconnect, GatewayFault::Invalidate(true)].into_iter().enumerate()
    {
        server.fail_gateway(fault);
        server.say(PERSON, "meanwhile");
        assert_eq!(receiving.next_text().await, "meanwhile");
        assert_eq!(server.frames(6).len(), number + 1, "without the help of the host");
    }
    // A session that is gone begins anew, after a pause of one to five seconds.
    server.fail_gateway(GatewayFault::Invalidate(false));
    wait_until("a new session begins", || server.frames(2).len() == 2).await;
    server.say(PERSON, "in the new session");
    assert_eq!(receiving.next_text().await, "in the new session");
    assert!(receiving.ended.try_recv().is_err());
}

#[tokio::test]
async fn a_session_that_discord_has_forgotten_begins_anew() {
    let server = DiscordServer::start();
    let mut receiving = connected(&server).await;
    server.fail_gateway(GatewayFault::Close(4009));
    server.fail_gateway(GatewayFault::ForgetSessions);
    wait_until("a new session begins", || server.frames(2).len() == 2).await;
    assert_eq!(server.frames(6).len(), 0, "4009 means that there is nothing to resume");
    server.say(PERSON, "anew");
    assert_eq!(receiving.next_text().await, "anew");
    // A later process cannot know, and is told.
    server.fail_gateway(GatewayFault::Cut);
    server.fail_gateway(GatewayFault::ForgetSessions);
    let mut later = Receiving::start(adapter(&server), receiving.cursor.clone());
    wait_until("a third session begins", || server.frames(2).len() == 3).await;
    server.say(PERSON, "and again");
    assert_eq!(later.next_text().await, "and again");
}

#[tokio::test]
async fn after_a_few_failed_resumes_the_session_is_given_up() {
    let server = DiscordServer::start();
    let mut receiving = connected(&server).await;
    server.fail_gateway(GatewayFault::RefuseResumes(100));
    server.fail_gateway(GatewayFault::Cut);
    for _ in 0..4 {
        receiving = receiving.again().await;
    }
    wait_until("a new session begins", || server.frames(2).len() == 2).await;
    assert_eq!(server.frames(6).len(), 3);
    server.say(PERSON, "in the new session");
    assert_eq!(receiving.next_text().await, "in the new session");
    // It is resumed again, once it works.
    server.fail_gateway(GatewayFault::RefuseResumes(0));
    server.fail_gateway(GatewayFault::Cut);
    server.say(PERSON, "missed");
    let mut receiving = receiving.again().await;
    assert_eq!(receiving.next_text().await, "missed");
}

#[tokio::test]
async fn a_heartbeat_without_an_answer_ends_the_connection_and_not_the_session() {
    let server = DiscordServer::start();
    server.set_heartbeat_interval(Duration::from_millis(200));
    let mut receiving = connected(&server).await;
    wait_until("heartbeats come", || server.frames(1).len() >= 3).await;
    assert_eq!(server.frames(1).last().unwrap(), 3, "with the number of the last event");
    server.fail_gateway(GatewayFault::NoAck);
    wait_until("it resumes", || !server.frames(6).is_empty()).await;
    server.fail_gateway(GatewayFault::None);
    server.say(PERSON, "still there");
    assert_eq!(receiving.next_text().await, "still there");
    assert_eq!(server.frames(2).len(), 1);
}

#[tokio::test]
async fn the_place_is_stored_between_events_too() {
    let server = DiscordServer::start();
    server.set_heartbeat_interval(Duration::from_millis(200));
    let mut receiving = connected(&server).await;
    // Words of others are not stored, but the place behind them is.
    for _ in 0..5 {
        server.say_in(CHANNEL, PERSON, &json!({"content": "just talk"}));
    }
    let place = |cursor: &str| serde_json::from_str::<Value>(cursor).unwrap()["seq"].as_u64();
    loop {
        let (events, cursor) = timeout(PATIENCE, receiving.stored.recv()).await.unwrap().unwrap();
        assert_eq!(events, []);
        if place(&cursor.unwrap()) == Some(8) {
            break;
        }
    }
}

#[tokio::test]
async fn what_only_the_owner_can_change_is_said() {
    for (code, words) in [
        (4004, "reset it"),
        (4011, "too many servers"),
        (4013, "intents"),
        (4014, "Message Content Intent"),
    ] {
        let server = DiscordServer::start();
        let mut receiving = connected(&server).await;
        server.fail_gateway(GatewayFault::Close(code));
        let error = receiving.end().await;
        assert_eq!(error.kind, ConnectionErrorKind::Refused, "{code}");
        assert!(error.message.contains(words), "{error}");
    }
    let server = DiscordServer::start();
    server.forbid_reading();
    let error = Receiving::start(adapter(&server), None).end().await;
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    let server = DiscordServer::start();
    server.set_sessions_left(0);
    let error = Receiving::start(adapter(&server), None).end().await;
    assert_eq!(error.kind, ConnectionErrorKind::Lost);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_resume_address_of_somebody_else_does_not_get_the_token() {
    let (server, other) = (DiscordServer::start(), DiscordServer::start());
    let elsewhere = format!("{}/gw", other.base_url().replace("http://", "ws://"));
    let cursor = json!({"session": "s", "seq": 1, "url": elsewhere}).to_string();
    let mut receiving = Receiving::start(adapter(&server), Some(cursor.into()));
    server.say(PERSON, "here");
    assert_eq!(receiving.next_text().await, "here");
    assert!(other.frames(6).is_empty() && other.frames(2).is_empty());
}

#[tokio::test]
async fn threads_are_named_after_their_parent_and_deletions_are_told() {
    let server = DiscordServer::start();
    let mut receiving = connected(&server).await;
    let thread = server.add_thread(CHANNEL);
    let mention = json!({
        "content": format!("<@{BOT_ID}> look"), "mentions": [{"id": BOT_ID}],
    });
    server.say_in(&thread, PERSON, &mention);
    let event = receiving.next().await;
    assert_eq!(*event.chat, format!("{CHANNEL}#{thread}"));
    assert_eq!(&*event.sender.roles[0], "6000");
    let InboundKind::Message(message) = event.kind else { panic!() };
    assert_eq!((&*message.text, message.is_addressed), ("look", true));
    // The category that a channel is in is no parent of this kind.
    server.say_in(CHANNEL, PERSON, &mention);
    assert_eq!(&*receiving.next().await.chat, CHANNEL);
    server.say_in(&thread, PERSON, &mention);
    receiving.next().await;
    assert_eq!(server.calls("GET channel").len(), 2, "each is asked for once");
    server.delete(PERSON, 5);
    assert_eq!(receiving.next().await.kind, InboundKind::Deleted("5".into()));
}

#[tokio::test]
async fn commands_are_registered_and_confirmed() {
    use angelia_core::ports::ChatCommandHint;
    let server = DiscordServer::start();
    let mut receiving = connected(&server).await;
    let hints = [ChatCommandHint { name: "resume", about: "go on with another session" }];
    receiving.adapter.register_commands(&hints).await.unwrap();
    let registered = &server.calls("PUT commands")[0].fields[0];
    assert_eq!(registered["name"], "resume");
    server.use_command(PERSON, "resume", "ab12");
    assert_eq!(receiving.next_text().await, "/resume ab12");
    wait_until("it is confirmed", || server.calls("POST callback").len() == 1).await;
    let confirmed = &server.calls("POST callback")[0];
    assert_eq!((confirmed.status, &confirmed.fields["data"]["flags"]), (204, &json!(64)));
    assert_eq!(confirmed.fields["data"]["content"], "/resume ab12");
}

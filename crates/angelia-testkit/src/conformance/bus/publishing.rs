//! Publishing: acceptance, refusal, repetitions and broadcasts.

use std::time::Duration;

use angelia_core::ports::bus::{AttachRequest, Presence, PublishError};
use bytes::Bytes;

use super::{
    BusFixture, TestBusConfig,
    samples::{
        assert_empty, attach, broadcast, ids, message, name, positions, publish_accepted,
        take_deliveries,
    },
};

pub async fn receipts_tell_who_was_there(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let presence = async |id| publish_accepted(&bus, message("s", "r", id)).await.presence;
    assert_eq!(presence("1").await, Presence::NeverSeen);
    let inbox = attach(&bus, "r").await;
    assert_eq!(presence("2").await, Presence::Listening);
    drop(inbox);
    assert_eq!(presence("3").await, Presence::Away);
}

fn small_queue_config() -> TestBusConfig {
    TestBusConfig { max_queued: 3, ..TestBusConfig::default() }
}

pub async fn a_full_queue_refuses_and_keeps_what_it_has(fixture: &impl BusFixture) {
    let bus = fixture.open(&small_queue_config());
    let numbers: Vec<String> = (0..5).map(|n| n.to_string()).collect();
    let messages = numbers.iter().map(|id| message("s", "r", id)).collect();
    let published = bus.publish(messages, None).await;
    let receipts = published.await;
    assert!(receipts[..3].iter().all(Result::is_ok), "{receipts:?}");
    for receipt in &receipts[3..] {
        let Err(PublishError::Full { to, .. }) = receipt else {
            panic!("{receipt:?}");
        };
        assert_eq!(to, &name("r"));
    }
    assert_eq!(bus.counts().refused, 2);
    // A repetition needs no room.
    assert!(publish_accepted(&bus, message("s", "r", "0")).await.repeated);
    // A full queue does not affect other endpoints.
    publish_accepted(&bus, message("s", "other", "1")).await;
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 3).await), ["0", "1", "2"]);
}

pub async fn room_comes_with_acknowledgements(fixture: &impl BusFixture) {
    let bus = fixture.open(&small_queue_config());
    for id in ["1", "2", "3"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 3).await;
    inbox.ack(&positions(&got[..1]));
    publish_accepted(&bus, message("s", "r", "4")).await;
}

pub async fn a_stopped_receiver_slows_nobody(fixture: &impl BusFixture) {
    let bus = fixture.open(&small_queue_config());
    let _stopped = attach(&bus, "stopped").await;
    let mut refused = 0;
    for id in 0..100 {
        let sent = vec![message("s", "stopped", &id.to_string())];
        let published = bus.publish(sent, None).await;
        refused += published.await.iter().filter(|one| one.is_err()).count();
        let mut inbox = attach(&bus, "quick").await;
        publish_accepted(&bus, message("s", "quick", &id.to_string())).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.ack(&positions(&got));
    }
    assert_eq!(refused, 97);
}

pub async fn a_fast_sender_waits_for_a_slow_receiver(fixture: &impl BusFixture) {
    let bus = fixture.open(&small_queue_config());
    let mut inbox = attach(&bus, "r").await;
    let receive = async {
        for expected in 0..200 {
            let got = take_deliveries(&mut inbox, 1).await;
            assert_eq!(ids(&got), [expected.to_string()]);
            tokio::task::yield_now().await;
            inbox.ack(&positions(&got));
        }
    };
    let send = async {
        for id in 0..200 {
            publish_accepted(&bus, message("s", "r", &id.to_string())).await;
        }
    };
    tokio::join!(receive, send);
}

pub async fn what_is_too_large_is_refused_alone(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let limit = 10 * 1024 * 1024;
    let sized = |id, size| {
        let mut sized = message("s", "r", id);
        sized.envelope = Bytes::from(vec![b' '; size]);
        sized
    };
    let messages = vec![message("s", "r", "1"), sized("2", limit + 1), sized("3", limit)];
    let published = bus.publish(messages, None).await;
    let receipts = published.await;
    assert!(receipts[0].is_ok());
    assert!(matches!(&receipts[1], Err(PublishError::TooLarge { .. })));
    assert!(receipts[2].is_ok());
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 2).await;
    assert_eq!(ids(&got), ["1", "3"]);
    assert_eq!(got[1].message.envelope.len(), limit);
}

pub async fn a_repeat_is_delivered_once(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut inbox = attach(&bus, "r").await;
    let twice = vec![message("s", "r", "1"), message("s", "r", "1")];
    let published = bus.publish(twice, None).await;
    let receipts = published.await;
    let repeated = |n: usize| receipts[n].as_ref().unwrap().repeated;
    assert!(!repeated(0) && repeated(1));
    assert!(publish_accepted(&bus, message("s", "r", "1")).await.repeated);
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.ack(&positions(&got));
    assert!(publish_accepted(&bus, message("s", "r", "1")).await.repeated);
    assert_empty(&mut inbox).await;
}

pub async fn a_repeat_after_the_window_is_a_new_message(fixture: &impl BusFixture) {
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    publish_accepted(&bus, message("s", "r", "1")).await;
    wish.clock.advance(wish.dedupe_window);
    assert!(!publish_accepted(&bus, message("s", "r", "1")).await.repeated);
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 2).await), ["1", "1"]);
}

pub async fn an_id_with_another_body_is_refused(fixture: &impl BusFixture) {
    let with = |body: &str, ts: u32| {
        let mut with = message("s", "r", "1");
        let envelope = format!(r#"{{"type":"message","id":"1","ts":{ts},"body":{body}}}"#);
        with.envelope = Bytes::from(envelope);
        with
    };
    let config = TestBusConfig::default();
    let mut bus = fixture.open(&config);
    publish_accepted(&bus, with(r#"{"text":"a"}"#, 1)).await;
    if fixture.is_durable() {
        drop(bus);
        bus = fixture.open(&config);
    }
    assert!(publish_accepted(&bus, with(r#"{"text":"a"}"#, 2)).await.repeated, "only a new time");
    for body in [r#"{"text":"b"}"#, "null"] {
        let receipts = bus.publish(vec![with(body, 1)], None).await.await;
        let [Err(PublishError::IdReused { id })] = &receipts[..] else {
            panic!("{receipts:?}");
        };
        assert_eq!(&**id, "1");
    }
    assert_eq!((bus.counts().queued, bus.counts().refused), (1, 2));
    config.clock.advance(config.dedupe_window);
    assert!(!publish_accepted(&bus, with("null", 1)).await.repeated);
}

pub async fn ids_of_different_senders_and_receivers_are_different(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    for (from, to) in [("a", "r"), ("b", "r"), ("a", "q")] {
        assert!(!publish_accepted(&bus, message(from, to, "1")).await.repeated);
    }
}

pub async fn everyone_who_is_there_hears_a_broadcast(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let gone = attach(&bus, "gone").await;
    drop(gone);
    let mut inboxes = Vec::new();
    for endpoint in ["a", "b", "c"] {
        inboxes.push(attach(&bus, endpoint).await);
    }
    let receipt = publish_accepted(&bus, broadcast("1")).await;
    assert_eq!(receipt.presence, Presence::Listening);
    assert!(publish_accepted(&bus, broadcast("1")).await.repeated);
    for inbox in &mut inboxes {
        let got = take_deliveries(inbox, 1).await;
        assert_eq!(ids(&got), ["1"]);
        inbox.ack(&positions(&got));
    }
    assert_empty(&mut attach(&bus, "gone").await).await;
    assert_eq!(bus.counts().queued, 0);
}

pub async fn the_durable_hear_broadcasts_later(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let durable = AttachRequest { durable: true, ..AttachRequest::new(name("r")) };
    drop(bus.attach(durable).await.unwrap());
    let receipt = publish_accepted(&bus, broadcast("1")).await;
    assert_eq!(receipt.presence, Presence::NeverSeen, "nobody was there");
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 1).await), ["1"]);
}

pub async fn a_closed_bus_says_so(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    bus.close().await;
    let published = bus.publish(vec![message("s", "r", "2")], None).await;
    let receipts = published.await;
    assert!(matches!(&receipts[..], [Err(PublishError::Storage(_))]), "{receipts:?}");
}

pub async fn counts_add_up(fixture: &impl BusFixture) {
    let bus = fixture.open(&small_queue_config());
    let mut inbox = attach(&bus, "r").await;
    for id in ["1", "1", "2"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.ack(&positions(&got));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let counts = bus.counts();
    assert_eq!((counts.accepted, counts.repeated, counts.delivered), (2, 1, 1));
    assert_eq!((counts.listening, counts.queued, counts.dead), (1, 1, 0));
}

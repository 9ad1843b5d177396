//! Dead letters: messages that can no longer be delivered are kept, listed, and can be resent.

use std::time::Duration;

use angelia_core::ports::bus::BusError;

use super::{
    BusFixture, TestBusConfig,
    samples::{attach, ids, message, name, publish_accepted, take_deliveries},
};

pub async fn what_nobody_receives_in_time_is_a_dead_letter(fixture: &impl BusFixture) {
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    publish_accepted(&bus, message("s", "r", "1")).await;
    let nearly = wish.message_ttl.saturating_sub(Duration::from_secs(1));
    wish.clock.advance(nearly);
    publish_accepted(&bus, message("s", "r", "2")).await;
    assert!(bus.dead_letters(None, 10).await.unwrap().is_empty());
    wish.clock.advance(Duration::from_secs(1));
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 1).await), ["2"]);
    let dead = bus.dead_letters(None, 10).await.unwrap();
    let [dead] = &dead[..] else {
        panic!("one has died: {dead:?}");
    };
    assert_eq!((&*dead.message.id, &dead.to), ("1", &name("r")));
    assert!(!dead.reason.is_empty());
    assert_eq!(bus.counts().dead, 1);
}

pub async fn a_message_for_nobody_is_a_dead_letter_at_once(fixture: &impl BusFixture) {
    let config = TestBusConfig::default();
    let mut bus = fixture.open(&config);
    for _again in 0..2 {
        let reason = "nobody is there".to_owned();
        bus.store_dead_letter(message("s", "r", "1"), reason).await.unwrap();
    }
    if fixture.is_durable() {
        bus.close().await;
        drop(bus);
        bus = fixture.open(&config);
    }
    let dead = bus.dead_letters(None, 10).await.unwrap();
    let [dead] = &dead[..] else {
        panic!("one, however often it was sent: {dead:?}");
    };
    assert_eq!((&*dead.message.id, &dead.to), ("1", &name("r")));
    assert_eq!(dead.reason, "nobody is there");
    assert_eq!((bus.counts().queued, bus.counts().dead), (0, 1));
    assert!(bus.endpoints().is_empty(), "it waits in no queue");
    bus.resend(dead.position).await.unwrap();
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 1).await), ["1"]);
    assert_eq!(bus.counts().dead, 0);
}

pub async fn what_is_refused_is_a_dead_letter(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.dead_letter(got[0].position, "no rule for it");
    assert_eq!(bus.counts().queued, 0);
    let dead = bus.dead_letters(None, 10).await.unwrap();
    assert_eq!(dead[0].reason, "no rule for it");
    assert_eq!(dead[0].position, got[0].position);
}

pub async fn a_dead_letter_can_be_sent_again(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let sent = message("s", "r", "1");
    publish_accepted(&bus, sent.clone()).await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.dead_letter(got[0].position, "not now");
    let receipt = bus.resend(got[0].position).await.unwrap();
    assert!(!receipt.repeated, "a repeat on purpose is none");
    let again = take_deliveries(&mut inbox, 1).await;
    assert_eq!(again[0].message, sent);
    assert!(bus.dead_letters(None, 10).await.unwrap().is_empty());
    let twice = bus.resend(got[0].position).await;
    assert_eq!(twice, Err(BusError::NotFound));
}

pub async fn a_dead_letter_can_be_discarded(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.dead_letter(got[0].position, "no");
    bus.discard(got[0].position).await.unwrap();
    assert!(bus.dead_letters(None, 10).await.unwrap().is_empty());
    assert_eq!(bus.discard(got[0].position).await, Err(BusError::NotFound));
}

pub async fn dead_letters_are_paged_newest_first(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut inbox = attach(&bus, "r").await;
    for id in ["1", "2", "3"] {
        publish_accepted(&bus, message("s", "r", id)).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.dead_letter(got[0].position, "no");
    }
    let first = bus.dead_letters(None, 2).await.unwrap();
    let ids: Vec<_> = first.iter().map(|dead| &*dead.message.id).collect();
    assert_eq!(ids, ["3", "2"]);
    let rest = bus.dead_letters(Some(first[1].position), 2).await.unwrap();
    assert_eq!((rest.len(), &*rest[0].message.id), (1, "1"));
}

//! Persistence: the state after a restart, wherever the previous process was interrupted.

use angelia_core::ports::bus::{AttachRequest, Presence};

use super::{
    BusFixture, TestBusConfig,
    samples::{
        assert_empty, attach, broadcast, ids, message, name, positions, publish_accepted,
        take_deliveries,
    },
};

pub async fn what_was_accepted_survives(fixture: &impl BusFixture) {
    if !fixture.is_durable() {
        return;
    }
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    let sent: Vec<_> = (0..50).map(|n| message("s", "r", &n.to_string())).collect();
    let mut unverified = message("s", "q", "u");
    unverified.verified = false;
    unverified.from = None;
    publish_accepted(&bus, unverified.clone()).await;
    let published = bus.publish(sent.clone(), None).await;
    assert!(published.await.iter().all(Result::is_ok));
    drop(bus);
    let bus = fixture.open(&wish);
    publish_accepted(&bus, message("s", "r", "new")).await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 51).await;
    for (got, sent) in got.iter().zip(&sent) {
        assert_eq!(&got.message, sent);
    }
    assert_eq!(&*got[50].message.id, "new");
    let got = take_deliveries(&mut attach(&bus, "q").await, 1).await;
    assert_eq!(got[0].message, unverified);
}

pub async fn what_was_acknowledged_stays_so(fixture: &impl BusFixture) {
    if !fixture.is_durable() {
        return;
    }
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    for id in ["1", "2", "3"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let got = take_deliveries(&mut inbox, 3).await;
    inbox.ack(&positions(&[got[0].clone(), got[2].clone()]));
    bus.close().await;
    drop((inbox, bus));
    let bus = fixture.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    assert_eq!((ids(&got), got[0].redelivered), (vec!["2"], true));
    assert_empty(&mut inbox).await;
}

pub async fn repeats_are_recognised_after_a_start(fixture: &impl BusFixture) {
    if !fixture.is_durable() {
        return;
    }
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    let there = attach(&bus, "r").await;
    publish_accepted(&bus, message("s", "r", "1")).await;
    publish_accepted(&bus, broadcast("b")).await;
    drop((there, bus));
    let bus = fixture.open(&wish);
    assert!(publish_accepted(&bus, message("s", "r", "1")).await.repeated);
    assert!(publish_accepted(&bus, broadcast("b")).await.repeated);
    wish.clock.advance(wish.dedupe_window);
    assert!(!publish_accepted(&bus, message("s", "r", "1")).await.repeated);
}

pub async fn dead_letters_survive(fixture: &impl BusFixture) {
    if !fixture.is_durable() {
        return;
    }
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    for id in ["1", "2"] {
        publish_accepted(&bus, message("s", "r", id)).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.dead_letter(got[0].position, id);
    }
    let dead = bus.dead_letters(None, 9).await.unwrap();
    bus.discard(dead[0].position).await.unwrap();
    bus.close().await;
    drop((inbox, bus));
    let bus = fixture.open(&wish);
    let dead = bus.dead_letters(None, 9).await.unwrap();
    assert_eq!((dead.len(), &*dead[0].reason), (1, "1"));
    bus.resend(dead[0].position).await.unwrap();
    let got = take_deliveries(&mut attach(&bus, "r").await, 1).await;
    assert_eq!(ids(&got), ["1"]);
}

pub async fn tokens_and_durable_names_survive(fixture: &impl BusFixture) {
    if !fixture.is_durable() {
        return;
    }
    let wish = TestBusConfig::default();
    let bus = fixture.open(&wish);
    let claim = AttachRequest {
        durable: true,
        token: Some("secret".to_owned()),
        ..AttachRequest::new(name("r"))
    };
    drop(bus.attach(claim.clone()).await.unwrap());
    drop(bus);
    let bus = fixture.open(&wish);
    assert!(bus.verify_token("r", "secret"));
    assert!(bus.attach(AttachRequest::new(name("r"))).await.is_err());
    let receipt = publish_accepted(&bus, message("s", "r", "1")).await;
    assert_eq!(receipt.presence, Presence::Away, "it was here before");
    publish_accepted(&bus, broadcast("2")).await;
    let mut inbox = bus.attach(claim).await.unwrap();
    assert_eq!(ids(&take_deliveries(&mut inbox, 2).await), ["1", "2"]);
}

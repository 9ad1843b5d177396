//! Endpoint names: claiming, displacing, protecting and listing them.

use angelia_core::ports::bus::{
    AttachError, AttachRequest, InboxError, NameConflictPolicy, Presence,
};

use super::{
    BusFixture, TestBusConfig,
    samples::{
        attach, ids, message, name, positions, publish_accepted, take_deliveries,
        try_next_deliveries,
    },
};

fn claim_with_suffix(endpoint: &str) -> AttachRequest {
    AttachRequest { on_conflict: NameConflictPolicy::Suffix, ..AttachRequest::new(name(endpoint)) }
}

pub async fn the_last_to_claim_a_name_has_it_and_the_first_is_told(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut first = attach(&bus, "r").await;
    publish_accepted(&bus, message("s", "r", "1")).await;
    let got = take_deliveries(&mut first, 1).await;
    assert_eq!(ids(&got), ["1"]);
    // The first listener is displaced while it waits for a message.
    let (told, mut second) = tokio::join!(try_next_deliveries(&mut first, 1), attach(&bus, "r"));
    assert_eq!(told.unwrap_err(), InboxError::Displaced(name("r")));
    assert_ne!(first.session(), second.session());
    let got = take_deliveries(&mut second, 1).await;
    assert!(got[0].redelivered, "nothing is lost between them");
    drop(first);
    assert_eq!(bus.listeners(), [(name("r"), second.session())]);
}

pub async fn a_taken_name_gets_the_lowest_free_suffix(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut held = Vec::new();
    for expected in ["r", "r-2", "r-3", "r-4"] {
        let inbox = bus.attach(claim_with_suffix("r")).await.unwrap();
        assert_eq!(inbox.endpoint(), &name(expected));
        held.push(inbox);
    }
    drop(held.remove(2));
    let inbox = bus.attach(claim_with_suffix("r")).await.unwrap();
    assert_eq!(inbox.endpoint(), &name("r-3"));
}

pub async fn of_many_at_once_each_gets_its_own_name(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let bus = std::sync::Arc::clone(&bus);
        claims.spawn(async move { bus.attach(claim_with_suffix("r")).await.unwrap() });
    }
    let inboxes = claims.join_all().await;
    let mut names: Vec<_> = inboxes.iter().map(|one| one.endpoint().clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50);
}

pub async fn a_taken_name_can_be_refused(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let polite = || AttachRequest {
        on_conflict: NameConflictPolicy::Refuse,
        ..AttachRequest::new(name("r"))
    };
    let first = bus.attach(polite()).await.unwrap();
    let second = bus.attach(polite()).await.err();
    assert_eq!(second, Some(AttachError::Taken(name("r"))));
    drop(first);
    assert!(bus.attach(polite()).await.is_ok());
}

pub async fn a_token_protects_a_name(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let with = |token: &str| AttachRequest {
        token: Some(token.to_owned()),
        ..AttachRequest::new(name("r"))
    };
    let first = bus.attach(with("secret")).await.unwrap();
    for wrong in [with("guess"), AttachRequest::new(name("r"))] {
        let refused = bus.attach(wrong).await.err();
        assert_eq!(refused, Some(AttachError::WrongToken(name("r"))));
    }
    assert!(bus.verify_token("r", "secret"));
    assert!(!bus.verify_token("r", "guess"));
    assert!(!bus.verify_token("unknown", "secret"));
    drop(first);
    assert!(bus.attach(AttachRequest::new(name("r"))).await.is_err());
    assert!(bus.attach(with("secret")).await.is_ok());
    // A suffix avoids a name that another token protects.
    let around = bus.attach(claim_with_suffix("r")).await.unwrap();
    assert_eq!(around.endpoint(), &name("r-2"));
}

pub async fn names_are_listed_while_they_listen(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let b = attach(&bus, "b").await;
    let a = attach(&bus, "a").await;
    publish_accepted(&bus, message("s", "waiting", "1")).await;
    let listed = [(name("a"), a.session()), (name("b"), b.session())];
    assert_eq!(bus.listeners(), listed);
    let states = bus.endpoints();
    let queued: Vec<_> = states.iter().map(|one| (one.name.as_str(), one.queued)).collect();
    assert_eq!(queued, [("a", 0), ("b", 0), ("waiting", 1)]);
    assert_eq!(states[2].session, None);
    drop(a);
    assert_eq!(bus.listeners(), listed[1..]);
}

pub async fn a_displaced_listener_can_do_nothing_more(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    let mut first = attach(&bus, "r").await;
    let got = take_deliveries(&mut first, 1).await;
    let mut second = attach(&bus, "r").await;
    first.ack(&positions(&got));
    first.dead_letter(got[0].position, "no");
    assert_eq!(ids(&take_deliveries(&mut second, 1).await), ["1"]);
    assert!(try_next_deliveries(&mut first, 1).await.is_err());
}

pub async fn it_is_known_who_has_ever_listened(fixture: &impl BusFixture) {
    let mut bus = fixture.open(&TestBusConfig::default());
    assert_eq!(bus.presence(&name("r")), Presence::NeverSeen);
    publish_accepted(&bus, message("s", "r", "1")).await;
    assert_eq!(bus.presence(&name("r")), Presence::NeverSeen, "a message is no listener");
    let inbox = attach(&bus, "r").await;
    assert_eq!(bus.presence(&name("r")), Presence::Listening);
    drop(inbox);
    if fixture.is_durable() {
        drop(bus);
        bus = fixture.open(&TestBusConfig::default());
    }
    assert_eq!(bus.presence(&name("r")), Presence::Away);
}

//! Delivery: in order, and repeated until the receiver acknowledges.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{
    BusFixture, TestBusConfig,
    samples::{assert_empty, attach, ids, message, positions, publish_accepted, take_deliveries},
};

pub async fn a_message_arrives_as_it_was_sent(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let sent = message("sender", "receiver", "i\"d");
    let mut inbox = attach(&bus, "receiver").await;
    publish_accepted(&bus, sent.clone()).await;
    let got = take_deliveries(&mut inbox, 1).await;
    assert_eq!((&got[0].message, got[0].redelivered), (&sent, false));
}

pub async fn messages_of_one_sender_arrive_in_order(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut inbox = attach(&bus, "r").await;
    let numbers: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let mut waiting = Vec::new();
    // Publish some messages individually and some in batches, without waiting for any receipt.
    for part in numbers.chunks(7) {
        let messages = part.iter().map(|id| message("s", "r", id)).collect();
        waiting.push(bus.publish(messages, None).await);
    }
    let got = take_deliveries(&mut inbox, numbers.len()).await;
    assert_eq!(ids(&got), numbers);
    let positions = positions(&got);
    assert!(positions.is_sorted(), "{positions:?}");
    for published in waiting {
        assert!(published.await.iter().all(Result::is_ok));
    }
}

pub async fn what_waits_comes_first_on_return(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    for id in ["1", "2"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let mut inbox = attach(&bus, "r").await;
    publish_accepted(&bus, message("s", "r", "3")).await;
    let got = take_deliveries(&mut inbox, 3).await;
    assert_eq!(ids(&got), ["1", "2", "3"]);
}

pub async fn what_is_not_acknowledged_comes_again_in_order(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    for id in ["1", "2", "3", "4"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 3).await;
    inbox.ack(&positions(&got[1..2]));
    drop(inbox);
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 3).await;
    assert_eq!(ids(&got), ["1", "3", "4"]);
    let again: Vec<bool> = got.iter().map(|one| one.redelivered).collect();
    assert_eq!(again, [true, true, false]);
}

pub async fn what_is_acknowledged_does_not_come_again(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.ack(&positions(&got));
    // A repeated acknowledgement is not an error.
    inbox.ack(&positions(&got));
    drop(inbox);
    assert_empty(&mut attach(&bus, "r").await).await;
    assert_eq!(bus.counts().queued, 0);
}

pub async fn acknowledgements_may_come_in_any_order(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    for id in ["1", "2", "3"] {
        publish_accepted(&bus, message("s", "r", id)).await;
    }
    let mut inbox = attach(&bus, "r").await;
    let mut got = positions(&take_deliveries(&mut inbox, 3).await);
    got.reverse();
    inbox.ack(&got);
    assert_eq!(bus.counts().queued, 0);
}

pub async fn a_waiting_receiver_is_woken(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut inbox = attach(&bus, "r").await;
    let sent = message("s", "r", "1");
    let (got, _) = tokio::join!(take_deliveries(&mut inbox, 1), publish_accepted(&bus, sent));
    assert_eq!(ids(&got), ["1"]);
}

pub async fn waiting_can_be_given_up_without_loss(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let mut inbox = attach(&bus, "r").await;
    for id in 0..20 {
        let id = id.to_string();
        let wait = tokio::time::timeout(Duration::from_micros(200), inbox.next(1));
        let given_up = wait.await;
        publish_accepted(&bus, message("s", "r", &id)).await;
        let got = match given_up {
            Ok(got) => got.unwrap(),
            Err(_) => take_deliveries(&mut inbox, 1).await,
        };
        assert_eq!(ids(&got), [id]);
        inbox.ack(&positions(&got));
    }
}

pub async fn senders_hear_of_delivery(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let (watch, mut delivered) = mpsc::channel(8);
    let messages = vec![message("s", "r", "1"), message("s", "r", "2")];
    let published = bus.publish(messages, Some(watch)).await;
    published.await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 2).await;
    assert!(delivered.try_recv().is_err(), "it is only taken");
    inbox.ack(&positions(&got));
    let heard = delivered.recv().await.unwrap();
    assert_eq!(heard.iter().map(|id| &**id).collect::<Vec<_>>(), ["1", "2"]);
    assert!(delivered.recv().await.is_none(), "there is no more to hear");
}

pub async fn whoever_does_not_acknowledge_is_handed_messages(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let (watch, mut delivered) = mpsc::channel(8);
    let published = bus.publish(vec![message("s", "r", "1")], Some(watch)).await;
    published.await;
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    inbox.mark_written(&positions(&got));
    assert_eq!(&*delivered.recv().await.unwrap()[0], "1");
    drop(inbox);
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 1).await;
    assert!(got[0].redelivered, "it was not acknowledged");
    inbox.ack(&positions(&got));
    assert!(delivered.recv().await.is_none(), "it is heard of once");
}

pub async fn a_sender_that_does_not_listen_misses_notices_only(fixture: &impl BusFixture) {
    let bus = fixture.open(&TestBusConfig::default());
    let (watch, delivered) = mpsc::channel(1);
    let mut inbox = attach(&bus, "r").await;
    for id in 0..10 {
        let sent = message("s", "r", &id.to_string());
        let published = bus.publish(vec![sent], Some(watch.clone())).await;
        published.await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.ack(&positions(&got));
    }
    assert_eq!(delivered.len(), 1);
    assert_eq!(bus.counts().delivered, 10);
}

//! Segments: many of them, large ones, and the disk space they free.

use std::{fs, time::Duration};

use angelia_backends::bus::{BusLimits, LocalBus, OpenBusError};
use angelia_core::model::bus::BusMessage;
use angelia_testkit::conformance::bus::{
    DELIVERY_TIMEOUT, TestBusConfig, attach, ids, message, positions, publish_accepted,
    take_deliveries,
};
use bytes::Bytes;

use crate::temp_bus::TempBus;

const MIB: usize = 1024 * 1024;

fn message_of_size(to: &str, id: &str, size: usize) -> BusMessage {
    let mut sized = message("s", to, id);
    sized.envelope = Bytes::from(vec![b' '; size]);
    sized
}

fn disk_bytes(place: &TempBus) -> u64 {
    let files = fs::read_dir(place.path().join("log")).unwrap();
    // A file that is being renamed is counted by the next call.
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DELIVERY_TIMEOUT;
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn messages_of_many_segments_come_in_order_also_after_a_start() {
    let place = TempBus::new();
    let wish = TestBusConfig::default();
    let bus = place.open(&wish);
    // More messages than fit into memory, and two that are larger than a segment.
    for number in 0..50 {
        let size = if number % 25 == 7 { 9 * MIB } else { MIB };
        publish_accepted(&bus, message_of_size("r", &number.to_string(), size)).await;
    }
    let expected: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 50).await), expected);
    drop((inbox, bus));
    let bus = place.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    assert_eq!(ids(&take_deliveries(&mut inbox, 50).await), expected);
}

#[tokio::test]
async fn space_is_given_back_around_a_message_that_waits() {
    let place = TempBus::new();
    let wish = TestBusConfig::default();
    let bus = place.open(&wish);
    publish_accepted(&bus, message("s", "away", "old")).await;
    let mut refuser = attach(&bus, "refuser").await;
    publish_accepted(&bus, message("s", "refuser", "dead")).await;
    let got = take_deliveries(&mut refuser, 1).await;
    refuser.dead_letter(got[0].position, "no");
    let mut inbox = attach(&bus, "r").await;
    for number in 0..120 {
        publish_accepted(&bus, message_of_size("r", &number.to_string(), MIB)).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.ack(&positions(&got));
    }
    wish.clock.advance(wish.dedupe_window);
    // The log is checked only when something is written to it.
    let mut number = 0;
    let deadline = tokio::time::Instant::now() + DELIVERY_TIMEOUT;
    while disk_bytes(&place) > 24 * MIB as u64 {
        assert!(tokio::time::Instant::now() < deadline, "{}", disk_bytes(&place));
        number += 1;
        publish_accepted(&bus, message("s", "r", &format!("more {number}"))).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.ack(&positions(&got));
        // A pause, or on a fast disk these messages themselves fill more than the limit.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bus.close().await;
    drop((inbox, refuser, bus));
    let bus = place.open(&wish);
    let got = take_deliveries(&mut attach(&bus, "away").await, 1).await;
    assert_eq!(ids(&got), ["old"]);
    let dead = bus.dead_letters(None, 9).await.unwrap();
    assert_eq!((dead.len(), &*dead[0].message.id), (1, "dead"));
    assert_eq!(bus.counts().queued, 1);
}

/// Folders at the names of the next segments make every attempt to create one fail, as a full disk
/// does.
#[tokio::test]
async fn space_is_given_back_after_copying_has_failed() {
    let place = TempBus::new();
    let wish = TestBusConfig::default();
    let bus = place.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    for number in 0..115 {
        let id = number.to_string();
        let to = if number % 5 == 0 { "away" } else { "r" };
        publish_accepted(&bus, message_of_size(to, &id, MIB)).await;
        if to == "r" {
            let got = take_deliveries(&mut inbox, 1).await;
            inbox.ack(&positions(&got));
        }
    }
    let log = place.path().join("log");
    let names = fs::read_dir(&log).unwrap().map(|file| file.unwrap().path());
    let numbers = names.filter_map(|path| {
        let stem = path.file_stem()?.to_str()?;
        u64::from_str_radix(stem, 16).ok()
    });
    let last = numbers.max().unwrap();
    let blocks: Vec<_> =
        (last + 1..last + 50).map(|number| log.join(format!("{number:016x}.log"))).collect();
    for block in &blocks {
        fs::create_dir(block).unwrap();
    }
    wish.clock.advance(wish.dedupe_window);
    let before = disk_bytes(&place);
    publish_accepted(&bus, message("s", "r", "wakes the writer")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(disk_bytes(&place) > before / 2, "nothing could be copied");
    for block in &blocks {
        fs::remove_dir(block).unwrap();
    }
    wait_until("given back", || disk_bytes(&place) < 80 * MIB as u64).await;
    let mut away = attach(&bus, "away").await;
    let expected: Vec<String> = (0..23).map(|n| (n * 5).to_string()).collect();
    assert_eq!(ids(&take_deliveries(&mut away, 23).await), expected);
}

#[tokio::test]
async fn a_quiet_bus_is_small_again() {
    let place = TempBus::new();
    let wish = TestBusConfig {
        dedupe_window: Duration::ZERO,
        message_ttl: Duration::from_millis(400),
        ..TestBusConfig::default()
    };
    let bus = place.open(&wish);
    let mut inbox = attach(&bus, "r").await;
    for number in 0..60 {
        publish_accepted(&bus, message_of_size("r", &number.to_string(), MIB)).await;
        let got = take_deliveries(&mut inbox, 1).await;
        inbox.ack(&positions(&got));
    }
    wait_until("small", || disk_bytes(&place) <= 16 * MIB as u64).await;
}

#[tokio::test]
async fn small_messages_need_little_space() {
    let place = TempBus::new();
    let wish = TestBusConfig {
        // Poll often. The bus's clock stands still, so no message expires.
        message_ttl: Duration::from_millis(400),
        max_queued: 2000,
        ..TestBusConfig::default()
    };
    let bus = place.open(&wish);
    assert_eq!(disk_bytes(&place), MIB as u64, "nothing was sent yet");
    for part in 0..4 {
        let numbers = (0..500).map(|n| (part * 500 + n).to_string());
        let messages = numbers.map(|id| message_of_size("r", &id, 300)).collect();
        let published = bus.publish(messages, None).await;
        assert!(published.await.iter().all(Result::is_ok));
    }
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, 2000).await;
    inbox.ack(&positions(&got));
    wait_until("little", || disk_bytes(&place) <= 2 * MIB as u64).await;
}

#[tokio::test]
async fn one_process_at_a_time_has_a_bus() {
    let place = TempBus::new();
    let wish = TestBusConfig::default();
    let bus = place.open(&wish);
    let clock = std::sync::Arc::clone(&wish.clock);
    let second = LocalBus::open(&place.path(), BusLimits::default(), clock);
    assert!(matches!(second, Err(OpenBusError::Held(_))));
    bus.close().await;
    drop(bus);
    place.open(&wish);
}

#[tokio::test]
async fn nobody_else_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = TempBus::new();
    let bus = place.open(&TestBusConfig::default());
    drop(attach(&bus, "r").await);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.path()), 0o700);
    assert_eq!(mode(place.path().join("log/0000000000000001.log")), 0o600);
    assert_eq!(mode(place.path().join("endpoints.jsonl")), 0o600);
}

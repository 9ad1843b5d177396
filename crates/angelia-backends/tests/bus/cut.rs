//! The log is truncated, torn or overwritten at any byte: the complete records before that byte are
//! there, in order, nothing after it is, and the bus continues from there.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use angelia_testkit::conformance::bus::{
    TestBusConfig, assert_empty, attach, ids, message, publish_accepted, take_deliveries,
};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::temp_bus::{TempBus, proptest_config};

const MESSAGES: usize = 40;
const LOG_FILE: &str = "log/0000000000000001.log";

/// A log and the offset at which each of its messages ends.
struct RecordedLog {
    log: Vec<u8>,
    ends: Vec<usize>,
}

fn recorded_log() -> &'static RecordedLog {
    static RECORDED_LOG: OnceLock<RecordedLog> = OnceLock::new();
    RECORDED_LOG.get_or_init(|| {
        let place = TempBus::new();
        let path = place.path().join(LOG_FILE);
        let write = async move {
            let bus = place.open(&TestBusConfig::default());
            let mut ends = Vec::new();
            for number in 0..MESSAGES {
                publish_accepted(&bus, message("s", "r", &number.to_string())).await;
                let log = fs::read(&path).unwrap();
                let last = log.iter().rposition(|byte| *byte != 0).unwrap();
                ends.push(last + 1);
            }
            let mut log = fs::read(&path).unwrap();
            log.truncate(ends[MESSAGES - 1] + 512);
            RecordedLog { log, ends }
        };
        // On a separate thread, because the caller may be inside a runtime.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let written = std::thread::spawn(move || runtime.block_on(write));
        written.join().unwrap()
    })
}

#[derive(Clone, Debug)]
enum Damage {
    /// The file ends at this byte.
    Short,
    /// The bytes were never written.
    Zeros,
    Garbage(u8),
    /// One block did not reach the disk, but later ones did.
    Hole(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Short),
        Just(Damage::Zeros),
        any::<u8>().prop_map(Damage::Garbage),
        (1_usize..600).prop_map(Damage::Hole),
    ]
}

fn apply_damage(log: &[u8], cut: usize, damage: &Damage) -> Vec<u8> {
    let (whole, rest) = log.split_at(cut);
    let mut bytes = whole.to_vec();
    match damage {
        Damage::Short => {}
        Damage::Zeros => bytes.resize(log.len(), 0),
        Damage::Garbage(byte) => {
            bytes.extend(rest.iter().map(|old| old.wrapping_add(byte | 1)));
        }
        Damage::Hole(length) => {
            let hole = rest.len().min(*length);
            bytes.extend(rest[..hole].iter().map(|old| !old));
            bytes.extend_from_slice(&rest[hole..]);
        }
    }
    bytes
}

fn write_log(log: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let bus = folder.path().join("bus");
    fs::create_dir_all(bus.join("log")).unwrap();
    fs::write(bus.join(LOG_FILE), log).unwrap();
    (folder, bus)
}

async fn check_recovery(bus: &Path, whole: usize) {
    let wish = TestBusConfig::default();
    let open = || {
        let clock = std::sync::Arc::clone(&wish.clock) as _;
        angelia_backends::bus::LocalBus::open(bus, crate::temp_bus::bus_limits(&wish), clock)
            .unwrap()
    };
    let mut expected: Vec<String> = (0..whole).map(|n| n.to_string()).collect();
    for new in ["new", "newer"] {
        let bus = open();
        let mut inbox = attach(&bus, "r").await;
        if !expected.is_empty() {
            let got = take_deliveries(&mut inbox, expected.len()).await;
            assert_eq!(ids(&got), expected);
        }
        assert_empty(&mut inbox).await;
        publish_accepted(&bus, message("s", "r", new)).await;
        expected.push(new.to_owned());
    }
}

proptest! {
    #![proptest_config(proptest_config(24))]

    #[test]
    fn what_is_whole_before_the_damage_is_there_and_nothing_behind_it(
        part in 0.0..1.0_f64,
        damage in damage(),
    ) {
        let written = recorded_log();
        let header = 24;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "any byte will do"
        )]
        let cut = header + (part * (written.log.len() - header) as f64) as usize;
        let whole = written.ends.iter().filter(|end| **end <= cut).count();
        let (_folder, bus) = write_log(&apply_damage(&written.log, cut, &damage));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_recovery(&bus, whole));
    }
}

#[tokio::test]
async fn a_file_that_was_not_finished_is_no_segment() {
    let place = TempBus::new();
    let log = place.path().join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("0000000000000001.log"), b"ANG").unwrap();
    fs::write(log.join("0000000000000002.new"), vec![1; 100]).unwrap();
    let bus = place.open(&TestBusConfig::default());
    publish_accepted(&bus, message("s", "r", "1")).await;
    drop(bus);
    let bus = place.open(&TestBusConfig::default());
    assert_eq!(bus.counts().queued, 1);
}

#[tokio::test]
async fn a_message_that_is_damaged_later_is_passed_over() {
    let written = recorded_log();
    let (_folder, bus_folder) = write_log(&written.log);
    let wish = TestBusConfig::default();
    let clock = std::sync::Arc::clone(&wish.clock) as _;
    let limits = crate::temp_bus::bus_limits(&wish);
    let bus = angelia_backends::bus::LocalBus::open(&bus_folder, limits, clock).unwrap();
    let file = fs::OpenOptions::new().write(true).open(bus_folder.join(LOG_FILE)).unwrap();
    file.write_all_at(b"!", written.ends[4] as u64 - 3).unwrap();
    let mut inbox = attach(&bus, "r").await;
    let got = take_deliveries(&mut inbox, MESSAGES - 1).await;
    assert!(!ids(&got).contains(&"4"), "{:?}", ids(&got));
    assert_eq!(&*got[MESSAGES - 2].message.id, "39");
}

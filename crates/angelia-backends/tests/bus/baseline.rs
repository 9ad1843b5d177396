//! The log that version 0.1.0 wrote (`fixtures/baseline-0.1.0`): every later version must read the
//! same messages from it.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use angelia_core::ports::bus::AttachRequest;
use angelia_testkit::conformance::bus::{TestBusConfig, name};

use crate::temp_bus::TempBus;

fn copy_of_baseline() -> TempBus {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/baseline-0.1.0/bus");
    let bus = TempBus::new();
    fs::create_dir_all(bus.path().join("log")).unwrap();
    for file in ["endpoints.jsonl", "log/0000000000000001.log"] {
        fs::copy(fixture.join(file), bus.path().join(file)).unwrap();
    }
    bus
}

#[tokio::test]
async fn the_log_of_the_baseline_is_read_as_it_was() {
    let folder = copy_of_baseline();
    // Between the first messages, which have expired, and the last two, which wait.
    let message_ttl = Duration::from_secs(1_800_000_000 - 1_794_866_938);
    let config = TestBusConfig { message_ttl, ..TestBusConfig::default() };
    let bus = folder.open(&config);
    let mut text = String::new();
    writeln!(text, "{:?}", bus.counts()).unwrap();
    for endpoint in bus.endpoints() {
        writeln!(text, "{endpoint:?}").unwrap();
    }
    for letter in bus.dead_letters(None, 100).await.unwrap() {
        writeln!(text, "{letter:?}").unwrap();
    }
    for receiver in ["listener", "nobody"] {
        let mut inbox = bus.attach(AttachRequest::new(name(receiver))).await.unwrap();
        for delivery in inbox.next(100).await.unwrap() {
            writeln!(text, "{delivery:?}").unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

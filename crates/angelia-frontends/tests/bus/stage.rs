//! The test setup: a bus in memory behind its own socket.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_backends::bus::{BusLimits, MemoryBus};
use angelia_core::{
    ports::{Bus, Clock},
    task::Tasks,
};
use angelia_frontends::bus::{Door, DoorLimits, listener};
use angelia_testkit::bus_peer::BusPeer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::broadcast;

pub(crate) struct Stage {
    _folder: TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) door: Door,
}

struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn fresh_uuid(&self) -> uuid::Uuid {
        uuid::Uuid::now_v7()
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(BusLimits::default(), DoorLimits::default()).await
    }

    pub(crate) async fn with(limits: BusLimits, door_limits: DoorLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bus/hermes-bus.sock");
        let clock: Arc<dyn Clock> = Arc::new(RealClock);
        let bus = MemoryBus::open(limits, Arc::clone(&clock));
        let door = Door {
            bus: Arc::clone(&bus),
            clock,
            tasks: Tasks::new(),
            heard: broadcast::channel(16).0,
            limits: door_limits,
            version: "test".into(),
        };
        let bound = listener::bind(&socket).await.unwrap();
        listener::serve(bound, door.clone());
        Self { _folder: folder, socket, bus, door }
    }

    pub(crate) async fn connect(&self) -> BusPeer {
        BusPeer::connect(&self.socket).await.unwrap()
    }

    /// Connects and registers as a client of hermes-bus does.
    pub(crate) async fn registered(&self, name: &str) -> BusPeer {
        let mut peer = self.connect().await;
        let reply = peer.ask(json!({"type": "register", "endpoint": name})).await;
        assert_eq!(reply["type"], "registered", "{reply}");
        peer
    }

    pub(crate) async fn asking(&self, name: &str) -> BusPeer {
        let mut peer = self.connect().await;
        let register = json!({"type": "register", "endpoint": name, "ack": true});
        let reply = peer.ask(register).await;
        assert_eq!(reply["type"], "registered", "{reply}");
        peer
    }

    /// Waits until exactly these endpoints are listed.
    pub(crate) async fn until_listed(&self, names: &[&str]) {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let listed = self.bus.listening();
            let listed: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
            if listed == names {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{listed:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn message(to: &str, id: &str) -> Value {
    json!({"type": "message", "to": to, "id": id, "ts": 1.5, "body": {"text": id}})
}

//! The test setup: a bus in a temporary folder behind its own socket.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_backends::bus::{BusLimits, LocalBus};
use angelia_core::{
    model::SessionId,
    ports::{Bus, Clock},
    task::TaskGroup,
};
use angelia_frontends::{
    bus::{ListenerContext, ListenerLimits, listener},
    socket::AgentSessions,
};
use angelia_testkit::{bus_peer::BusPeer, clock::SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::broadcast;

pub(crate) struct SocketHarness {
    _folder: TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) context: ListenerContext,
}

impl SocketHarness {
    pub(crate) async fn new() -> Self {
        Self::with_limits(BusLimits::default(), ListenerLimits::default()).await
    }

    pub(crate) async fn with_limits(limits: BusLimits, door_limits: ListenerLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bus/hermes-bus.sock");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let bus = LocalBus::open(&folder.path().join("bus"), limits, Arc::clone(&clock)).unwrap();
        let door = ListenerContext {
            bus: Arc::clone(&bus),
            clock,
            tasks: TaskGroup::new(),
            message_feed: broadcast::channel(16).0,
            limits: door_limits,
            agents: Arc::new(SocketAgents),
            version: "test".into(),
        };
        let bound = listener::bind(&socket).await.unwrap();
        listener::serve(bound, door.clone());
        Self { _folder: folder, socket, bus, context: door }
    }

    pub(crate) async fn connect(&self) -> BusPeer {
        BusPeer::connect(&self.socket).await.unwrap()
    }

    /// Connects and registers as a client of hermes-bus does.
    pub(crate) async fn connect_registered(&self, name: &str) -> BusPeer {
        let mut peer = self.connect().await;
        let reply = peer.request(json!({"type": "register", "endpoint": name})).await;
        assert_eq!(reply["type"], "registered", "{reply}");
        peer
    }

    pub(crate) async fn connect_with_ack(&self, name: &str) -> BusPeer {
        let mut peer = self.connect().await;
        let register = json!({"type": "register", "endpoint": name, "ack": true});
        let reply = peer.request(register).await;
        assert_eq!(reply["type"], "registered", "{reply}");
        peer
    }

    /// Waits until exactly these endpoints are listed.
    pub(crate) async fn wait_until_listed(&self, names: &[&str]) {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let listed = self.bus.listeners();
            let listed: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
            if listed == names {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{listed:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Agents whose mark ends with the id of their session.
struct SocketAgents;

impl AgentSessions for SocketAgents {
    fn session_of(&self, mark: &str) -> Option<SessionId> {
        mark.rsplit(':').next()?.parse().ok()
    }
}

pub(crate) fn message(to: &str, id: &str) -> Value {
    json!({"type": "message", "to": to, "id": id, "ts": 1.5, "body": {"text": id}})
}

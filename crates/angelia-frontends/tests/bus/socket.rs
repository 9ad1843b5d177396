//! The socket's name in the file system.

use std::{fs, os::unix::fs::PermissionsExt as _};

use angelia_frontends::bus::listener::{self, BindError};
use angelia_testkit::bus_peer::BusPeer;
use serde_json::json;

use crate::harness::{SocketHarness, message};

#[tokio::test]
async fn only_its_owner_may_use_it() {
    let stage = SocketHarness::new().await;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(stage.socket.as_path()), 0o600);
    assert_eq!(mode(stage.socket.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_removed_socket_is_bound_again_and_nobody_loses_anything() {
    let stage = SocketHarness::new().await;
    let mut receiver = stage.connect_registered("r").await;
    for _ in 0..2 {
        fs::remove_file(&stage.socket).unwrap();
        let mut sender = BusPeer::connect_with_retry(&stage.socket).await;
        sender.send(&message("r", "1")).await.unwrap();
    }
    assert_eq!(receiver.expect_frame().await["id"], "1");
}

#[tokio::test]
async fn a_living_daemon_is_not_displaced_and_a_dead_one_is() {
    let stage = SocketHarness::new().await;
    let second = listener::bind(&stage.socket).await;
    assert!(matches!(second, Err(BindError::InUse(_))), "{second:?}");
    let mut peer = stage.connect().await;
    assert_eq!(peer.request(json!({"type": "ping"})).await["type"], "pong");

    let dead = stage.socket.with_extension("dead");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let bound = listener::bind(&dead).await.unwrap();
    assert_eq!(bound.path(), dead);
    drop(bound);
    assert!(!dead.exists(), "it leaves nothing behind");
}

#[tokio::test]
async fn a_daemon_that_took_the_name_is_left_alone_until_it_is_gone() {
    let stage = SocketHarness::new().await;
    fs::remove_file(&stage.socket).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&stage.socket);
    // Our daemon may have rebound the socket first; then there is nothing to check.
    let Ok(other) = other else { return };
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_ok(), "it has been looked at, and lives");
    drop(other);
    let mut peer = loop {
        let mut peer = BusPeer::connect_with_retry(&stage.socket).await;
        if peer.send(&json!({"type": "ping"})).await.is_ok() {
            break peer;
        }
    };
    assert_eq!(peer.expect_frame().await["type"], "pong");
}

#[tokio::test]
async fn closing_the_door_closes_every_connection() {
    let stage = SocketHarness::new().await;
    let mut peer = stage.connect_registered("r").await;
    let patience = std::time::Duration::from_mins(1);
    assert!(stage.context.tasks.shutdown(patience).await);
    peer.assert_closed().await;
    assert!(!stage.socket.exists());
}

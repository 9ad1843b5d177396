//! Waits until the running daemon accepts a new key, so that the client works at once.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    cli::print,
    client::DaemonClient,
    config::{Home, KeyHash},
};

/// Ample, because the daemon checks its file every second.
const TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits if a daemon runs. Prints a note if the daemon will not accept the key.
pub(super) fn wait(home: &Home, config_file: &Path, key: KeyHash) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    let is_known = runtime.block_on(async {
        let Some(daemon) = DaemonClient::connect(&home.socket()).await else { return true };
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let Ok(config) = daemon.config().await else { return false };
            let keys = config.settings.get("http").and_then(|http| http.get("keys"));
            let mut keys = keys.and_then(|keys| keys.as_array()).into_iter().flatten();
            if keys.any(|known| known["sha256"] == key.to_hex()) {
                return true;
            }
            sleep(POLL_INTERVAL).await;
        }
        false
    });
    if !is_known {
        print::note(&format!(
            "angelia: the running daemon does not accept the key yet; it must follow {} \
             (`angelia status` shows its configuration)",
            config_file.display()
        ));
    }
}

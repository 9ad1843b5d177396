//! Logs in with a code that the person confirms on another page, and logs out again. Shared by providers and
//! MCP servers.

use std::path::Path;

use angelia_executors::{
    ExecutorHost,
    native::providers::{
        OAuthSettings,
        oauth::{device_flow::begin_login, login_file::LoginFile},
    },
};

use super::{
    error::{CommandError, Exit},
    print,
};

/// Logs in with each of these settings that has no login yet, or with all of them if each has one.
pub(super) async fn log_in(
    all: &[OAuthSettings],
    host: &ExecutorHost,
) -> Result<Exit, CommandError> {
    let is_missing =
        |settings: &&OAuthSettings| !LoginFile::of(settings, &host.logins_dir()).exists();
    let missing: Vec<&OAuthSettings> = all.iter().filter(is_missing).collect();
    for settings in if missing.is_empty() { all.iter().collect() } else { missing } {
        let pending = begin_login(settings).await?;
        let code = &pending.code;
        print::line(&format!("Open {} and enter the code {}", code.page, code.user_code))?;
        if let Some(page) = &code.page_with_code {
            print::line(&format!("or open {page}"))?;
        }
        let minutes = code.lifetime.as_secs().div_ceil(60);
        print::line(&format!("Waiting for you, for {minutes} min at most; Ctrl-C ends it."))?;
        pending.finish(host).await?;
        print::line(&format!("✓ logged in to {} at {}", settings.target, settings.server))?;
    }
    Ok(Exit::Done)
}

/// Removes the logins with these settings. `name` says what they are for.
pub(super) async fn log_out(
    name: &str,
    all: &[OAuthSettings],
    logins: &Path,
) -> Result<Exit, CommandError> {
    let mut removed = 0;
    for settings in all {
        let file = LoginFile::of(settings, logins).lock().await;
        let gone = file.and_then(|file| file.remove());
        removed += usize::from(gone.map_err(CommandError::internal)?);
    }
    let text = match removed {
        0 => format!("nobody was logged in to {name}"),
        _ => format!(
            "✓ logged out of {name}; the server may keep the grant until you revoke it there"
        ),
    };
    print::line(&text)?;
    Ok(Exit::Done)
}

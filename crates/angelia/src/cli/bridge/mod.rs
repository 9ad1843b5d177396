//! `angelia bridge`: JSONL over stdin and stdout, for host applications.
//!
//! - [`args`]: the flags and their meaning; [`own_model`]: the flags that name a model.

mod args;
mod own_model;

use std::{io, sync::Arc, time::Duration};

use angelia_core::model::TurnStatus;
use angelia_frontends::{
    bridge::{Bridge, RunResult, schema},
    stdio::{StdioInput, StdioOutput},
};
use angelia_wire::limits::MAX_FRAME_BYTES;
use tokio_util::sync::CancellationToken;

pub(crate) use self::args::BridgeArgs;
use super::{
    error::{CommandError, Exit},
    print,
    run::signals::{StopRequest, StopSignals},
};
use crate::{assemble::App, home_turns::HomeTurns};

/// How long the host may take to read the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Prints the JSON schema of requests and events.
pub(crate) fn print_schema() -> Result<Exit, CommandError> {
    print::line(&schema_text()?)
}

fn schema_text() -> Result<String, CommandError> {
    serde_json::to_string_pretty(&schema()).map_err(CommandError::internal)
}

pub(crate) async fn run(app: &Arc<App>, args: BridgeArgs) -> Result<Exit, CommandError> {
    let settings = args.into_settings()?;
    let mut signals = StopSignals::listen().map_err(CommandError::internal)?;
    let input = StdioInput::open(io::stdin(), MAX_FRAME_BYTES).map_err(CommandError::internal)?;
    let output = StdioOutput::open(io::stdout()).map_err(CommandError::internal)?;
    let once = settings.once;
    let turns = HomeTurns::open(app, "bridge", !once, settings.overrides).await?;
    let bridge = Bridge::new(Arc::clone(&turns.service), settings.defaults, output.clone(), once);
    let stop = CancellationToken::new();
    let ending = {
        let served = bridge.serve(input, &stop);
        tokio::pin!(served);
        loop {
            tokio::select! {
                ending = &mut served => break ending,
                request = signals.next() => match request {
                    StopRequest::Interrupt => stop.cancel(),
                    // A second signal skips the graceful shutdown.
                    StopRequest::Kill => break RunResult::Ended(TurnStatus::Interrupted),
                },
            }
        }
    };
    let closed = turns.close().await;
    if output.flush(FLUSH_TIMEOUT).await.is_err() {
        tracing::info!("the last events were not read");
    }
    print::check_stdio(&output)?;
    closed?;
    Ok(match ending {
        RunResult::Ended(status) if once => Exit::of_status(&status),
        RunResult::Refused if once => Exit::Failed,
        _ => Exit::Done,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[expect(
        clippy::disallowed_methods,
        reason = "asks whether the file is to be written; no part of the program"
    )]
    fn update() -> bool {
        std::env::var_os("UPDATE_DOCS").is_some()
    }

    #[test]
    fn the_schema_in_the_docs_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bridge.schema.json");
        let text = format!("{}\n", super::schema_text().unwrap());
        if update() {
            fs::write(&path, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == text,
            "docs/bridge.schema.json is not current: run `UPDATE_DOCS=1 cargo test -p angelia \
             the_schema_in_the_docs`"
        );
    }
}

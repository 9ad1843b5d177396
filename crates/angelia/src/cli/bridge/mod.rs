//! `angelia bridge`: JSONL over stdin and stdout, for host applications.
//!
//! - [`args`]: the flags and their meaning here.
//! - [`daemon`]: runs the turns in a daemon that is already running.

mod args;
mod daemon;

use std::{io, sync::Arc, time::Duration};

use angelia_frontends::{
    bridge::{Bridge, Ending, EngineTurns, Overrides, Turns, schema},
    stdio::{Input, Output},
};
use angelia_wire::limits::MAX_FRAME;
use tokio_util::sync::CancellationToken;

pub(crate) use self::args::BridgeArgs;
use self::{args::Settings, daemon::DaemonTurns};
use super::{
    error::{CommandError, Exit},
    print,
    run::{
        Place,
        signals::{Wish, Wishes},
    },
};
use crate::assemble::{App, Local};

/// How long the host may take to read the last lines.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Prints the JSON schema of requests and events.
pub(crate) fn print_schema() -> Result<Exit, CommandError> {
    print::line(&schema_text()?)
}

fn schema_text() -> Result<String, CommandError> {
    serde_json::to_string_pretty(&schema()).map_err(CommandError::internal)
}

pub(crate) async fn run(app: &Arc<App>, args: BridgeArgs) -> Result<Exit, CommandError> {
    let settings = args.settings()?;
    let mut wishes = Wishes::listen().map_err(CommandError::internal)?;
    let input = Input::open(io::stdin(), MAX_FRAME).map_err(CommandError::internal)?;
    let output = Output::open(io::stdout()).map_err(CommandError::internal)?;
    let once = settings.once;
    let (turns, local) = place(app, &settings).await?;
    let bridge = Bridge::new(turns, settings.defaults, output.clone(), once);
    let stop = CancellationToken::new();
    let ending = {
        let served = bridge.serve(input, &stop);
        tokio::pin!(served);
        loop {
            tokio::select! {
                ending = &mut served => break ending,
                wish = wishes.next() => match wish {
                    Wish::Interrupt => stop.cancel(),
                    // A second signal skips the graceful end.
                    Wish::Kill => break Ending::Interrupted,
                },
            }
        }
    };
    if let Some(local) = local {
        local.stop().await;
    }
    if output.written(LAST_LINES).await.is_err() {
        tracing::info!("the last events were not read");
    }
    Ok(if once { exit_of(ending) } else { Exit::Done })
}

/// Opens the turns in the daemon or in this process. Flags that override the profile are unknown to
/// the daemon, so they need an engine of this process.
async fn place(
    app: &Arc<App>,
    settings: &Settings,
) -> Result<(Arc<dyn Turns>, Option<Local>), CommandError> {
    if settings.overrides == Overrides::default()
        && let Some(daemon) = Place::daemon(app).await
    {
        return Ok((Arc::new(DaemonTurns::new(daemon)), None));
    }
    let local = Local::start(app, "bridge", !settings.once).await?;
    let turns = EngineTurns::new(
        local.engine.clone(),
        Arc::clone(&local.profiles) as _,
        settings.overrides.clone(),
    );
    Ok((Arc::new(turns), Some(local)))
}

fn exit_of(ending: Ending) -> Exit {
    match ending {
        Ending::Done => Exit::Done,
        Ending::Interrupted => Exit::Interrupted,
        Ending::Failed(kind) => Exit::of_failure(kind),
        Ending::Refused => Exit::Failed,
    }
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

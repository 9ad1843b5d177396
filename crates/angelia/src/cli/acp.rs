//! `angelia acp`: an ACP agent over stdio, for editors.
//!
//! The engine always runs in this process, so its agents end with the editor that started it. As
//! everywhere else, it waits for a session that another process holds.

use std::{io, sync::Arc, time::Duration};

use angelia_core::task::TaskGroup;
use angelia_frontends::{
    acp::{self, AcpSettings, ExecutorModels},
    stdio::{StdioInput, StdioOutput},
};
use angelia_wire::limits::MAX_FRAME_BYTES;
use clap::{Args, builder::NonEmptyStringValueParser};

use super::{
    error::{CommandError, Exit},
    print,
    run::signals::StopSignals,
};
use crate::assemble::{App, LocalEngine};

/// How long an editor may take to read the last messages at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The profile of new sessions; `default` when none is named.
    #[arg(short, long)]
    profile: Option<String>,

    /// The model of new sessions, as the agent's own CLI calls it.
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,
}

pub(crate) async fn run(app: &Arc<App>, args: AcpArgs) -> Result<Exit, CommandError> {
    let mut wishes = StopSignals::listen().map_err(CommandError::internal)?;
    let input = StdioInput::open(io::stdin(), MAX_FRAME_BYTES).map_err(CommandError::internal)?;
    let output = StdioOutput::open(io::stdout()).map_err(CommandError::internal)?;
    let local = LocalEngine::start(app, "acp", true).await?;
    let tasks = TaskGroup::new();
    let settings = AcpSettings {
        profile: args.profile.map(Into::into),
        model: args.model.map(Into::into),
        models: executor_models(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let serving = acp::serve(
        local.engine.clone(),
        Arc::clone(&local.profiles) as _,
        settings,
        input,
        output.clone(),
        &tasks,
    );
    let asked_to_go = tokio::select! {
        _ended = serving => false,
        _wish = wishes.next() => true,
    };
    let leaving = async {
        // End the turns before the tasks, so that their prompts are still answered.
        local.stop().await;
        tasks.shutdown(FLUSH_TIMEOUT).await;
        let _gone = output.flush(FLUSH_TIMEOUT).await;
    };
    tokio::select! {
        () = leaving => {}
        // A second signal skips the graceful shutdown.
        _wish = wishes.next() => {}
    }
    print::check_stdio(&output)?;
    Ok(if asked_to_go { Exit::Interrupted } else { Exit::Done })
}

fn executor_models() -> Vec<ExecutorModels> {
    let kinds = angelia_executors::EXECUTORS.iter();
    kinds
        .map(|kind| ExecutorModels {
            executor: kind.name.into(),
            models: (kind.model_ids.listed_models.iter()).map(|model| Arc::from(*model)).collect(),
        })
        .collect()
}

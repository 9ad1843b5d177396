//! How `angelia serve` takes over a standalone bus: it replaces the sockets with its own, ends the
//! other process, and continues with the same log (`docs/design/0019-bus-takeover.md`).

use angelia_frontends::bus::listener::{self, BoundSocket};

use super::{
    open::bind_error,
    process::{self, BusProcess, listens_on},
    sockets::BusSockets,
};
use crate::{assemble::App, cli::error::CommandError};

/// Sockets that are already bound. Clients that connect wait until the sockets are served.
#[derive(Default)]
pub(crate) struct BoundSockets {
    pub(crate) own: Option<BoundSocket>,
    pub(crate) hermes: Option<BoundSocket>,
}

/// Takes over the standalone bus of this home, if there is one. The calling process must hold the
/// daemon's pid file, which prevents another bus from starting.
pub(crate) async fn take_over(
    app: &App,
    sockets: &BusSockets,
) -> Result<BoundSockets, CommandError> {
    let BusProcess::Ours { pid, inside_serve: false } = process::find(app).await else {
        return Ok(BoundSockets::default());
    };
    let Some(other) = process::prove(app, pid).await? else {
        return Ok(BoundSockets::default());
    };
    let own = listener::replace(&sockets.own).map_err(|error| bind_error(&error))?;
    let hermes = match &sockets.hermes {
        Some(hermes) if listens_on(pid, hermes).await => {
            Some(listener::replace(hermes).map_err(|error| bind_error(&error))?)
        }
        _ => None,
    };
    process::end(app, other).await?;
    tracing::info!("took over the bus that process {pid} ran alone");
    Ok(BoundSockets { own: Some(own), hermes })
}

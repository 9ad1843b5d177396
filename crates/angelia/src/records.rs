//! The store, for commands that only look: reading needs no daemon and owns no session.

use std::sync::Arc;

use angelia_backends::owners::Owners;
use angelia_core::ports::Store;

use crate::{
    assemble::{self, App},
    cli::error::CommandError,
};

pub(crate) struct Records {
    pub(crate) store: Arc<dyn Store>,
}

impl Records {
    pub(crate) fn open(app: &App) -> Result<Self, CommandError> {
        app.home.prepare()?;
        let owner = Owners::new(app.home.owners())
            .enter("show")
            .map_err(CommandError::internal)?;
        Ok(Self {
            store: assemble::open_store(&app.home.state_db(), &Arc::new(owner))?,
        })
    }
}

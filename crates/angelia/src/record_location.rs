//! Where the record of sessions, turns and events is: a file in the home, or the database that `fleet.store`
//! names.

use std::{path::Path, sync::Arc};

use angelia_backends::{
    owners::{OwnerLock, OwnerRegistry},
    store::{Machine, PostgresAddress, PostgresStore, SqliteStore},
};
use angelia_core::ports::Store;

use crate::{
    cli::error::{CommandError, Exit},
    config::{Config, Environment, Home},
};

/// The variable with the password of the database.
const PASSWORD_VARIABLE: &str = "ANGELIA_STORE_PASSWORD";
/// The variable with the path of a password file, as Postgres programs use it.
const PASSFILE_VARIABLE: &str = "PGPASSFILE";

#[derive(Clone, Debug)]
pub(crate) enum RecordLocation {
    File(Arc<Path>),
    Database { address: Box<PostgresAddress>, machine: Machine },
}

impl RecordLocation {
    pub(crate) fn new(
        environment: &Environment,
        home: &Home,
        config: &Config,
    ) -> Result<Self, CommandError> {
        let fleet = config.fleet();
        let Some(address) = fleet.and_then(|fleet| fleet.store.as_ref()) else {
            return Ok(Self::File(home.state_db().into()));
        };
        let password = environment.non_empty(PASSWORD_VARIABLE);
        let password = password.map(|value| value.to_string_lossy().into_owned());
        let passfile = environment.non_empty(PASSFILE_VARIABLE).map(Path::new);
        let address = PostgresAddress::parse(&address.0, password.as_deref(), passfile)
            .map_err(|error| CommandError::new(Exit::Config, error.to_string()))?;
        let name = fleet.and_then(|fleet| fleet.machine.as_ref());
        let name = name.map_or_else(host_name, |name| name.0.clone());
        let machine = Machine { id: home.load_or_create_machine_id()?.into(), name: name.into() };
        Ok(Self::Database { address: Box::new(address), machine })
    }

    /// Opens the record for a process that owns sessions.
    pub(crate) fn open(self, owner: Arc<OwnerLock>) -> Result<Arc<dyn Store>, CommandError> {
        Ok(match self {
            Self::File(path) => {
                Arc::new(SqliteStore::open(&path, owner).map_err(CommandError::internal)?)
            }
            Self::Database { address, machine } => {
                let store = PostgresStore::open(*address, machine, owner);
                Arc::new(store.map_err(CommandError::internal)?)
            }
        })
    }

    /// Opens the record for a command that reads, and may write now and then.
    pub(crate) fn open_for_reading(
        self,
        owners: &OwnerRegistry,
        command: &'static str,
    ) -> Result<Arc<dyn Store>, CommandError> {
        Ok(match self {
            Self::File(path) => {
                let store = SqliteStore::open_for_reading(&path, owners, command);
                Arc::new(store.map_err(CommandError::internal)?)
            }
            Self::Database { address, machine } => {
                let store = PostgresStore::open_for_reading(*address, machine, owners, command);
                Arc::new(store.map_err(CommandError::internal)?)
            }
        })
    }
}

fn host_name() -> String {
    whoami::hostname().unwrap_or_else(|_unknown| "machine".to_owned())
}

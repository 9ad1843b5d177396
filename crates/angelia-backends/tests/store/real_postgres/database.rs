//! A database of its own on the server of this process, with the home of a machine that uses it.

use std::{path::Path, sync::Arc};

use angelia_backends::{
    owners::OwnerRegistry,
    store::{Machine, OpenPostgresError, PostgresAddress, PostgresStore},
};
use angelia_testkit::{
    postgres_query::Row,
    postgres_server::{self, PostgresServer},
};
use tempfile::TempDir;

pub(crate) struct TestDatabase {
    pub(crate) server: Arc<PostgresServer>,
    pub(crate) name: String,
    home: TempDir,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        Self::on(PostgresServer::shared().unwrap())
    }

    pub(crate) fn on(server: Arc<PostgresServer>) -> Self {
        let name = server.create_database().unwrap();
        Self { server, name, home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Opens the store as another process of this machine would.
    pub(crate) fn open(&self) -> PostgresStore {
        self.try_open(self.server.socket_folder(), &Self::machine("one")).unwrap()
    }

    pub(crate) fn machine(name: &str) -> Machine {
        Machine { id: name.into(), name: name.into() }
    }

    /// Opens the store through the socket in `folder`.
    pub(crate) fn try_open(
        &self,
        folder: &Path,
        machine: &Machine,
    ) -> Result<PostgresStore, OpenPostgresError> {
        let address = postgres_server::address(folder, &self.name);
        let address = PostgresAddress::parse(&address, None, None).unwrap();
        let owners = OwnerRegistry::new(self.home.path().join(&*machine.name).join("owners"));
        let owner = Arc::new(owners.register("run").unwrap());
        PostgresStore::open(address, machine.clone(), owner)
    }

    pub(crate) fn query(&self, sql: &str) -> Vec<Row> {
        self.server.query(&self.name, &format!("SET search_path = angelia; {sql}")).unwrap()
    }

    /// Returns the only value that a query has.
    pub(crate) fn value(&self, sql: &str) -> String {
        self.query(sql)[0][0].clone().unwrap()
    }
}

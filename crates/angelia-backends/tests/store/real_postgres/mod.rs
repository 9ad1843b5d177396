//! The store in a real Postgres server: the same suite as the others, and what only such a store can meet.

mod database;
mod faults;
mod opening;
mod owners;
mod restart;
mod tls;

use std::sync::Arc;

use angelia_core::ports::Store;
use angelia_testkit::{conformance::store::StoreFixture, store_conformance};

use self::database::TestDatabase;

impl StoreFixture for TestDatabase {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.open())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

store_conformance!(TestDatabase::new());

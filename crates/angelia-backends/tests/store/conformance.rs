//! One suite over both stores.

mod memory {
    use std::sync::Arc;

    use angelia_core::ports::Store;
    use angelia_testkit::{
        conformance::store::StoreFixture, memory_store::MemoryStore, store_conformance,
    };

    struct MemoryFixture;

    impl StoreFixture for MemoryFixture {
        fn open(&self) -> Arc<dyn Store> {
            Arc::new(MemoryStore::new())
        }

        fn is_shared(&self) -> bool {
            false
        }
    }

    store_conformance!(MemoryFixture);
}

mod sqlite {
    use std::sync::Arc;

    use angelia_core::ports::Store;
    use angelia_testkit::{conformance::store::StoreFixture, store_conformance};

    use crate::home::TempHome;

    impl StoreFixture for TempHome {
        fn open(&self) -> Arc<dyn Store> {
            Arc::new(self.open())
        }

        fn is_shared(&self) -> bool {
            true
        }
    }

    store_conformance!(TempHome::new());
}

//! One suite over both buses.

mod memory {
    use std::sync::Arc;

    use angelia_backends::bus::MemoryBus;
    use angelia_core::ports::Bus;
    use angelia_testkit::{
        bus_conformance,
        conformance::bus::{BusFixture, TestBusConfig},
    };

    use crate::temp_bus::bus_limits;

    struct MemoryFixture;

    impl BusFixture for MemoryFixture {
        fn open(&self, wish: &TestBusConfig) -> Arc<dyn Bus> {
            MemoryBus::open(bus_limits(wish), Arc::clone(&wish.clock) as _)
        }

        fn is_durable(&self) -> bool {
            false
        }
    }

    bus_conformance!(MemoryFixture);
}

mod local {
    use std::sync::Arc;

    use angelia_core::ports::Bus;
    use angelia_testkit::{
        bus_conformance,
        conformance::bus::{BusFixture, TestBusConfig},
    };

    use crate::temp_bus::TempBus;

    impl BusFixture for TempBus {
        fn open(&self, wish: &TestBusConfig) -> Arc<dyn Bus> {
            self.open(wish)
        }

        fn is_durable(&self) -> bool {
            true
        }
    }

    bus_conformance!(TempBus::new());
}

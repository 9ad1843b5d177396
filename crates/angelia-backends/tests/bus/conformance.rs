//! The conformance suite on the bus on disk.

mod local {
    use std::sync::Arc;

    use angelia_core::ports::Bus;
    use angelia_testkit::{
        bus_conformance,
        conformance::bus::{BusFixture, TestBusConfig},
    };

    use crate::temp_bus::TempBus;

    impl BusFixture for TempBus {
        fn open(&self, config: &TestBusConfig) -> Arc<dyn Bus> {
            self.open(config)
        }

        fn is_durable(&self) -> bool {
            true
        }
    }

    bus_conformance!(TempBus::new());
}

//! One suite over both buses.

mod memory {
    use std::sync::Arc;

    use angelia_backends::bus::MemoryBus;
    use angelia_core::ports::Bus;
    use angelia_testkit::{
        bus_conformance,
        conformance::bus::{BusFixture, BusWish},
    };

    use crate::place::limits;

    struct Memory;

    impl BusFixture for Memory {
        fn open(&self, wish: &BusWish) -> Arc<dyn Bus> {
            MemoryBus::open(limits(wish), Arc::clone(&wish.clock) as _)
        }

        fn is_kept(&self) -> bool {
            false
        }
    }

    bus_conformance!(Memory);
}

mod local {
    use std::sync::Arc;

    use angelia_core::ports::Bus;
    use angelia_testkit::{
        bus_conformance,
        conformance::bus::{BusFixture, BusWish},
    };

    use crate::place::Place;

    impl BusFixture for Place {
        fn open(&self, wish: &BusWish) -> Arc<dyn Bus> {
            self.open(wish)
        }

        fn is_kept(&self) -> bool {
            true
        }
    }

    bus_conformance!(Place::new());
}

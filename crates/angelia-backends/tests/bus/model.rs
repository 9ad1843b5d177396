//! Runs random sequences of sends, receives and process deaths against a model made of simple
//! queues: segments, copies and reserves of the real bus must not be observable.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use angelia_core::ports::{
    Bus, BusInbox,
    bus::{BusDelivery, BusPosition},
};
use angelia_testkit::conformance::bus::{TestBusConfig, attach, message, next_deliveries};
use bytes::Bytes;
use proptest::prelude::*;

use crate::temp_bus::{TempBus, proptest_config};

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Send {
        to: usize,
        sizes: Vec<usize>,
    },
    /// Attaches, or stays attached.
    Take {
        name: usize,
        limit: usize,
    },
    /// Acknowledges received messages, from the newest or from the oldest.
    Ack {
        name: usize,
        count: usize,
        newest: bool,
    },
    Refuse {
        name: usize,
    },
    Detach {
        name: usize,
    },
    /// Advances the clock so far that repeats are forgotten and their segments can be freed.
    AdvanceClock,
    Reopen,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 60..400_usize,
        2 => 20_000..90_000_usize,
        1 => 300_000..1_300_000_usize,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        5 => (name(), prop::collection::vec(size(), 1..12))
            .prop_map(|(to, sizes)| Step::Send { to, sizes }),
        5 => (name(), 1..30_usize).prop_map(|(name, limit)| Step::Take { name, limit }),
        5 => (name(), 1..30_usize, any::<bool>())
            .prop_map(|(name, count, newest)| Step::Ack { name, count, newest }),
        1 => name().prop_map(|name| Step::Refuse { name }),
        1 => name().prop_map(|name| Step::Detach { name }),
        1 => Just(Step::AdvanceClock),
        2 => Just(Step::Reopen),
    ]
}

/// The model of one endpoint.
#[derive(Default)]
struct ModelQueue {
    /// Each message's number, its size, and whether it may have been delivered before.
    waiting: VecDeque<(u64, usize, bool)>,
    in_flight: Vec<(u64, usize, BusPosition)>,
}

impl ModelQueue {
    fn requeue_in_flight(&mut self) {
        while let Some((number, size, _)) = self.in_flight.pop() {
            self.waiting.push_front((number, size, true));
        }
    }
}

struct BusHarness {
    temp_bus: TempBus,
    options: TestBusConfig,
    bus: Option<Arc<dyn Bus>>,
    inboxes: HashMap<usize, Box<dyn BusInbox>>,
    queues: [ModelQueue; 3],
    refused: usize,
    sent: u64,
}

impl BusHarness {
    fn new() -> Self {
        let place = TempBus::new();
        let wish = TestBusConfig {
            message_ttl: Duration::from_hours(1000),
            max_queued: 10_000,
            ..TestBusConfig::default()
        };
        let bus = Some(place.open(&wish));
        Self {
            temp_bus: place,
            options: wish,
            bus,
            inboxes: HashMap::new(),
            queues: Default::default(),
            refused: 0,
            sent: 0,
        }
    }

    fn bus(&self) -> &Arc<dyn Bus> {
        self.bus.as_ref().unwrap()
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Send { to, sizes } => self.send(to, &sizes).await,
            Step::Take { name, limit } => self.take(name, limit).await,
            Step::Ack { name, count, newest } => self.ack(name, count, newest),
            Step::Refuse { name } => {
                if let Some((_, _, position)) = self.queues[name].in_flight.pop() {
                    let inbox = self.inboxes.get_mut(&name).unwrap();
                    inbox.dead_letter(position, "no");
                    self.refused += 1;
                }
            }
            Step::Detach { name } => {
                self.inboxes.remove(&name);
                self.queues[name].requeue_in_flight();
            }
            Step::AdvanceClock => self.options.clock.advance(self.options.dedupe_window * 2),
            Step::Reopen => self.reopen(),
        }
        let queued: usize =
            self.queues.iter().map(|one| one.waiting.len() + one.in_flight.len()).sum();
        let counts = self.bus().counts();
        assert_eq!((counts.queued, counts.dead), (queued, self.refused));
    }

    async fn send(&mut self, to: usize, sizes: &[usize]) {
        let mut messages = Vec::new();
        for size in sizes {
            self.sent += 1;
            let mut one = message("s", NAMES[to], &self.sent.to_string());
            one.envelope = Bytes::from(vec![b' '; *size]);
            messages.push(one);
            self.queues[to].waiting.push_back((self.sent, *size, false));
        }
        let published = self.bus().publish(messages, None).await;
        assert!(published.await.iter().all(Result::is_ok));
    }

    async fn take(&mut self, name: usize, limit: usize) {
        let bus = Arc::clone(self.bus());
        if let std::collections::hash_map::Entry::Vacant(place) = self.inboxes.entry(name) {
            place.insert(attach(&bus, NAMES[name]).await);
        }
        if self.queues[name].waiting.is_empty() {
            return;
        }
        let inbox = self.inboxes.get_mut(&name).unwrap();
        let got = next_deliveries(inbox, limit).await;
        assert!(!got.is_empty() && got.len() <= limit);
        for delivery in &got {
            self.queues[name].check(delivery);
        }
    }

    fn ack(&mut self, name: usize, count: usize, newest: bool) {
        let taken = &mut self.queues[name].in_flight;
        let count = count.min(taken.len());
        let range = if newest { taken.len() - count..taken.len() } else { 0..count };
        let done: Vec<BusPosition> = taken.drain(range).map(|(_, _, position)| position).collect();
        if let Some(inbox) = self.inboxes.get_mut(&name) {
            inbox.ack(&done);
        }
    }

    /// Drops the bus without closing it, as when its process dies.
    fn reopen(&mut self) {
        self.inboxes.clear();
        self.bus = None;
        for queue in &mut self.queues {
            queue.requeue_in_flight();
            // Messages in flight may or may not have been delivered.
            for (_, _, again) in &mut queue.waiting {
                *again = true;
            }
        }
        self.bus = Some(self.temp_bus.open(&self.options));
    }
}

impl ModelQueue {
    fn check(&mut self, delivery: &BusDelivery) {
        let (number, size, again) = self.waiting.pop_front().unwrap();
        assert_eq!(&*delivery.message.id, number.to_string());
        assert_eq!(delivery.message.envelope.len(), size);
        assert_eq!(delivery.redelivered, again, "of {number}");
        self.in_flight.push((number, size, delivery.position));
    }
}

proptest! {
    #![proptest_config(proptest_config(24))]

    #[test]
    fn a_bus_is_as_many_queues_as_it_has_names(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut stage = BusHarness::new();
            for step in steps {
                stage.step(step).await;
            }
            // Every message that is still due arrives, in order.
            stage.step(Step::Reopen).await;
            for name in 0..NAMES.len() {
                while !stage.queues[name].waiting.is_empty() {
                    stage.step(Step::Take { name, limit: 30 }).await;
                }
            }
        });
    }
}

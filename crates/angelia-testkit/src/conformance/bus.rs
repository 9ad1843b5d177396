//! The checks that every bus must pass. [`bus_conformance!`](crate::bus_conformance) turns each
//! check into a test; the modules group them by subject.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a check fails by panicking")]

mod dead_letters;
mod delivery;
mod durability;
mod names;
mod publishing;
mod samples;

use std::{sync::Arc, time::Duration};

use angelia_core::ports::Bus;

pub use self::{dead_letters::*, delivery::*, durability::*, names::*, publishing::*, samples::*};

/// Opens the bus under test on one storage, which is initially empty.
pub trait BusFixture: Send + Sync {
    /// Opens a bus on this fixture's storage, after any earlier one has been dropped. Dropping a
    /// bus without closing it simulates the death of its process.
    fn open(&self, wish: &TestBusConfig) -> Arc<dyn Bus>;

    /// Returns whether accepted messages survive reopening. If not, the checks about that do
    /// nothing.
    fn is_durable(&self) -> bool;
}

/// The configuration of a bus under test.
#[derive(Clone, Debug)]
pub struct TestBusConfig {
    pub message_ttl: Duration,
    pub max_queued: usize,
    pub dedupe_window: Duration,
    pub clock: Arc<ManualClock>,
}

impl Default for TestBusConfig {
    fn default() -> Self {
        Self {
            message_ttl: Duration::from_hours(1),
            max_queued: 1000,
            dedupe_window: Duration::from_mins(2),
            clock: Arc::default(),
        }
    }
}

/// Expands to one `#[tokio::test]` per check; the argument creates a fresh [`BusFixture`].
#[macro_export]
macro_rules! bus_conformance {
    ($fixture:expr) => {
        $crate::bus_conformance! { $fixture =>
            a_message_arrives_as_it_was_sent,
            messages_of_one_sender_arrive_in_order,
            what_waits_comes_first_on_return,
            what_is_not_acknowledged_comes_again_in_order,
            what_is_acknowledged_does_not_come_again,
            acknowledgements_may_come_in_any_order,
            a_waiting_receiver_is_woken,
            waiting_can_be_given_up_without_loss,
            senders_hear_of_delivery,
            whoever_does_not_acknowledge_is_handed_messages,
            a_sender_that_does_not_listen_misses_notices_only,
            receipts_tell_who_was_there,
            a_full_queue_refuses_and_keeps_what_it_has,
            room_comes_with_acknowledgements,
            a_stopped_receiver_slows_nobody,
            a_fast_sender_waits_for_a_slow_receiver,
            what_is_too_large_is_refused_alone,
            a_repeat_is_delivered_once,
            a_repeat_after_the_window_is_a_new_message,
            an_id_with_another_body_is_refused,
            ids_of_different_senders_and_receivers_are_different,
            everyone_who_is_there_hears_a_broadcast,
            the_durable_hear_broadcasts_later,
            the_last_to_claim_a_name_has_it_and_the_first_is_told,
            a_taken_name_gets_the_lowest_free_suffix,
            of_many_at_once_each_gets_its_own_name,
            a_taken_name_can_be_refused,
            a_token_protects_a_name,
            names_are_listed_while_they_listen,
            it_is_known_who_has_ever_listened,
            a_displaced_listener_can_do_nothing_more,
            what_nobody_receives_in_time_is_a_dead_letter,
            what_is_refused_is_a_dead_letter,
            a_dead_letter_can_be_sent_again,
            a_dead_letter_can_be_discarded,
            dead_letters_are_paged_newest_first,
            a_message_for_nobody_is_a_dead_letter_at_once,
            what_was_accepted_survives,
            what_was_acknowledged_stays_so,
            repeats_are_recognised_after_a_start,
            dead_letters_survive,
            tokens_and_durable_names_survive,
            a_closed_bus_says_so,
            counts_add_up,
        }
    };
    ($fixture:expr => $($check:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $check() {
                $crate::conformance::bus::$check(&$fixture).await;
            }
        )*
    };
}

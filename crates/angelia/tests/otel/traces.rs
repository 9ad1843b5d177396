//! Tests of the content of a span, and of the time at which it arrives.

use std::time::Duration;

use opentelemetry_proto::tonic::{common::v1::any_value::Value, trace::v1::status::StatusCode};

use crate::{
    collector::{Collector, ReceivedSpan},
    machine::{Machine, until},
};

const SECRET_WORDS: &str = "mellow-otter-prompt";

fn machine(collector: &Collector) -> Machine {
    let mut machine = Machine::new();
    machine.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    machine
}

fn only(spans: Vec<ReceivedSpan>) -> ReceivedSpan {
    assert_eq!(spans.len(), 1, "{spans:#?}");
    spans.into_iter().next().unwrap()
}

#[test]
fn a_turn_without_a_daemon_is_a_span_when_the_command_ends() {
    let collector = Collector::start();
    let machine = machine(&collector);
    let turn = machine.turn(&[&format!("{SECRET_WORDS}\n!words 5")]);
    let span = only(collector.spans());
    assert_eq!(span.span.name, "turn");
    assert_eq!(span.text("angelia.session"), turn.session());
    assert_eq!(span.text("angelia.turn"), turn.turn());
    assert_eq!(span.text("angelia.executor"), "parrot");
    assert_eq!(span.text("angelia.outcome"), "completed");
    let usage = &turn.end()["usage"];
    for kind in ["input_tokens", "output_tokens"] {
        let recorded = usage[kind].as_i64().unwrap();
        assert_eq!(span.integer(&format!("gen_ai.usage.{kind}")), recorded, "{usage}");
    }
    match span.attributes["angelia.first_word_seconds"] {
        Value::DoubleValue(seconds) => {
            assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
        }
        ref other => panic!("{other:?}"),
    }
    assert!(span.duration() > Duration::ZERO);
    assert_eq!(span.span.status.as_ref().unwrap().code(), StatusCode::Ok);
    let version = Value::StringValue(env!("CARGO_PKG_VERSION").into());
    assert_eq!(span.service["service.name"], Value::StringValue("angelia".into()));
    assert_eq!(span.service["service.version"], version);
    for words in [SECRET_WORDS, "You said", machine.work().to_str().unwrap()] {
        assert!(!collector.has_seen(words), "{words}");
    }
}

#[test]
fn a_daemon_sends_the_spans_of_its_turns_before_it_ends() {
    let collector = Collector::start();
    let mut machine = machine(&collector);
    machine.set("OTEL_SERVICE_NAME", "my-angelia");
    let daemon = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    machine.angelia(&["run", "!fail refused"]);
    daemon.stop().assert_code(0);
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "the commands themselves run no turn: {spans:#?}");
    for span in &spans {
        assert_eq!(span.service["service.name"], Value::StringValue("my-angelia".into()));
    }
    assert_eq!(spans[0].text("angelia.outcome"), "completed");
    assert_eq!(spans[1].text("angelia.outcome"), "failed");
    assert_eq!(spans[1].span.status.as_ref().unwrap().code(), StatusCode::Error);
    assert!(spans[1].attributes.contains_key("error.type"), "{spans:#?}");
}

#[test]
fn a_daemon_sends_spans_while_it_runs() {
    let collector = Collector::start();
    let mut machine = machine(&collector);
    machine.set("OTEL_BSP_SCHEDULE_DELAY", "50");
    let daemon = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    until("the span arrives", || collector.spans().len() == 1);
    daemon.stop().assert_code(0);
    assert_eq!(collector.spans().len(), 1, "and arrives once");
}

#[test]
fn a_restart_loses_no_span() {
    let collector = Collector::start();
    let mut machine = machine(&collector);
    // Longer than the test: nothing is sent but what must not be lost.
    machine.set("OTEL_BSP_SCHEDULE_DELAY", "600000");
    let daemon = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert!(collector.spans().is_empty(), "{:#?}", collector.spans());
    machine.angelia(&["restart"]).assert_code(0);
    only(collector.spans());
    machine.angelia(&["run", "again"]).assert_code(0);
    daemon.stop().assert_code(0);
    assert_eq!(collector.spans().len(), 2, "those of both programs, once");
}

#[test]
fn nothing_is_sent_unless_it_is_asked_for() {
    let collector = Collector::start();
    for (name, value) in [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "true")] {
        let mut machine = machine(&collector);
        machine.set(name, value);
        machine.angelia(&["run", "hello"]).assert_code(0);
    }
    assert!(collector.spans().is_empty(), "{:#?}", collector.spans());
    let mut machine = machine(&collector);
    machine.set("OTEL_TRACES_EXPORTER", "otlp");
    machine.angelia(&["run", "hello"]).assert_code(0);
    only(collector.spans());
}

/// A turn does not depend on the collector.
#[test]
fn a_turn_is_answered_although_nobody_collects() {
    let mut machine = Machine::new();
    machine.set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    machine.angelia(&["run", "hello"]).assert_code(0).assert_stdout("You said: hello");
    machine.set("OTEL_EXPORTER_OTLP_ENDPOINT", "no address");
    machine.angelia(&["run", "hello"]).assert_code(0).assert_stdout("You said: hello");
}

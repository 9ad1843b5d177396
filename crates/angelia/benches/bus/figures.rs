//! Collects the results, and prints their medians and whether they meet the goals.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    order: Vec<String>,
    samples: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        println!("  {name}: {}", format_value(value));
        if !self.samples.contains_key(name) {
            self.order.push(name.to_owned());
        }
        self.samples.entry(name.to_owned()).or_default().push(value);
    }

    fn median(&self, name: &str) -> Option<f64> {
        let mut samples = self.samples.get(name)?.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }

    pub(crate) fn print(&self) {
        println!("\nmedians");
        for name in &self.order {
            let median = self.median(name).unwrap_or_default();
            println!("  {name:<45} {:>12}", format_value(median));
        }
        println!("\ngoals");
        let median = |name: &str| self.median(name);
        Self::goal(
            "pipelined, times hermes-bus, at least 5",
            ratio(median("angelia: pipelined, msg/s"), median("hermes-bus: pipelined, msg/s")),
            |times| times >= 5.0,
        );
        Self::goal(
            "one at a time, msg/s, at least 4,000",
            median("angelia: one at a time, msg/s"),
            |rate| rate >= 4000.0,
        );
        Self::goal("100 msg/s, p50 ms, at most 0.3", median("angelia: 100 msg/s, p50 ms"), |ms| {
            ms <= 0.3
        });
        Self::goal(
            "100 msg/s, p99 times hermes-bus, at most 1.2",
            ratio(median("angelia: 100 msg/s, p99 ms"), median("hermes-bus: 100 msg/s, p99 ms")),
            |times| times <= 1.2,
        );
        Self::goal(
            "processor per message, µs, at most 3",
            median("angelia: processor per message, µs"),
            |each| each <= 3.0,
        );
        Self::goal(
            "p99 beside a stalled endpoint, times, at most 1.1",
            ratio(
                median("angelia: one stalled, p99 ms"),
                median("angelia: nobody stalled, p99 ms"),
            ),
            |times| times <= 1.1,
        );
        Self::goal("notify, ms, less than 50", median("angelia: notify, ms"), |ms| ms < 50.0);
        Self::goal(
            "10,000 endpoints, MB, less than 100",
            median("angelia: 10,000 endpoints, MB"),
            |memory| memory < 100.0,
        );
    }

    fn goal(what: &str, value: Option<f64>, is_met: impl Fn(f64) -> bool) {
        let Some(value) = value else {
            return;
        };
        let word = if is_met(value) { "met" } else { "MISSED" };
        println!("  {what:<52} {:>10}  {word}", format_value(value));
    }
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some(ours? / theirs?)
}

fn format_value(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

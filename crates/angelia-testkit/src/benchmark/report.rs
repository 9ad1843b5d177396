//! Series of samples, tables of them, and the goals that they must reach.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::time::Duration;

/// Sorted samples of one duration.
#[derive(Clone, Debug, Default)]
pub struct SampleSeries(Vec<Duration>);

impl SampleSeries {
    pub fn add(&mut self, sample: Duration) {
        let at = self.0.partition_point(|known| *known <= sample);
        self.0.insert(at, sample);
    }

    pub fn add_all(&mut self, samples: impl IntoIterator<Item = Duration>) {
        for sample in samples {
            self.add(sample);
        }
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> Duration {
        self.quantile(50)
    }

    pub fn p99(&self) -> Duration {
        self.quantile(99)
    }

    /// Returns the sample nearest to the quantile. With few samples, the 99th percentile is the
    /// largest one.
    fn quantile(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let at = (last * percent + 50) / 100;
        self.0.get(at).copied().unwrap_or_default()
    }

    fn max(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

/// The goals of a benchmark and whether they were reached, printed together at the end.
#[derive(Debug, Default)]
pub struct GoalReport {
    goals: Vec<(bool, String)>,
}

impl GoalReport {
    /// Adds the goal that `what` is at most `limit`.
    pub fn at_most(&mut self, what: &str, found: f64, limit: f64, unit: &str) {
        self.goal(found <= limit, format!("{what}: {found:.3} {unit}, at most {limit:.3}"));
    }

    /// Adds the goal that `what` is at least `limit`.
    pub fn at_least(&mut self, what: &str, found: f64, limit: f64, unit: &str) {
        self.goal(found >= limit, format!("{what}: {found:.2} {unit}, at least {limit:.2}"));
    }

    fn goal(&mut self, reached: bool, text: String) {
        self.goals.push((reached, text));
    }

    pub fn print_goals(&self) {
        println!("\ngoals");
        for (reached, text) in &self.goals {
            println!("  {} {text}", if *reached { "pass" } else { "FAIL" });
        }
    }
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Prints one row per series. The last column is the series' median divided by that of the first
/// row.
pub fn print_table(title: &str, rows: &[(&str, &SampleSeries)]) {
    println!("\n{title}");
    let head = ["ms", "n", "p50", "p99", "max", "× first"];
    let [unit, n, p50, p99, max, times] = head;
    println!("  {unit:<52} {n:>6} {p50:>9} {p99:>9} {max:>9} {times:>8}");
    let base = rows.first().map_or(0.0, |(_, series)| ms(series.median()));
    for (name, series) in rows {
        let (p50, p99, max) = (ms(series.median()), ms(series.p99()), ms(series.max()));
        let times = p50 / base;
        let n = series.count();
        println!("  {name:<52} {n:>6} {p50:>9.3} {p99:>9.3} {max:>9.3} {times:>8.2}");
    }
}

pub fn print_line(text: &str) {
    println!("  {text}");
}

pub fn print_section(title: &str) {
    println!("\n{title}");
}

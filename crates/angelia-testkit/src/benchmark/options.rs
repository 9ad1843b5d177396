//! The command-line options of a benchmark.

use anyhow::{Context as _, Result, bail};

#[derive(Debug, Default)]
pub struct BenchOptions {
    /// The number of measuring rounds.
    pub rounds: Option<u32>,
    only: Option<String>,
    pub executor: Option<String>,
}

impl BenchOptions {
    /// Reads `--rounds N`, and `--only PART` and `--executor NAME` if the benchmark has several
    /// parts or executors.
    pub fn read(parts: &[&str], executors: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rounds" => {
                    let count = words.next().context("--rounds needs a number")?;
                    let count = count.parse().ok().filter(|count| *count > 0);
                    options.rounds = Some(count.context("--rounds needs a number above 0")?);
                }
                "--only" => options.only = Some(one_of(&word, words.next(), parts)?),
                "--executor" => options.executor = Some(one_of(&word, words.next(), executors)?),
                // `cargo bench` adds this flag.
                "--bench" => {}
                other => bail!(
                    "unknown argument {other:?}; use --rounds N, --only PART, --executor NAME"
                ),
            }
        }
        Ok(options)
    }

    /// Returns whether to measure this part.
    pub fn includes_part(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn one_of(flag: &str, given: Option<String>, known: &[&str]) -> Result<String> {
    match given {
        Some(given) if known.contains(&given.as_str()) => Ok(given),
        _ if known.is_empty() => bail!("there is nothing to choose from by {flag} here"),
        _ => bail!("{flag} needs one of {}", known.join(", ")),
    }
}

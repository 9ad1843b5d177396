//! Counts the token usage of messages, turns and the whole process.

use serde_json::{Map, Value, json};

/// How the tokens of a message are counted.
#[derive(Clone, Copy, Debug)]
pub enum TokenCounting {
    /// Each word of the prompt, a tool result or the answer is one token; nothing costs anything.
    Words,
    /// Every message has the same counts, so that a test can check the sums.
    PerMessage(TokenCounts),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation_5m: u64,
    pub cache_creation_1h: u64,
    /// Millionths of a dollar.
    pub cost_micros: u32,
}

impl TokenCounts {
    pub(super) fn add(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
        self.cache_read += more.cache_read;
        self.cache_creation_5m += more.cache_creation_5m;
        self.cache_creation_1h += more.cache_creation_1h;
        self.cost_micros = self.cost_micros.saturating_add(more.cost_micros);
    }

    fn cache_creation(self) -> u64 {
        self.cache_creation_5m + self.cache_creation_1h
    }

    /// Returns the cost in dollars. Zero has no fraction, as JavaScript writes it.
    pub(super) fn cost(self) -> Value {
        match self.cost_micros {
            0 => json!(0),
            micros => json!(f64::from(micros) / 1e6),
        }
    }

    pub(super) fn as_usage(self) -> Value {
        json!({"input_tokens": self.input, "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_creation(),
            "cache_creation": {"ephemeral_5m_input_tokens": self.cache_creation_5m,
                "ephemeral_1h_input_tokens": self.cache_creation_1h},
            "service_tier": "standard"})
    }

    /// Returns the counts by model. As in Claude Code, the object is empty if nothing was counted.
    pub(super) fn by_model(self, model: &str, context_window: Option<u64>) -> Value {
        let mut models = Map::new();
        if self != Self::default() {
            let mut counts = json!({"inputTokens": self.input, "outputTokens": self.output,
                "cacheReadInputTokens": self.cache_read,
                "cacheCreationInputTokens": self.cache_creation(), "costUSD": self.cost()});
            if let Some(tokens) = context_window {
                counts["contextWindow"] = json!(tokens);
            }
            models.insert(model.to_owned(), counts);
        }
        Value::Object(models)
    }
}

pub(super) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

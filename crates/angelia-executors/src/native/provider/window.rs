//! Reads from a server's description how much a model can read and write. Servers have many names
//! for these limits. The owner's own figures always take precedence.

use serde_json::Value;

/// Used if the window is unknown.
pub const ASSUMED_CONTEXT: u64 = 32_768;

/// The known limits of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of the prompt and the answer together.
    pub context: Option<u64>,
    /// Tokens of one answer.
    pub output: Option<u64>,
}

impl ModelLimits {
    /// Fills in from `other` what is not known here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { context: self.context.or(other.context), output: self.output.or(other.output) }
    }

    /// Reads a server's description of a model: a list of models, a single model, or the properties
    /// of a server with one model.
    pub fn read(body: &str, model: &str) -> Self {
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            return Self::default();
        };
        let lists = [&body["data"], &body["models"], &body];
        let Some(models) = lists.into_iter().find_map(Value::as_array) else {
            return Self::of_model(&body);
        };
        let is_named = |entry: &&Value| {
            let names = [&entry["id"], &entry["name"], &entry["model"], &entry["key"]];
            names.into_iter().filter_map(Value::as_str).any(|name| name == model)
        };
        // A server with a single model uses it for any name.
        let only = if let [only] = models.as_slice() { Some(only) } else { None };
        models.iter().find(is_named).or(only).map(Self::of_model).unwrap_or_default()
    }

    fn of_model(model: &Value) -> Self {
        let first = |paths: &[&str]| paths.iter().find_map(|path| model.pointer(path)?.as_u64());
        // A server may load a smaller window than the model was trained for; then the loaded one
        // counts.
        let context = first(&[
            "/top_provider/context_length",
            "/loaded_context_length",
            "/meta/n_ctx",
            "/default_generation_settings/n_ctx",
            "/max_input_tokens",
            "/max_model_len",
            "/context_length",
            "/context_window",
            "/inputTokenLimit",
            "/max_context_length",
            "/meta/n_ctx_train",
        ]);
        let output = first(&[
            "/top_provider/max_completion_tokens",
            "/max_output_tokens",
            "/max_tokens",
            "/outputTokenLimit",
        ]);
        let context =
            parameter(model, "num_ctx").or(context).or_else(|| architecture_length(model));
        Self { context, output }
    }
}

/// Reads `num_ctx 8192` from the text of a model's parameters.
fn parameter(model: &Value, name: &str) -> Option<u64> {
    let lines = model["parameters"].as_str()?.lines();
    let mut values = lines.filter_map(|line| line.trim().strip_prefix(name));
    values.find_map(|value| value.trim().parse().ok())
}

/// Reads `model_info."ARCHITECTURE.context_length"`.
fn architecture_length(model: &Value) -> Option<u64> {
    let info = model["model_info"].as_object()?;
    let length = info.iter().find(|(key, _)| key.ends_with(".context_length"));
    length.and_then(|(_, length)| length.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_understood() {
        let table = [
            (
                r#"{"id":"m","max_input_tokens":200000,"max_tokens":64000}"#,
                Some(200_000),
                Some(64_000),
            ),
            (
                r#"{"data":[{"id":"x","context_length":1},{"id":"m","context_length":1000000,
                    "top_provider":{"context_length":262144,"max_completion_tokens":65536}}]}"#,
                Some(262_144),
                Some(65_536),
            ),
            (r#"{"object":"list","data":[{"id":"m","max_model_len":32768}]}"#, Some(32_768), None),
            (
                r#"{"models":[{"name":"m"}],"data":[{"id":"m","meta":{"n_ctx":4096,"n_ctx_train":8192}}]}"#,
                Some(4_096),
                None,
            ),
            (
                r#"{"default_generation_settings":{"n_ctx":2048},"total_slots":1}"#,
                Some(2_048),
                None,
            ),
            (
                r#"{"parameters":"stop \"x\"\nnum_ctx    16384","model_info":{"llama.context_length":131072}}"#,
                Some(16_384),
                None,
            ),
            (
                r#"{"model_info":{"general.architecture":"llama","llama.context_length":131072}}"#,
                Some(131_072),
                None,
            ),
            (
                r#"{"data":[{"id":"m","loaded_context_length":8192,"max_context_length":131072}]}"#,
                Some(8_192),
                None,
            ),
            (r#"{"data":[{"id":"a"},{"id":"m","object":"model"}]}"#, None, None),
            (r#"{"data":[{"id":"other","max_model_len":512}]}"#, Some(512), None),
            (r#"{"data":[{"id":"a","max_model_len":1},{"id":"b","max_model_len":2}]}"#, None, None),
            ("not json", None, None),
            ("[]", None, None),
        ];
        for (body, context, output) in table {
            assert_eq!(ModelLimits::read(body, "m"), ModelLimits { context, output }, "{body}");
        }
    }

    #[test]
    fn what_is_configured_counts_more() {
        let configured = ModelLimits { context: Some(1), output: None };
        let reported = ModelLimits { context: Some(2), output: Some(3) };
        assert_eq!(configured.or(reported), ModelLimits { context: Some(1), output: Some(3) });
    }
}

//! Decides how much a model can read and write. The owner's settings take precedence, then what the
//! server says, then the usual size of the model's family, then a cautious guess.

use super::{
    by_model::ByModel,
    key::ProviderKey,
    provider::Provider,
    short_request::{Question, SHORT_TIMEOUT, ask},
};
use crate::native::provider::{
    Api,
    window::{ASSUMED_CONTEXT, ModelLimits},
};

/// The smallest window among the current models of each family.
const FAMILIES: &[(&str, u64)] = &[
    ("gpt-5", 272_000),
    ("gpt-6", 272_000),
    ("claude-", 200_000),
    ("gemini-", 1_048_576),
    ("grok-", 131_072),
    ("deepseek-v4", 1_000_000),
    ("deepseek-", 65_536),
];

/// The size of a model's window, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelWindow {
    /// Tokens of the prompt and the answer together.
    pub context: u64,
    /// Tokens of one answer, if known.
    pub output: Option<u64>,
    pub source: WindowSource,
}

/// Where the size of a window comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSource {
    Configuration,
    /// The server was asked, or named it in an error.
    Server,
    Family,
    /// A guess, which the turn should report.
    Assumed,
}

impl WindowSource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "config",
            Self::Server => "server",
            Self::Family => "built_in",
            Self::Assumed => "assumed",
        }
    }
}

/// The windows that servers have reported.
#[derive(Debug, Default)]
pub(super) struct KnownWindows(ByModel<ModelLimits>);

impl KnownWindows {
    fn get(&self, provider: &Provider, model: &str) -> Option<ModelLimits> {
        self.0.get(provider, model)
    }

    /// Remembers what a server has said; later statements take precedence.
    pub(super) fn learn(&self, provider: &Provider, model: &str, limits: ModelLimits) {
        self.0.change(provider, model, |known| *known = limits.or(*known));
    }

    /// Returns what is known about a model without asking its server.
    pub(super) fn window_of(&self, provider: &Provider, model: &str) -> ModelWindow {
        let settings = provider.model(model);
        let configured = ModelLimits { context: settings.context, output: settings.output };
        let reported = self.get(provider, model).unwrap_or_default();
        let output = configured.or(reported).output;
        let family = || {
            let id = model.rsplit('/').next().unwrap_or(model);
            FAMILIES.iter().find(|(family, _)| id.starts_with(family)).map(|(_, size)| *size)
        };
        let (context, source) = if let Some(context) = configured.context {
            (context, WindowSource::Configuration)
        } else if let Some(context) = reported.context {
            (context, WindowSource::Server)
        } else if let Some(context) = family() {
            (context, WindowSource::Family)
        } else {
            (ASSUMED_CONTEXT, WindowSource::Assumed)
        };
        ModelWindow { context, output, source }
    }

    /// Asks the server about a model, once per address and model.
    pub(super) async fn discover(
        &self,
        provider: &Provider,
        key: Option<&ProviderKey>,
        model: &str,
    ) {
        if provider.model(model).context.is_some() || self.get(provider, model).is_some() {
            return;
        }
        let asked = tokio::time::timeout(SHORT_TIMEOUT, ask_for_limits(provider, key, model)).await;
        // A server that does not answer is remembered too, so that it is not asked before every
        // request.
        self.learn(provider, model, asked.unwrap_or_default());
    }
}

/// Asks a server for the limits of a model, in the different ways that servers support.
async fn ask_for_limits(
    provider: &Provider,
    key: Option<&ProviderKey>,
    model: &str,
) -> ModelLimits {
    let usual = match provider.api {
        Api::Messages => Question::Model(model),
        Api::Chat | Api::Responses => Question::Models,
    };
    // Two kinds of local servers report it only at addresses of their own.
    let at_home = [Question::Show(model), Question::LoadedModels];
    let further = if provider.is_local() { &at_home[..] } else { &[] };
    for question in std::iter::once(&usual).chain(further) {
        let Ok(answer) = ask(provider, key, question).await else {
            return ModelLimits::default();
        };
        let limits = ModelLimits::read(&answer.body, model);
        if answer.is_success() && limits.context.is_some() {
            return limits;
        }
    }
    ModelLimits::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::providers::{BuiltInProvider, ModelSettings};

    fn provider(name: &str) -> Provider {
        BuiltInProvider::find(name).and_then(BuiltInProvider::provider).unwrap()
    }

    #[test]
    fn the_nearest_word_about_a_window_counts() {
        let known = KnownWindows::default();
        let mut provider = provider("openrouter");
        let of = |known: &KnownWindows, provider: &Provider, model: &str| {
            let window = known.window_of(provider, model);
            (window.context, window.source)
        };
        assert_eq!(of(&known, &provider, "some/model"), (32_768, WindowSource::Assumed));
        assert_eq!(of(&known, &provider, "openai/gpt-5.5"), (272_000, WindowSource::Family));
        let said = ModelLimits { context: Some(9_000), output: Some(1_000) };
        known.learn(&provider, "openai/gpt-5.5", said);
        assert_eq!(of(&known, &provider, "openai/gpt-5.5"), (9_000, WindowSource::Server));
        // An overflow error names only the window.
        let learnt = ModelLimits { context: Some(8_000), output: None };
        known.learn(&provider, "openai/gpt-5.5", learnt);
        let window = known.window_of(&provider, "openai/gpt-5.5");
        assert_eq!((window.context, window.output), (8_000, Some(1_000)));
        let settings = ModelSettings { context: Some(7), ..ModelSettings::default() };
        provider.models.insert("openai/gpt-5.5".into(), settings);
        assert_eq!(of(&known, &provider, "openai/gpt-5.5"), (7, WindowSource::Configuration));
    }
}

//! How full the model's context window is: the tokens that the latest request of the main
//! conversation read and wrote, and the window size that the result reports for its model.

use angelia_core::model::ContextWindow;

use super::protocol::incoming::ModelUsages;

#[derive(Debug, Default)]
pub(crate) struct ContextUsage {
    /// The tokens of the latest request, or those left by a compaction.
    used: Option<u64>,
    /// The model that answered the request, by the API's name.
    model: Option<Box<str>>,
}

impl ContextUsage {
    /// Records a new request, which invalidates the previous count.
    pub(crate) fn start_request(&mut self, model: Option<&str>) {
        self.used = None;
        self.model = model.map(Into::into);
    }

    /// Records the tokens counted so far for the message of the current request.
    pub(crate) fn set_used(&mut self, tokens: u64) {
        self.used = Some(tokens);
    }

    pub(crate) fn set_compacted(&mut self, left: Option<u64>) {
        self.used = left;
    }

    /// Returns the usage and the window size. `chosen` is the CLI's name of the conversation's
    /// model.
    pub(crate) fn context_window(
        &self,
        models: &ModelUsages,
        chosen: Option<&str>,
    ) -> Option<ContextWindow> {
        let used = self.used?;
        let name = resolve_cli_model(models, self.model.as_deref().or(chosen), chosen)?;
        ContextWindow::from_reported(used, models.get(name)?.window.get()?)
    }
}

/// Returns the CLI's name for a model. The CLI has more names than the API: a name with `[1m]` is
/// the same model to the API, but has another window.
fn resolve_cli_model<'a>(
    models: &'a ModelUsages,
    model: Option<&str>,
    chosen: Option<&str>,
) -> Option<&'a str> {
    fn plain(name: &str) -> &str {
        name.split_once('[').map_or(name, |(plain, _)| plain)
    }
    // If there is only one model, it must be this one, whatever it is called.
    let could_be = |name: &&str| models.len() == 1 || model.map(plain) == Some(plain(name));
    let names: Vec<&str> = models.keys().map(String::as_str).filter(could_be).collect();
    match *names {
        [only] => Some(only),
        _ => names.into_iter().find(|name| Some(*name) == chosen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the models' usage with window sizes, by the CLI's names.
    fn models(windows: &[(&str, u64)]) -> ModelUsages {
        let one = |(name, window): &(&str, u64)| {
            let model = format!(r#"{{"contextWindow":{window}}}"#);
            ((*name).to_owned(), serde_json::from_str(&model).unwrap())
        };
        windows.iter().map(one).collect()
    }

    fn size(model: Option<&str>, chosen: Option<&str>, windows: &[(&str, u64)]) -> Option<u64> {
        let mut filling = ContextUsage::default();
        filling.start_request(model);
        filling.set_used(7);
        let context = filling.context_window(&models(windows), chosen)?;
        assert_eq!(context.used, 7);
        Some(context.size)
    }

    #[test]
    fn the_window_is_that_of_the_model_that_answered() {
        let two = [("big", 1000), ("small", 200)];
        assert_eq!(size(Some("small"), Some("big"), &two), Some(200));
        assert_eq!(size(None, Some("big"), &two), Some(1000));
        assert_eq!(size(Some("other"), Some("big"), &two), None);
        let long = [("big[1m]", 1000), ("small", 200)];
        assert_eq!(size(Some("big"), Some("big[1m]"), &long), Some(1000));
        // The model was changed. The chosen name distinguishes these two; the API's does not.
        let both = [("big", 200), ("big[1m]", 1000)];
        assert_eq!(size(Some("big"), Some("big"), &both), Some(200));
        assert_eq!(size(Some("big"), Some("big[1m]"), &both), Some(1000));
        assert_eq!(size(Some("big"), Some("small"), &both), None);
    }

    #[test]
    fn a_model_alone_needs_no_name() {
        let alone = [("region.vendor.big-v1:0", 1000)];
        assert_eq!(size(Some("big"), None, &alone), Some(1000));
        assert_eq!(size(None, None, &alone), Some(1000));
        assert_eq!(size(Some("big"), None, &[("big", 0)]), None, "not told");
        assert_eq!(size(Some("big"), None, &[]), None);
    }

    #[test]
    fn what_is_in_it_is_of_the_latest_request() {
        let models = models(&[("m", 1000)]);
        let used = |filling: &ContextUsage| Some(filling.context_window(&models, Some("m"))?.used);
        let mut filling = ContextUsage::default();
        assert_eq!(used(&filling), None);
        filling.set_used(300);
        filling.set_used(310);
        assert_eq!(used(&filling), Some(310));
        filling.set_compacted(Some(40));
        assert_eq!(used(&filling), Some(40));
        filling.start_request(Some("m"));
        assert_eq!(used(&filling), None, "not counted yet");
        filling.set_used(0);
        assert_eq!(used(&filling), None, "never counted");
    }
}

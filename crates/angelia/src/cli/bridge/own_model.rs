//! `--base-url`: a model that the runs of this process use through the built-in loop. It becomes a provider
//! and a profile that only this process knows.

use angelia_executors::native::{provider::Api, providers::check_address};

use super::BridgeArgs;
use crate::{cli::error::CommandError, config::Environment};

/// The name of both the provider and the profile.
pub(super) const OWN_NAME: &str = "from-flags";

/// The variable that contains the key.
const KEY_VARIABLE: &str = "ANGELIA_API_KEY";

impl BridgeArgs {
    /// Returns the model's address. Some hosts always pass the flag, possibly with an empty value.
    pub(super) fn own_base_url(&self) -> Option<&str> {
        self.base_url.as_deref().filter(|url| !url.is_empty())
    }

    /// Returns the settings that these flags represent, by path. A key from the command line becomes a
    /// variable of `environment`, because settings do not contain keys.
    pub(crate) fn own_settings(
        &self,
        environment: &mut Environment,
    ) -> Result<Vec<(String, String)>, CommandError> {
        let key = self.api_key.as_deref().filter(|key| !key.is_empty());
        let Some(base_url) = self.own_base_url() else {
            if key.is_none() {
                return Ok(Vec::new());
            }
            let error = CommandError::usage("--api-key has no effect without --base-url");
            return Err(error.with_hint(
                "agents have their own login; for one that reads a variable, set it under `env` of a profile \
                 in config.yaml",
            ));
        };
        check_address(base_url)
            .map_err(|error| CommandError::usage(format!("cannot use --base-url: {error}")))?;
        let Some(model) = self.model.as_deref().filter(|model| !model.is_empty()) else {
            let error = CommandError::usage("--base-url needs --model");
            return Err(error.with_hint("name a model as the server there calls it"));
        };
        if self.profile.is_some() {
            let error = CommandError::usage("--base-url and --profile exclude each other");
            return Err(error.with_hint(
                "a profile has its own executor and model; settings for all runs at --base-url belong under \
                 `executors.native` in config.yaml",
            ));
        }
        if let Some(key) = key {
            environment.set(KEY_VARIABLE, key);
        }
        let provider = |setting: &str| format!("providers.{OWN_NAME}.{setting}");
        let profile = |setting: &str| format!("profiles.{OWN_NAME}.{setting}");
        let mut settings = vec![
            (provider("api"), Api::Chat.as_str().to_owned()),
            (provider("base_url"), base_url.to_owned()),
            (profile("executor"), "native".to_owned()),
            (profile("model"), format!("{OWN_NAME}/{model}")),
        ];
        if environment.non_empty(KEY_VARIABLE).is_some() {
            settings.push((provider("keys"), KEY_VARIABLE.to_owned()));
        }
        Ok(settings)
    }
}

//! The settings of a session that the editor can change: its permission level and its model.
//!
//! Modes are our `permissions`. The person at the editor is the owner, who could write the same
//! into the configuration, so all three levels are offered; the profile's patterns apply in all of
//! them. The protocol has modes in an old and a newer form (config options); we send both.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};
use angelia_core::model::PermissionLevel;

/// The ids of the config options.
pub(super) const MODE_OPTION_ID: &str = "mode";
pub(super) const MODEL_OPTION_ID: &str = "model";

/// The option value that leaves the choice of a model to the agent.
pub(super) const DEFAULT_MODEL: &str = "default";

const LEVELS: [(PermissionLevel, &str, &str); 3] = [
    (PermissionLevel::Ask, "Ask", "You decide everything the agent asks about"),
    (
        PermissionLevel::Edit,
        "Edit",
        "Edits inside the working directory are allowed; you decide the rest",
    ),
    (
        PermissionLevel::Unattended,
        "Unattended",
        "Everything is allowed within the rules of the profile",
    ),
];

/// The current settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionSettings {
    pub(super) level: PermissionLevel,
    pub(super) model: Option<Arc<str>>,
    /// The models that the executor lists.
    pub(super) models: Vec<Arc<str>>,
}

pub(super) fn parse_level(id: &str) -> Option<PermissionLevel> {
    let mut levels = LEVELS.iter().map(|(level, ..)| *level);
    levels.find(|level| level.as_str() == id)
}

impl SessionSettings {
    pub(super) fn mode_state(&self) -> SessionModeState {
        let mode = |(level, name, about): &(PermissionLevel, &str, &str)| {
            SessionMode::new(level.as_str(), *name).description((*about).to_owned())
        };
        SessionModeState::new(self.level.as_str(), LEVELS.iter().map(mode).collect())
    }

    pub(super) fn config_options(&self) -> Vec<SessionConfigOption> {
        let level = |(level, name, about): &(PermissionLevel, &str, &str)| {
            SessionConfigSelectOption::new(level.as_str(), *name).description((*about).to_owned())
        };
        let levels: Vec<_> = LEVELS.iter().map(level).collect();
        let mut options = vec![
            SessionConfigOption::select(MODE_OPTION_ID, "Mode", self.level.as_str(), levels)
                .description("What the agent may do without asking".to_owned())
                .category(SessionConfigOptionCategory::Mode),
        ];
        if !self.models.is_empty() || self.model.is_some() {
            let current: Arc<str> = self.model.clone().unwrap_or_else(|| DEFAULT_MODEL.into());
            let own = SessionConfigSelectOption::new(DEFAULT_MODEL, "Default")
                .description("The agent's own choice".to_owned());
            let listed = self.models.iter().map(|model| &**model);
            // Some executors list the default model as `default` too.
            let listed = listed.filter(|model| *model != DEFAULT_MODEL);
            // The session may use a model that is not listed.
            let unlisted = (self.model.as_deref()).filter(|model| !self.lists_model(model));
            let models = listed.chain(unlisted);
            let models =
                models.map(|model| SessionConfigSelectOption::new(Arc::<str>::from(model), model));
            let values: Vec<_> = std::iter::once(own).chain(models).collect();
            options.push(
                SessionConfigOption::select(MODEL_OPTION_ID, "Model", current, values)
                    .description("From the next prompt on".to_owned())
                    .category(SessionConfigOptionCategory::Model),
            );
        }
        options
    }

    fn lists_model(&self, model: &str) -> bool {
        self.models.iter().any(|listed| **listed == *model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_always_among_the_choices() {
        let chosen = |model: Option<&str>| SessionSettings {
            level: PermissionLevel::Edit,
            model: model.map(Into::into),
            models: vec!["default".into(), "small".into(), "large".into()],
        };
        for model in [None, Some("large"), Some("odd-1")] {
            let options = serde_json::to_value(chosen(model).config_options()).unwrap();
            for option in options.as_array().unwrap() {
                let current = &option["currentValue"];
                let values = option["options"].as_array().unwrap();
                assert!(values.iter().any(|one| one["value"] == *current), "{option}");
                let mut names: Vec<_> = values.iter().map(|one| one["value"].as_str()).collect();
                names.sort_unstable();
                let count = names.len();
                names.dedup();
                assert_eq!(names.len(), count, "{option}");
            }
        }
        let none = SessionSettings { model: None, models: Vec::new(), level: PermissionLevel::Ask };
        assert_eq!(none.config_options().len(), 1);
        assert_eq!(parse_level("unattended"), Some(PermissionLevel::Unattended));
        assert_eq!(parse_level("bypass"), None);
    }
}

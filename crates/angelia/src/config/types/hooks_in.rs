//! Webhooks that start turns.

use std::sync::Arc;

use angelia_frontends::hooks_in::{HookScheme, check_template};
use serde::Serialize;

use super::{ProfileName, SecretSetting, choices::SchemeName};
use crate::config::{
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor, settings},
};

settings! {
    /// A webhook that starts turns, at `POST /hooks/NAME`.
    HookFields {
        /// Whose signature its requests carry.
        scheme: SchemeName = SchemeName::Angelia,
        /// Where to find the secret with which they are signed: `{env: NAME}`, `{file: PATH}` or `{command:
        /// [PROGRAM, …]}`. Required.
        secret: Option<SecretSetting> = None,
        /// The profile of its turns; in model mode, unless the profile itself has a `mode`.
        profile: Option<ProfileName> = None,
        /// The session that requests continue: a template. `null`: each request has its own.
        session: Option<TemplateText> = None,
        /// The prompt: a template over `body`, `headers` and `name`, whose values are quoted as JSON. `null`: the
        /// whole body.
        prompt: Option<TemplateText> = None,
        /// The channel or bus endpoint that gets the answer.
        reply: Option<String> = None,
    }
}

impl From<SchemeName> for HookScheme {
    fn from(name: SchemeName) -> Self {
        match name {
            SchemeName::Angelia => Self::Angelia,
            SchemeName::GitHub => Self::GitHub,
            SchemeName::Slack => Self::Slack,
            SchemeName::Stripe => Self::Stripe,
        }
    }
}

/// The name of a webhook, as used in its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct HookName(pub(crate) Arc<str>);

inline_schema!(HookName, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"});

impl TextSetting for HookName {
    const EXPECTS: &'static str = ProfileName::EXPECTS;

    fn parse(text: &str) -> Option<Self> {
        ProfileName::parse(text).map(|name| Self(name.0))
    }
}

/// A text that contains `{{ … }}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TemplateText(pub(crate) Arc<str>);

inline_schema!(TemplateText, {"type": "string", "minLength": 1});

impl Setting for TemplateText {
    fn expects() -> String {
        "text, with `{{ body.KEY }}` where a value of the request goes".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let text = place.text().filter(|text| !text.is_empty());
        let Some(text) = text else { return place.mismatch(&Self::expects()) };
        match check_template(text) {
            Ok(()) => Some(Self(text.into())),
            Err(error) => place.reject(&format!("is not a template: {error}")),
        }
    }
}

//! The billing lane, taken from the account that the program reports before any prompt.

use angelia_core::model::{Billing, Failure};
use serde::Deserialize;

use crate::{
    billing::{self, BillingHints},
    lenient::Lenient,
};

pub(crate) const SUBSCRIPTION_LANE: &str = "subscription";
pub(crate) const API_KEY_LANE: &str = "api_key";

/// The `account` of an `initialize` response.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaudeAccount {
    token_source: Option<String>,
    api_key_source: Option<String>,
    api_provider: Option<String>,
    subscription_type: Option<String>,
}

impl ClaudeAccount {
    /// Reads the account from the response to `initialize`.
    pub(crate) fn of_initialize(response: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct InitializeResponse {
            #[serde(default)]
            account: Lenient<ClaudeAccount>,
        }
        let response: InitializeResponse = serde_json::from_str(response).ok()?;
        response.account.0
    }

    /// Returns the billing lane, or `None` if there is no login or the program does not report it.
    pub(crate) fn billing_lane(&self) -> Option<&str> {
        if let Some(provider) = self.api_provider.as_deref()
            && provider != "firstParty"
        {
            return Some(provider);
        }
        // If both exist, the program uses the API key and not the login.
        if self.api_key_source.as_deref().is_some_and(is_named) {
            return Some(API_KEY_LANE);
        }
        if self.subscription_type.as_deref().is_some_and(is_named) {
            return Some(SUBSCRIPTION_LANE);
        }
        match self.token_source.as_deref().filter(|source| is_named(source))? {
            "claude.ai" => Some(SUBSCRIPTION_LANE),
            oauth if oauth.contains("OAUTH") => Some(SUBSCRIPTION_LANE),
            other => Some(other),
        }
    }

    /// Fails before the first prompt if the billing lane is not the one that the profile requires.
    pub(crate) fn check_billing(&self, wanted: Billing) -> Result<(), Failure> {
        let hints = BillingHints {
            subscription: "log in with the subscription (`claude`, then /login), take API keys out \
                           of `env` and `env_pass`, or set `billing: any`",
            api_key: "set the key in `env` or name it in `env_pass`, or set `billing: any`",
        };
        billing::check_billing("Claude Code", wanted, self.billing_lane(), hints)
    }
}

/// Reports whether the program names a source; `none` stands for a missing one.
pub(crate) fn is_named(source: &str) -> bool {
    !source.is_empty() && source != "none"
}

/// Returns the billing lane for the `authMethod` of `auth status`.
pub(crate) fn lane_for_auth_method(method: &str) -> Option<&'static str> {
    match method {
        "api_key" | "apiKeyHelper" | "api_key_helper" => Some(API_KEY_LANE),
        "claude.ai" | "oauth_token" => Some(SUBSCRIPTION_LANE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::FailureKind;

    use super::*;

    fn account(json: &str) -> ClaudeAccount {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn lanes_of_recorded_accounts() {
        let table = [
            (
                r#"{"tokenSource":"none","apiKeySource":"ANTHROPIC_API_KEY","apiProvider":"firstParty"}"#,
                Some(API_KEY_LANE),
            ),
            (r#"{"tokenSource":"none","apiProvider":"firstParty"}"#, None),
            (
                r#"{"tokenSource":"CLAUDE_CODE_OAUTH_TOKEN","apiProvider":"firstParty"}"#,
                Some(SUBSCRIPTION_LANE),
            ),
            (
                r#"{"tokenSource":"CLAUDE_CODE_OAUTH_TOKEN","apiKeySource":"ANTHROPIC_API_KEY","apiProvider":"firstParty"}"#,
                Some(API_KEY_LANE),
            ),
            (
                r#"{"tokenSource":"claude.ai","subscriptionType":"max","apiProvider":"firstParty"}"#,
                Some(SUBSCRIPTION_LANE),
            ),
            (
                r#"{"tokenSource":"ANTHROPIC_AUTH_TOKEN","apiProvider":"firstParty"}"#,
                Some("ANTHROPIC_AUTH_TOKEN"),
            ),
            (r#"{"apiProvider":"bedrock"}"#, Some("bedrock")),
            ("{}", None),
        ];
        for (json, lane) in table {
            assert_eq!(account(json).billing_lane(), lane, "{json}");
        }
    }

    #[test]
    fn an_unwanted_or_unknown_lane_is_refused_with_a_way_out() {
        let key = account(r#"{"apiKeySource":"ANTHROPIC_API_KEY"}"#);
        let login = account(r#"{"tokenSource":"claude.ai"}"#);
        let unknown = ClaudeAccount::default();
        for account in [&key, &login, &unknown] {
            assert!(account.check_billing(Billing::Any).is_ok());
        }
        assert!(key.check_billing(Billing::ApiKey).is_ok());
        assert!(login.check_billing(Billing::Subscription).is_ok());
        for (account, wanted) in [
            (&key, Billing::Subscription),
            (&login, Billing::ApiKey),
            (&unknown, Billing::Subscription),
            (&unknown, Billing::ApiKey),
        ] {
            let failure = account.check_billing(wanted).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Auth);
            assert!(failure.hint.unwrap().contains("billing: any"));
        }
    }
}

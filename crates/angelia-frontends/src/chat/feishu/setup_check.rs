//! Finds what the owner may have forgotten on the platform's pages: permissions, events, and callbacks, which
//! need a separate subscription.

use angelia_core::ports::{ChannelFinding, ConnectionError};
use serde_json::Value;

use super::{
    adapter::Feishu,
    open_api::{ApiRequest, OpenApiError},
};

/// The permissions that the bot needs: any one of each row, and what fails without them.
const SCOPES: [(&[&str], &str); 5] = [
    (&["im:message:send_as_bot", "im:message"], "the bot cannot answer"),
    (
        &["im:message.p2p_msg:readonly", "im:message.p2p_msg", "im:message"],
        "direct messages do not arrive",
    ),
    (
        &[
            "im:message.group_at_msg:readonly",
            "im:message.group_at_msg",
            "im:message.group_msg",
            "im:message",
        ],
        "mentions in groups do not arrive",
    ),
    (&["im:resource", "im:message"], "files and pictures fail"),
    (&["cardkit:card:write"], "answers are edited instead of streamed"),
];

/// The permission to read the app's subscriptions.
const SELF_SCOPE: &str = "application:application:self_manage";

const MESSAGE_EVENT: &str = "im.message.receive_v1";
const PRESS_CALLBACK: &str = "card.action.trigger";
const LONG_CONNECTION: &str = "websocket";

fn fine(text: impl Into<String>) -> ChannelFinding {
    ChannelFinding { is_problem: false, text: text.into() }
}

fn problem(text: impl Into<String>) -> ChannelFinding {
    ChannelFinding { is_problem: true, text: text.into() }
}

impl Feishu {
    pub(super) async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let bot = self.identity().await?;
        let mut findings = vec![fine(format!("the bot is {}", bot.name))];
        match self.api.call(&ApiRequest::get("application/v6/scopes")).await {
            Ok(answer) => findings.extend(check_scopes(&answer["data"]["scopes"])),
            Err(OpenApiError::Refused(refusal)) => {
                findings.push(fine(format!("the permissions cannot be read: {}", refusal.words)));
            }
            Err(error) => return Err(error.into()),
        }
        let path = format!("application/v6/applications/{}", self.api.app_id);
        match self.api.call(&ApiRequest::get(path).query("lang", "en_us")).await {
            Ok(answer) => findings.extend(check_subscriptions(&answer["data"]["app"])),
            Err(OpenApiError::Refused(_)) => findings.push(fine(format!(
                "the subscriptions cannot be read without the scope {SELF_SCOPE}; check yourself that \
                 \"Events\" has {MESSAGE_EVENT} and \"Callbacks\" has {PRESS_CALLBACK}, both by long connection"
            ))),
            Err(error) => return Err(error.into()),
        }
        Ok(findings)
    }
}

fn check_scopes(scopes: &Value) -> Vec<ChannelFinding> {
    let listed = scopes.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_granted = |name: &&str| {
        listed.iter().any(|scope| scope["scope_name"] == **name && scope["grant_status"] == 1)
    };
    let missing = SCOPES.iter().filter(|(names, _)| !names.iter().any(is_granted));
    let findings: Vec<ChannelFinding> = missing
        .map(|(names, without)| {
            let name = names.first().copied().unwrap_or_default();
            problem(format!(
                "the scope {name} is missing: {without}; add it on the page \"Permissions & Scopes\" and \
                 release a version of the app"
            ))
        })
        .collect();
    if findings.is_empty() { vec![fine("the app has its scopes")] } else { findings }
}

fn check_subscriptions(app: &Value) -> Vec<ChannelFinding> {
    let callback =
        if app["callback"].is_object() { &app["callback"] } else { &app["callback_info"] };
    let mut findings = Vec::new();
    for (kind, means, listed, wanted, without) in [
        (
            "Events",
            &app["event"]["subscription_type"],
            &app["event"]["subscribed_events"],
            MESSAGE_EVENT,
            "no message arrives",
        ),
        (
            "Callbacks",
            &callback["callback_type"],
            &callback["subscribed_callbacks"],
            PRESS_CALLBACK,
            "buttons do nothing",
        ),
    ] {
        let Some(means) = means.as_str() else {
            findings.push(fine(format!("the platform does not tell about \"{kind}\"")));
            continue;
        };
        let page = "on the page \"Events & Callbacks\" of the app";
        if means != LONG_CONNECTION {
            findings.push(problem(format!(
                "\"{kind}\" do not come by long connection: {without}; choose \"persistent connection\" {page}"
            )));
        }
        let has_wanted =
            listed.as_array().is_some_and(|listed| listed.iter().any(|one| one == wanted));
        if !has_wanted {
            findings.push(problem(format!(
                "\"{kind}\" lack {wanted}: {without}; add it {page}, and release a version"
            )));
        } else if means == LONG_CONNECTION {
            findings.push(fine(format!("\"{kind}\" have {wanted}")));
        }
    }
    findings
}

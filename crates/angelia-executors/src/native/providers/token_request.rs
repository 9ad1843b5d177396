//! Requests to the servers that issue tokens: they post a form or fetch a page, and get JSON back.

use std::time::Duration;

use reqwest::{RequestBuilder, Url};
use serde_json::Value;

use super::{
    address::{check_address, is_local_address},
    short_request::{ShortAnswer, send},
};
use crate::native::client::client_builder;

/// The time that a server has to issue a token.
pub(super) const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The answer to a request for a token.
#[derive(Debug, PartialEq)]
pub(super) struct TokenReply {
    pub(super) status: u16,
    /// `Null` if it is not JSON.
    pub(super) body: Value,
}

impl TokenReply {
    fn of(answer: &ShortAnswer) -> Self {
        let body = serde_json::from_str(&answer.body).unwrap_or_default();
        Self { status: answer.status, body }
    }

    pub(super) const fn is_success(&self) -> bool {
        200 <= self.status && self.status < 300
    }

    /// Returns the code of the error, such as `invalid_grant`.
    pub(super) fn error(&self) -> Option<&str> {
        self.body["error"].as_str()
    }

    /// Describes the error in the server's own words, which contain no token.
    pub(super) fn complaint(&self) -> String {
        let words = ["error_description", "error", "message"];
        let words = words.iter().find_map(|name| self.body[name].as_str());
        match words {
            Some(words) => format!("{words} ({})", self.status),
            None => format!("status {}", self.status),
        }
    }
}

/// Posts a form. The error says why there is no answer.
pub(super) async fn post_form(url: &str, form: &[(&str, &str)]) -> Result<TokenReply, String> {
    let body = encode_form(form);
    let client = client(url)?;
    let request = client
        .post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(body);
    ask(request).await
}

/// Fetches a page.
pub(super) async fn get(url: &str) -> Result<TokenReply, String> {
    ask(client(url)?.get(url).header("accept", "application/json")).await
}

pub(super) async fn ask(request: RequestBuilder) -> Result<TokenReply, String> {
    Ok(TokenReply::of(&send(request, TOKEN_TIMEOUT).await?))
}

/// Creates a client for an address to which secrets may be sent.
fn client(url: &str) -> Result<reqwest::Client, String> {
    check_address(url).map_err(|error| format!("the address {url} {error}"))?;
    let client = client_builder(is_local_address(url)).timeout(TOKEN_TIMEOUT);
    client.build().map_err(|_| "no HTTP client".to_owned())
}

/// Adds parameters to an address.
pub(super) fn with_query(url: &str, parameters: &[(&str, &str)]) -> Option<Url> {
    Url::parse_with_params(url, parameters).ok()
}

/// Encodes a form in the same way as the query of an address.
fn encode_form(form: &[(&str, &str)]) -> String {
    let url = with_query("http://form.invalid", form);
    url.as_ref().and_then(Url::query).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_keeps_every_character() {
        let form = [("scope", "openid offline_access"), ("secret", "a+b&c=d/ä%")];
        assert_eq!(
            encode_form(&form),
            "scope=openid+offline_access&secret=a%2Bb%26c%3Dd%2F%C3%A4%25"
        );
    }

    #[test]
    fn a_complaint_is_in_the_servers_words() {
        let reply = |body: &str| {
            TokenReply::of(&ShortAnswer { status: 400, body: body.to_owned() }).complaint()
        };
        let both = r#"{"error":"invalid_grant","error_description":"it was used"}"#;
        assert_eq!(reply(both), "it was used (400)");
        assert_eq!(reply(r#"{"error":"slow_down"}"#), "slow_down (400)");
        assert_eq!(reply("<html>"), "status 400");
    }
}

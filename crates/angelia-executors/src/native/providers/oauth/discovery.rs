//! Finds out where tokens are issued: an issuer publishes its addresses (by OIDC or RFC 8414), and
//! an MCP server publishes its issuer (RFC 9728). Asks only addresses that the owner has configured
//! or that the configured server has named.

use reqwest::Url;

use super::{LoginTarget, OAuthServer, OAuthSettings};
use crate::native::providers::token_request::get;

/// The addresses where a login is created and renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoginAddresses {
    pub(super) device_url: String,
    pub(super) token_url: String,
    /// The name by which the issuer knows the recipient of the tokens, if the recipient publishes
    /// one. The issuer then creates tokens that nobody else accepts (RFC 8707).
    pub(super) resource: Option<String>,
}

/// An MCP server's own description of its logins.
#[derive(Debug, PartialEq, Eq)]
struct ProtectedResource {
    resource: String,
    issuer: Option<String>,
}

impl OAuthSettings {
    /// Finds out where tokens are issued, by asking the servers for what the owner has not
    /// configured.
    pub(super) async fn addresses(&self) -> Result<LoginAddresses, String> {
        let described = match &self.target {
            LoginTarget::McpServer { url, .. } => describe_resource(url).await?,
            LoginTarget::Provider(_) => None,
        };
        let resource = described.as_ref().map(|described| described.resource.clone());
        let issuer = match &self.server {
            OAuthServer::Issuer(issuer) => issuer.to_string(),
            OAuthServer::Addresses { device_url, token_url } => {
                let (device_url, token_url) = (device_url.to_string(), token_url.to_string());
                return Ok(LoginAddresses { device_url, token_url, resource });
            }
            OAuthServer::NamedByTarget => described
                .and_then(|described| described.issuer)
                .ok_or("the server does not say who issues its tokens; set `issuer`")?,
        };
        let (device_url, token_url) = issuer_addresses(issuer.trim_end_matches('/')).await?;
        Ok(LoginAddresses { device_url, token_url, resource })
    }
}

/// Returns an issuer's addresses for codes and for tokens.
async fn issuer_addresses(issuer: &str) -> Result<(String, String), String> {
    let mut complaint = String::new();
    for page in issuer_pages(issuer) {
        let reply = get(&page).await?;
        if !reply.is_success() {
            complaint = reply.complaint();
            continue;
        }
        // A server must not speak for another issuer.
        let named = reply.body["issuer"].as_str().unwrap_or_default();
        if named.trim_end_matches('/') != issuer {
            return Err(format!("{issuer} says that it is `{named}`; correct `issuer`"));
        }
        let address = |name: &str| reply.body[name].as_str().map(str::to_owned);
        let (device, token) = (address("device_authorization_endpoint"), address("token_endpoint"));
        let (Some(device_url), Some(token_url)) = (device, token) else {
            return Err(format!("{issuer} offers no login with a code (device authorization)"));
        };
        return Ok((device_url, token_url));
    }
    Err(format!("{issuer} does not say where it issues tokens: {complaint}"))
}

/// Returns the pages where an issuer may publish its addresses. RFC 8414 puts the page's name
/// before the path of the issuer, and OIDC after it.
fn issuer_pages(issuer: &str) -> Vec<String> {
    let mut pages = vec![
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{issuer}/.well-known/oauth-authorization-server"),
    ];
    pages.extend(well_known(issuer, "oauth-authorization-server"));
    pages.dedup();
    pages
}

/// Asks an MCP server for its issuer; `None` if it publishes nothing. The page is on the server's
/// own host, so the server speaks for itself.
async fn describe_resource(url: &str) -> Result<Option<ProtectedResource>, String> {
    let mut pages: Vec<String> = well_known(url, "oauth-protected-resource").into_iter().collect();
    let root = Url::parse(url).ok().map(|url| url.origin().ascii_serialization());
    pages.extend(root.map(|root| format!("{root}/.well-known/oauth-protected-resource")));
    pages.dedup();
    for page in pages {
        let reply = get(&page).await?;
        if !reply.is_success() {
            continue;
        }
        let resource = reply.body["resource"].as_str().unwrap_or_default();
        // A server must not obtain tokens for another one.
        if !covers(resource, url) {
            return Err(format!("the server says that it is `{resource}`; correct `url`"));
        }
        let issuer = reply.body["authorization_servers"][0].as_str().map(str::to_owned);
        return Ok(Some(ProtectedResource { resource: resource.to_owned(), issuer }));
    }
    Ok(None)
}

/// Returns the address of a well-known page, whose name goes between the host and the path of
/// `address`.
fn well_known(address: &str, page: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    Some(format!("{origin}/.well-known/{page}{path}"))
}

/// Returns whether a resource is the address itself, or a parent path on the same host.
fn covers(resource: &str, address: &str) -> bool {
    let (Ok(resource), Ok(address)) = (Url::parse(resource), Url::parse(address)) else {
        return false;
    };
    let within = resource.path().trim_end_matches('/');
    let rest = address.path().strip_prefix(within);
    resource.origin() == address.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_before_the_path_and_after_it() {
        assert_eq!(
            issuer_pages("https://id.example.com/a"),
            [
                "https://id.example.com/a/.well-known/openid-configuration",
                "https://id.example.com/a/.well-known/oauth-authorization-server",
                "https://id.example.com/.well-known/oauth-authorization-server/a",
            ]
        );
        assert_eq!(issuer_pages("https://id.example.com").len(), 2);
        assert_eq!(
            well_known("https://x.example/mcp/?k=1", "oauth-protected-resource").unwrap(),
            "https://x.example/.well-known/oauth-protected-resource/mcp"
        );
    }

    #[test]
    fn a_resource_speaks_only_for_addresses_below_it() {
        let address = "https://x.example/mcp/tools?k=1";
        for resource in
            ["https://x.example", "https://x.example/mcp", "https://x.example/mcp/tools"]
        {
            assert!(covers(resource, address), "{resource}");
        }
        for resource in
            ["https://y.example/mcp", "http://x.example/mcp", "https://x.example/mc", "mcp", ""]
        {
            assert!(!covers(resource, address), "{resource}");
        }
    }
}

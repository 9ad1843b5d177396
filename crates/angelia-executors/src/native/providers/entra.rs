//! Microsoft Entra tokens, for Azure. They come from a client secret, from the token of a workload,
//! from the identity of the service or machine, or from the `az` program. The first that is
//! configured is used.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::RequestBuilder;

use super::{
    made_keys::MadeKey,
    printed_key,
    token_request::{self, TOKEN_TIMEOUT, TokenReply, post_form, with_query},
};
use crate::{ExecutorHost, native::client::client_builder};

/// The default scope of a token: Azure OpenAI.
pub const DEFAULT_SCOPE: &str = "https://cognitiveservices.azure.com/.default";

const AUTHORITY: &str = "https://login.microsoftonline.com";
const MACHINE_ADDRESS: &str = "http://169.254.169.254";

/// A machine with an identity accepts the connection at once, and any other machine never does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The form in which a workload's token is presented.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The owner's settings for the identity. Missing settings come from the environment variables that
/// Azure's own libraries read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntraSettings {
    pub tenant: Option<Arc<str>>,
    pub client_id: Option<Arc<str>>,
    /// The variable with the client's secret.
    pub secret_env: Option<Arc<str>>,
    /// The file with a workload's token.
    pub token_file: Option<PathBuf>,
    pub scope: Arc<str>,
}

impl Default for EntraSettings {
    fn default() -> Self {
        Self {
            tenant: None,
            client_id: None,
            secret_env: None,
            token_file: None,
            scope: DEFAULT_SCOPE.into(),
        }
    }
}

/// The settings, completed from the environment.
struct Identity<'a> {
    settings: &'a EntraSettings,
    variables: &'a BTreeMap<OsString, OsString>,
}

impl Identity<'_> {
    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then_some(value)
    }

    fn tenant(&self) -> Option<&str> {
        self.settings.tenant.as_deref().or_else(|| self.variable("AZURE_TENANT_ID"))
    }

    fn client_id(&self) -> Option<&str> {
        self.settings.client_id.as_deref().or_else(|| self.variable("AZURE_CLIENT_ID"))
    }

    fn secret(&self) -> Option<&str> {
        self.variable(self.settings.secret_env.as_deref().unwrap_or("AZURE_CLIENT_SECRET"))
    }

    fn token_file(&self) -> Option<&Path> {
        let variable = || self.variable("AZURE_FEDERATED_TOKEN_FILE").map(Path::new);
        self.settings.token_file.as_deref().or_else(variable)
    }

    /// Returns the address where a client of this tenant gets its tokens.
    fn token_url(&self, tenant: &str) -> String {
        let authority = self.variable("AZURE_AUTHORITY_HOST").unwrap_or(AUTHORITY);
        format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'))
    }

    /// Returns the scope in the form that older servers expect.
    fn resource(&self) -> &str {
        let scope = &*self.settings.scope;
        scope.strip_suffix("/.default").unwrap_or(scope)
    }
}

/// Gets a token. The error says what was tried.
pub(super) async fn fetch(
    settings: &EntraSettings,
    host: &ExecutorHost,
) -> Result<MadeKey, String> {
    let identity = Identity { settings, variables: &host.environment };
    let read = |reply: TokenReply| {
        let token = reply.is_success().then(|| MadeKey::from_json(&reply.body, host.clock.now()));
        token.flatten().ok_or_else(|| format!("Entra refuses a token: {}", reply.complaint()))
    };
    // Once a way is configured, its error is final, and nothing else is tried.
    if let (Some(tenant), Some(client)) = (identity.tenant(), identity.client_id()) {
        if let Some(secret) = identity.secret() {
            host.redactor.add([secret]);
            let form = client_form(&identity, client, [("client_secret", secret)]);
            return read(post_form(&identity.token_url(tenant), &form).await?);
        }
        if let Some(path) = identity.token_file() {
            let assertion = std::fs::read_to_string(path).map_err(|error| {
                format!("the token of the workload in {} cannot be read: {error}", path.display())
            })?;
            let assertion = assertion.trim();
            host.redactor.add([assertion]);
            let proof =
                [("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion)];
            let form = client_form(&identity, client, proof);
            return read(post_form(&identity.token_url(tenant), &form).await?);
        }
    }
    if let Some(request) = service_request(&identity) {
        return read(token_request::ask(request?).await?);
    }
    let machine = match machine_request(&identity) {
        Ok(request) => match token_request::ask(request).await {
            Ok(reply) if reply.is_success() => return read(reply),
            Ok(reply) => format!("the machine has no identity: {}", reply.complaint()),
            Err(reason) => format!("the machine has no identity: {reason}"),
        },
        Err(reason) => reason,
    };
    let az = printed_key::run(&az_command(&identity), host).await;
    az.map_err(|reason| {
        format!(
            "there is no client secret (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET) and no \
             workload token (AZURE_FEDERATED_TOKEN_FILE); {machine}; {reason}"
        )
    })
}

fn client_form<'a, const N: usize>(
    identity: &Identity<'a>,
    client: &'a str,
    proof: [(&'a str, &'a str); N],
) -> Vec<(&'a str, &'a str)> {
    let mut form = vec![
        ("grant_type", "client_credentials"),
        ("client_id", client),
        ("scope", &identity.settings.scope),
    ];
    form.extend(proof);
    form
}

/// Builds a request to the service that the process runs in; `None` if it runs in none.
fn service_request(identity: &Identity<'_>) -> Option<Result<RequestBuilder, String>> {
    let endpoint = identity.variable("IDENTITY_ENDPOINT")?;
    let secret = identity.variable("IDENTITY_HEADER")?;
    let request = identity_request(identity, endpoint, "2019-08-01");
    Some(request.map(|request| request.header("x-identity-header", secret)))
}

/// Builds a request to the machine's own identity service.
fn machine_request(identity: &Identity<'_>) -> Result<RequestBuilder, String> {
    let address = identity.variable("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or(MACHINE_ADDRESS);
    let url = format!("{}/metadata/identity/oauth2/token", address.trim_end_matches('/'));
    let request = identity_request(identity, &url, "2018-02-01")?;
    Ok(request.header("metadata", "true"))
}

/// Builds a request for the token of the identity of the machine or service. It bypasses proxies,
/// which would have another identity.
fn identity_request(
    identity: &Identity<'_>,
    url: &str,
    version: &str,
) -> Result<RequestBuilder, String> {
    let mut parameters = vec![("api-version", version), ("resource", identity.resource())];
    parameters.extend(identity.client_id().map(|client| ("client_id", client)));
    let url = with_query(url, &parameters).ok_or_else(|| format!("{url} is not an address"))?;
    let client =
        client_builder(true).connect_timeout(CONNECT_TIMEOUT).timeout(TOKEN_TIMEOUT).build();
    Ok(client.map_err(|_| "no HTTP client".to_owned())?.get(url))
}

fn az_command(identity: &Identity<'_>) -> Vec<Arc<str>> {
    let mut words = vec!["az", "account", "get-access-token", "--output", "json", "--scope"];
    words.push(&identity.settings.scope);
    if let Some(tenant) = identity.tenant() {
        words.extend(["--tenant", tenant]);
    }
    words.into_iter().map(Arc::from).collect()
}

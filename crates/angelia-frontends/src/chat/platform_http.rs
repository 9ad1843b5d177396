//! HTTP for the platform adapters. Credentials go to one server only: redirects are not followed,
//! plain HTTP is allowed only on this machine, and errors never name a URL, because it may contain a
//! token.

use std::time::Duration;

use angelia_core::ports::{SendError, SendErrorKind};
use reqwest::{Client, Response, Url, header, redirect};

#[derive(Debug, thiserror::Error)]
pub enum AddressProblem {
    #[error("`{0}` is not an http or https address")]
    NotHttp(String),
    #[error(
        "{0} would send texts over the network unencrypted; use https (http only for this machine)"
    )]
    Unencrypted(Url),
    #[error("cannot make HTTP requests: {0}")]
    Client(#[from] reqwest::Error),
}

/// Parses the address of a server that will receive credentials.
pub(super) fn parse_address(text: &str) -> Result<Url, AddressProblem> {
    let url: Url = text.parse().map_err(|_| AddressProblem::NotHttp(text.to_owned()))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(AddressProblem::Unencrypted(url)),
        _ => Err(AddressProblem::NotHttp(text.to_owned())),
    }
}

/// Creates a client. `timeout` limits a request including its response.
pub(super) fn build_client(timeout: Duration) -> Result<Client, AddressProblem> {
    use_crypto();
    let client =
        Client::builder().timeout(timeout).redirect(redirect::Policy::none()).no_proxy().build()?;
    Ok(client)
}

/// Chooses the cryptography provider for TLS.
pub(super) fn use_crypto() {
    // An error means that this process already has a provider, which is just as good.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
}

/// Reads a body of at most `limit` bytes; `server` names the platform in errors.
pub(super) async fn read_body(
    server: &str,
    mut response: Response,
    limit: u64,
) -> Result<Vec<u8>, SendError> {
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| classify_transport_error(server, &error))?;
        let Some(chunk) = chunk else { return Ok(bytes) };
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > limit {
            let message = format!("the file has more than {limit} bytes");
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
    }
}

/// Classifies a transport error; `what` names the server.
pub(super) fn classify_transport_error(what: &str, error: &reqwest::Error) -> SendError {
    if error.is_connect() {
        return SendError::new(SendErrorKind::NotSent, format!("{what} cannot be reached"));
    }
    let message = if error.is_timeout() {
        format!("{what} did not answer in time")
    } else {
        format!("the connection to {what} was cut")
    };
    SendError::new(SendErrorKind::Unknown, message)
}

/// Returns how long the server asks us to wait.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// Returns whether a URL points to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = bare.parse().ok();
    bare == "localhost" || address.is_some_and(|address| address.is_loopback())
}

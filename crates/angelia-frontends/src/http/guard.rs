//! Authenticates every request. A page in the owner's browser can also reach a loopback port, under a
//! host name that it controls and with the browser's help. Therefore host names, origins and the token
//! are all checked, in that order.

use std::net::{IpAddr, SocketAddr};

use angelia_core::model::{AuditActor, BrowserRecord};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    ApiState, ErrorKind, HttpError, Principal, TERMINAL_HEADER, early_errors, page, reach,
    state::SharedState,
};
use crate::socket::{LocalCaller, Peer, TcpPeer};

/// Returns whether a request needs no token: the health check, the files of the page, which reveal
/// nothing on their own, the path where a code is exchanged for a token, and the webhooks, whose handler
/// checks the signature.
pub(super) fn is_open(request: &Request) -> bool {
    let path = request.uri().path();
    match *request.method() {
        Method::GET => path == "/healthz" || page::is_public(request),
        Method::HEAD => page::is_public(request),
        Method::POST => path == "/api/login" || is_hook(request),
        _ => false,
    }
}

/// Returns whether a request is for a webhook.
pub(super) fn is_hook(request: &Request) -> bool {
    request.uri().path().starts_with("/hooks/")
}

/// The connection that a request arrived on.
#[derive(Clone, Debug)]
pub enum ConnectionSource {
    Tcp(TcpPeer),
    Unix(Peer),
}

impl ConnectionSource {
    /// Returns whether the owner sits at a terminal behind this request: our own client says so,
    /// over the socket that only the owner can open, and the client is not an agent's process.
    pub(super) async fn is_terminal(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Unix(peer) => {
                headers.contains_key(TERMINAL_HEADER) && peer.caller().await == LocalCaller::Owner
            }
        }
    }

    /// Returns the actor behind this connection, for the audit.
    pub(super) async fn audit_actor(&self) -> AuditActor {
        match (self.caller().await, self) {
            (LocalCaller::Agent(marks), _) => {
                AuditActor::Agent(marks.first().map_or("unknown", String::as_str).into())
            }
            (LocalCaller::Unidentified, _) => AuditActor::Agent("unknown".into()),
            (_, Self::Tcp(_)) => AuditActor::Browser,
            (_, Self::Unix(_)) => AuditActor::Terminal,
        }
    }

    /// Identifies the process at the other end, once per connection.
    pub(super) async fn caller(&self) -> LocalCaller {
        match self {
            Self::Tcp(peer) => peer.caller().await,
            Self::Unix(peer) => peer.caller().await,
        }
    }
}

pub(super) async fn authenticate(
    State(state): SharedState,
    mut request: Request,
    next: Next,
) -> Response {
    let browser = find_browser(&state, request.headers()).await;
    let mut admitted = admit(&state, &request, browser.clone());
    // The key may have been created just now.
    if is_unknown_key(&admitted, request.headers()) {
        state.config.refresh().await;
        admitted = admit(&state, &request, browser);
    }
    let admitted = match admitted {
        Ok(principal) => reach::check(&state, &mut request, &principal).await.map(|()| principal),
        Err(error) => Err(error),
    };
    match admitted {
        Ok(principal) => {
            let browser = principal.browser.clone();
            request.extensions_mut().insert(principal);
            match browser {
                None => next.run(request).await,
                Some(browser) => {
                    state.logins.note_use(&browser).await;
                    let response = next.run(request).await;
                    match state.logins.revocation(browser.id).await {
                        Ok(revoked) => end_stream_when(revoked, response),
                        Err(error) => HttpError::from(error).into_response(),
                    }
                }
            }
        }
        Err(error) => {
            tracing::debug!(path = request.uri().path(), %error, "request refused");
            early_errors::error_response(&request, error)
        }
    }
}

/// Ends an event stream when its browser is signed out.
fn end_stream_when(revoked: CancellationToken, response: Response) -> Response {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    if content_type.is_none_or(|kind| kind != "text/event-stream") {
        return response;
    }
    response.map(|body| {
        let data = body.into_data_stream();
        Body::from_stream(data.take_until(revoked.cancelled_owned()))
    })
}

/// Returns the signed-in browser whose token a request offers.
async fn find_browser(state: &ApiState, headers: &HeaderMap) -> Option<BrowserRecord> {
    for token in offered_tokens(headers) {
        if let Some(browser) = state.logins.find(token).await {
            return Some(browser);
        }
    }
    None
}

/// Returns whether a request was refused although it has a token.
fn is_unknown_key(admitted: &Result<Principal, HttpError>, headers: &HeaderMap) -> bool {
    let is_refused = admitted.as_ref().is_err_and(|error| error.kind == ErrorKind::NoKey);
    is_refused && offered_tokens(headers).next().is_some()
}

/// Returns the principal of a request, if it may make this request at all.
fn admit(
    state: &ApiState,
    request: &Request,
    browser: Option<BrowserRecord>,
) -> Result<Principal, HttpError> {
    let Some(source) = request.extensions().get::<ConnectionSource>() else {
        return Err(HttpError::internal("the listener did not attach the connection's source"));
    };
    let headers = request.headers();
    match source {
        ConnectionSource::Tcp(peer) => {
            check_host(state, request, peer.local)?;
            check_origin(state, headers, Some(peer.local))?;
            let path = request.uri().path();
            if is_open(request) || offered_tokens(headers).any(|token| state.token.matches(token)) {
                return Ok(Principal::owner_at(source));
            }
            if let Some(browser) = browser {
                check_browser(state, request, peer.local)?;
                return Ok(Principal::owner_in(browser, source));
            }
            let models = state.models.current();
            let mut offered = offered_tokens(headers);
            let principal = offered.find_map(|key| models.keys.authenticate(key));
            let principal = principal.ok_or_else(no_token)?;
            if is_owners_path(path) {
                return Err(owners_only());
            }
            Ok(principal)
        }
        ConnectionSource::Unix(peer) if peer.is_owner() => {
            check_origin(state, headers, None)?;
            Ok(Principal::owner_at(source))
        }
        ConnectionSource::Unix(_) => {
            let message = "this socket serves only the user it belongs to";
            Err(HttpError::new(ErrorKind::NotGranted, message).with_code("auth"))
        }
    }
}

fn no_token() -> HttpError {
    HttpError::new(ErrorKind::NoKey, "this needs the owner's token or a key").with_hint(
        "send the content of $ANGELIA_HOME/token, or a key made by `angelia keys add`, as \
         `Authorization: Bearer …` or `x-api-key`",
    )
}

fn owners_only() -> HttpError {
    HttpError::new(ErrorKind::NotGranted, "this key is for the model APIs (/v1)")
        .with_code("auth")
        .with_hint("/api needs the owner's token, which is in $ANGELIA_HOME/token")
}

/// Checks a request with a browser's token. It must come from our own page, and must not use the model
/// APIs, which are for programs.
fn check_browser(state: &ApiState, request: &Request, local: SocketAddr) -> Result<(), HttpError> {
    let headers = request.headers();
    let refused = |message: &str, hint: &str| {
        Err(HttpError::new(ErrorKind::NotGranted, message).with_hint(hint))
    };
    if !is_owners_path(request.uri().path()) {
        let hint = "make a key for programs with `angelia keys add`";
        return refused("a browser's token is only for /api", hint);
    }
    let is_ours = |origin: &HeaderValue| {
        origin.to_str().is_ok_and(|origin| is_own_page(state, origin, Some(local)))
    };
    let mut sites = headers.get_all("sec-fetch-site").into_iter();
    let is_same_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    if !headers.get_all(header::ORIGIN).iter().all(is_ours) || !sites.all(is_same_site) {
        let hint = "open the page that angelia serves";
        return refused("another page may not use a browser's token", hint);
    }
    Ok(())
}

/// Returns whether a path is only for the owner, because it shows everyone's sessions, turns and
/// approvals.
fn is_owners_path(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Returns the tokens of a request, from either header.
fn offered_tokens(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get_all(header::AUTHORIZATION).into_iter().filter_map(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    });
    let api_key = headers.get_all("x-api-key").into_iter().map(HeaderValue::as_bytes);
    bearer.chain(api_key)
}

/// Checks every host name in the request: the header, and the target if it names one.
fn check_host(state: &ApiState, request: &Request, local: SocketAddr) -> Result<(), HttpError> {
    let mut given = request.headers().get_all(header::HOST).into_iter();
    let (host, another) = (given.next(), given.next());
    let host = host
        // Several `Host` headers are ambiguous, so refuse them.
        .filter(|_| another.is_none())
        .and_then(|host| host.to_str().ok())
        .and_then(|host| host.parse().ok());
    let named = host.filter(|host| is_own_authority(state, host, 80, Some(local)));
    let target = request.uri().authority();
    if named.is_some()
        && target.is_none_or(|target| is_own_authority(state, target, 80, Some(local)))
    {
        Ok(())
    } else {
        Err(HttpError::new(ErrorKind::Misdirected, "this host name is not ours").with_hint(
            "use localhost or 127.0.0.1 with the right port, or add the name to http.allowed_hosts",
        ))
    }
}

/// Checks the origin that a browser sends. Only our own pages and the origins that the owner listed
/// may call.
fn check_origin(
    state: &ApiState,
    headers: &HeaderMap,
    local: Option<SocketAddr>,
) -> Result<(), HttpError> {
    for origin in headers.get_all(header::ORIGIN) {
        let allowed = origin.to_str().is_ok_and(|origin| {
            let listed = &state.allowed_origins;
            listed.iter().any(|one| one.eq_ignore_ascii_case(origin))
                || is_own_page(state, origin, local)
        });
        if !allowed {
            let message = "pages of this origin may not call angelia";
            return Err(HttpError::new(ErrorKind::NotGranted, message)
                .with_hint("add the origin to http.allowed_origins if it is yours"));
        }
    }
    Ok(())
}

fn is_own_page(state: &ApiState, origin: &str, local: Option<SocketAddr>) -> bool {
    let (port, authority) = match origin.split_once("://") {
        Some(("http", authority)) => (80, authority),
        Some(("https", authority)) => (443, authority),
        _ => return false,
    };
    authority.parse().is_ok_and(|authority| is_own_authority(state, &authority, port, local))
}

/// Returns whether an authority is ours: a loopback name or the local address of the connection,
/// with our port, or a name from the configuration.
fn is_own_authority(
    state: &ApiState,
    name: &Authority,
    default_port: u16,
    local: Option<SocketAddr>,
) -> bool {
    if name.as_str().contains('@') {
        return false;
    }
    let host = name.host();
    let listed =
        |one: &String| one.eq_ignore_ascii_case(host) || one.eq_ignore_ascii_case(name.as_str());
    if state.allowed_hosts.iter().any(listed) {
        return true;
    }
    let Some(local) = local else { return false };
    if name.port_u16().unwrap_or(default_port) != local.port() {
        return false;
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == local.ip().to_canonical(),
        Err(_a_name) => bare.eq_ignore_ascii_case("localhost"),
    }
}

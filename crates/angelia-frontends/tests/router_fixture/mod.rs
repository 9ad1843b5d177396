//! The parts of a test setup that `/api` and the model APIs share: the state behind the router, and
//! a response that has been read to its end. Included by path.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use angelia_core::{engine::Engine, ports::Profiles, task::TaskGroup};
use angelia_frontends::http::{
    ApiState, BrowserLogins, CallerLimits, ChangeFeed, Metrics, OwnerToken,
    dialect::{ModelSettings, RecentRequests},
};
use axum::{
    body::Body,
    http::{HeaderMap, Response, StatusCode},
};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    fixed_config::fixed_config,
    no_agents::{daemon_info, no_agents, no_processes},
};

pub(crate) const TOKEN: &str = "tok-123";
pub(crate) const LOCAL_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4376);

/// Long enough for any step that happens at all.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Returns the state of a daemon that has no bus and allows no other hosts and origins.
pub(crate) fn api_state(
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    models: ModelSettings,
) -> ApiState {
    ApiState {
        logins: BrowserLogins::new(engine.clone()),
        feed: ChangeFeed::default(),
        engine,
        profiles,
        token: OwnerToken::new(TOKEN),
        agents: no_agents(),
        agent_processes: no_processes(),
        daemon: daemon_info(),
        version: "1.2.3".into(),
        config_sha256: "c0ffee".into(),
        config: fixed_config(),
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        restarts: angelia_frontends::http::RestartRequests::new().0,
        bus: None,
        delivery_queue: None,
        chats: None,
        hooks: None,
        models: models.into(),
        recent_requests: RecentRequests::default(),
        caller_limits: CallerLimits::default(),
        metrics: Metrics::default(),
        tasks: TaskGroup::new(),
    }
}

#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) text: String,
}

impl ApiResponse {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(DEADLINE, body.collect()).await;
        let body = body.unwrap().unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        Self {
            status: parts.status,
            headers: parts.headers,
            trailers,
            text: String::from_utf8(body.to_bytes().to_vec()).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

//! MCP servers that want a login: a real OAuth server issues the tokens, and a server on the official library
//! checks them.

use std::fs;

use angelia_core::model::SessionSpec;
use angelia_executors::{
    native::{
        mcp::check::{ServerState, check_servers, login_of},
        provider::Api,
        providers::oauth::{
            device_flow::begin_login,
            login_file::{Login, LoginFile},
        },
    },
    scripted_model::Reply,
};
use angelia_testkit::{
    mcp_servers,
    oidc_server::OidcServer,
    plain_server::{PlainAnswer, PlainServer},
    script_server::ScriptServer,
};
use serde_json::{Value, json};

use crate::{
    loop_lab::{LoopLab, call, calls, detail_of},
    mcp_lab::{noted, server_notices, spec_with},
};

/// A session's place, a server that wants a login, and the server that issues its tokens.
struct LoginLab {
    lab: LoopLab,
    oidc: OidcServer,
    mcp: ScriptServer,
}

impl LoginLab {
    fn new(api: Api) -> Self {
        let lab = LoopLab::new(api, |_| {});
        let folder = lab.place.isolated.root().join("notes");
        fs::create_dir(&folder).unwrap();
        let oidc = OidcServer::start(3_600).unwrap();
        let mcp = mcp_servers::watched_with_login(&folder, &oidc.issuer()).unwrap();
        Self { lab, oidc, mcp }
    }

    /// Returns a specification with the server as `web`. `issuer`: the server is not asked for its own.
    fn spec(&self, issuer: Option<&str>) -> SessionSpec {
        let mut oauth = json!({
            "client_id": OidcServer::CLIENT_ID,
            "scope": "openid offline_access tools",
        });
        oauth["issuer"] = issuer.map_or(Value::Null, Into::into);
        let url = format!("http://{}/mcp", self.mcp.address());
        spec_with(&self.lab, "web", &json!({"type": "http", "url": url, "oauth": oauth}))
    }

    async fn log_in(&self, spec: &SessionSpec) {
        let host = &self.lab.place.host;
        let settings = login_of("web", spec, host).unwrap().unwrap();
        let pending = begin_login(&settings).await.unwrap();
        self.oidc.approve(&pending.code.user_code).unwrap();
        pending.finish(host).await.unwrap();
    }

    /// Runs a turn that calls a tool of the server, and returns the result.
    async fn call(&self, spec: &SessionSpec) -> String {
        let step = calls([call("mcp__web__repeat", json!({"text": "ab", "times": 2}))]);
        let output = self.lab.turn_with(spec, [step, Reply::text("done")]).await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        self.lab.last_request().results().remove(0)
    }
}

#[tokio::test]
async fn real_a_server_that_wants_a_login_says_so_and_works_after_it() {
    let place = LoginLab::new(Api::Messages);
    let spec = place.spec(None);
    let output = place.lab.turn_with(&spec, [Reply::text("without it")]).await;
    assert_eq!(output.answer(), "without it", "{output:#?}");
    let [(code, text)] = server_notices(&output).try_into().unwrap();
    assert_eq!(code, "mcp_failed");
    assert!(text.ends_with("nobody is logged in; log in with `angelia mcp login web`"), "{text}");
    assert_eq!(detail_of(&output, "mcp_failed"), json!({"server": "web", "needs_login": true}));
    let [check] = check_servers(&spec, &place.lab.place.host, false).await.try_into().unwrap();
    assert!(matches!(check.state, ServerState::NeedsLogin(_)), "{check:?}");

    place.log_in(&spec).await;
    assert!(place.call(&spec).await.contains("abab"));
    assert_eq!(noted(&place.lab, "token-unknown"), 0);
    let [check] = check_servers(&spec, &place.lab.place.host, false).await.try_into().unwrap();
    assert_eq!(check.state, ServerState::Answers { tools: 7 });
    // Two sessions and a check of one process share one token.
    assert_eq!(place.oidc.seen("refreshes").unwrap(), 1);
    // The token is for this server alone, and never reaches the model.
    let requests = place.lab.requests();
    assert!(requests.iter().all(|request| !request.contains("Bearer")), "{requests:?}");
}

#[tokio::test]
async fn real_a_token_that_is_refused_is_renewed_and_the_call_is_not_lost() {
    let place = LoginLab::new(Api::Chat);
    let spec = place.spec(Some(&place.oidc.issuer()));
    place.log_in(&spec).await;
    let refuse = place.lab.place.isolated.root().join("notes/refuse");
    let repeat = || calls([call("mcp__web__repeat", json!({"text": "x", "times": 3}))]);
    place.lab.server.script([repeat(), Reply::text("one"), repeat(), Reply::text("two")]);
    let mut session = place.lab.open_with(&spec).await;
    assert_eq!(session.prompt("go on").await.answer(), "one");
    fs::write(&refuse, "").unwrap();
    assert_eq!(session.prompt("and again").await.answer(), "two");
    session.close().await;
    let results = place.lab.last_request().results();
    assert!(results.iter().all(|result| result.contains("xxx")), "{results:?}");
    assert_eq!(noted(&place.lab, "token-refused"), 1);
    assert_eq!(place.oidc.seen("refreshes").unwrap(), 2);
}

#[tokio::test]
async fn real_a_login_that_ended_at_the_issuer_is_said_and_costs_only_the_tools() {
    let place = LoginLab::new(Api::Responses);
    let spec = place.spec(Some(&place.oidc.issuer()));
    place.log_in(&spec).await;
    let host = &place.lab.place.host;
    let settings = login_of("web", &spec, host).unwrap().unwrap();
    let file = LoginFile::of(&settings, &host.logins_dir()).lock().await.unwrap();
    let login = file.read().unwrap();
    assert_eq!(login.resource, Some(format!("http://{}/mcp", place.mcp.address())));
    file.write(&Login { refresh_token: "from-a-backup".into(), ..login }).unwrap();
    drop(file);
    let output = place.lab.turn_with(&spec, [Reply::text("done")]).await;
    assert_eq!(output.answer(), "done", "{output:#?}");
    let [(_, text)] = server_notices(&output).try_into().unwrap();
    assert!(text.contains("no longer valid") && text.contains("angelia mcp login web"), "{text}");
}

/// Stores a login for a server that is no real one, with a token that a real issuer accepts.
async fn store_login(lab: &LoopLab, spec: &SessionSpec, oidc: &OidcServer) {
    let host = &lab.place.host;
    let settings = login_of("web", spec, host).unwrap().unwrap();
    let refresh_token = oidc.refresh_token().unwrap();
    let login = Login { token_url: oidc.token_url(), refresh_token, resource: None };
    let file = LoginFile::of(&settings, &host.logins_dir()).lock().await.unwrap();
    file.write(&login).unwrap();
}

#[tokio::test]
async fn a_token_goes_to_no_other_host_and_no_other_address() {
    let (lab, oidc) = (LoopLab::new(Api::Messages, |_| {}), OidcServer::start(3_600).unwrap());
    let thief = PlainServer::start([]);
    let elsewhere = format!("{}/mcp", thief.address());
    let server = PlainServer::start([
        ("POST /mcp", PlainAnswer::Redirect(elsewhere.clone())),
        ("GET /mcp", PlainAnswer::Redirect(elsewhere.clone())),
    ]);
    let oauth = json!({"client_id": OidcServer::CLIENT_ID, "issuer": oidc.issuer()});
    let url = format!("{}/mcp", server.address());
    let spec = spec_with(&lab, "web", &json!({"url": url, "oauth": oauth}));
    store_login(&lab, &spec, &oidc).await;
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    assert_eq!(output.answer(), "done", "{output:#?}");
    assert!(server.requests().iter().any(|request| request.contains("authorization: Bearer")));
    assert_eq!(thief.requests(), Vec::<String>::new(), "a redirect was followed");

    // The same name at another address is another login.
    let spec = spec_with(&lab, "web", &json!({"url": elsewhere, "oauth": oauth}));
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    let [(_, text)] = server_notices(&output).try_into().unwrap();
    assert!(text.contains("nobody is logged in"), "{text}");
    assert_eq!(thief.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_project_cannot_use_a_login() {
    let (lab, oidc) = (LoopLab::new(Api::Messages, |_| {}), OidcServer::start(3_600).unwrap());
    let server = PlainServer::start([("POST /mcp", PlainAnswer::Json(401, "{}".into()))]);
    let url = format!("{}/mcp", server.address());
    let oauth = json!({"client_id": OidcServer::CLIENT_ID, "issuer": oidc.issuer()});
    let definition = json!({"url": url, "oauth": oauth});
    store_login(&lab, &spec_with(&lab, "web", &definition), &oidc).await;
    lab.write(".mcp.json", &json!({"mcpServers": {"web": definition}}).to_string());
    let mut spec = lab.spec();
    spec.trust = true;
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    let [(_, text)] = server_notices(&output).try_into().unwrap();
    assert!(text.contains("it wants a login; set `oauth`"), "{text}");
    let requests = server.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| !request.contains("authorization")), "{requests:?}");
}

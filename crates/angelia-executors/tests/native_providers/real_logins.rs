//! E33: logins by OAuth against a real server, whose refresh tokens are good once.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use angelia_core::model::FailureKind;
use angelia_executors::{
    ExecutorHost,
    native::providers::{
        KeySource, LoginTarget, OAuthServer, OAuthSettings, ProviderCatalog,
        oauth::{
            device_flow::begin_login,
            login_file::{Login, LoginFile},
        },
    },
};
use angelia_testkit::oidc_server::OidcServer;
use futures_util::future::join_all;
use jiff::SignedDuration;

use crate::place::Place;

fn settings(server: &OidcServer) -> OAuthSettings {
    OAuthSettings {
        target: LoginTarget::Provider("home".into()),
        server: OAuthServer::Issuer(server.issuer().into()),
        client_id: OidcServer::CLIENT_ID.into(),
        scope: Some(OidcServer::SCOPE.into()),
    }
}

/// Stores a login that was made elsewhere, so that a test need not wait for a code.
async fn store_login(server: &OidcServer, host: &ExecutorHost) -> KeySource {
    let settings = settings(server);
    let refresh_token = server.refresh_token().unwrap();
    let login = Login { token_url: server.token_url(), refresh_token, resource: None };
    let file = LoginFile::of(&settings, &host.logins_dir()).lock().await.unwrap();
    file.write(&login).unwrap();
    KeySource::OAuth(settings)
}

/// Another process of the same home: it shares the files and nothing else.
fn other_process(place: &Place) -> ExecutorHost {
    ExecutorHost { providers: Arc::new(ProviderCatalog::default()), ..place.host.clone() }
}

#[tokio::test]
async fn e33_a_person_confirms_a_code_and_the_login_lasts() {
    let (server, place) = (OidcServer::start(3_600).unwrap(), Place::new(&[]));
    let settings = settings(&server);
    let source = KeySource::OAuth(settings.clone());
    let folder = place.host.logins_dir();
    assert_eq!(source.is_set(&place.host.environment, &folder), Some(false));
    let said = source.load(&place.host).await.unwrap_err();
    assert!(said.contains("`angelia providers login home`"), "{said}");

    let pending = begin_login(&settings).await.unwrap();
    assert!(pending.code.page.starts_with(&server.issuer()), "{pending:?}");
    assert!(pending.code.page_with_code.is_some());
    server.approve(&pending.code.user_code).unwrap();
    pending.finish(&place.host).await.unwrap();

    assert_eq!(source.is_set(&place.host.environment, &folder), Some(true));
    let token = source.load(&place.host).await.unwrap();
    assert!(server.accepts(token.expose()).unwrap());
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(!text.contains(token.expose()), "access tokens stay in memory: {entry:?}");
    }
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn e33_a_code_that_is_declined_logs_nobody_in() {
    let (server, place) = (OidcServer::start(3_600).unwrap(), Place::new(&[]));
    let pending = begin_login(&settings(&server)).await.unwrap();
    server.deny(&pending.code.user_code).unwrap();
    let failure = pending.finish(&place.host).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("declined"), "{failure}");
}

#[tokio::test]
async fn e33_a_server_that_says_something_else_is_not_trusted() {
    let server = OidcServer::start(3_600).unwrap();
    let mut settings = settings(&server);
    settings.client_id = "somebody-else".into();
    let failure = begin_login(&settings).await.unwrap_err();
    assert!(failure.to_string().contains("client"), "{failure}");
    settings.server = OAuthServer::Issuer(server.issuer().replace("127.0.0.1", "localhost").into());
    let failure = begin_login(&settings).await.unwrap_err();
    assert!(failure.message.contains("says that it is"), "{failure}");
}

#[tokio::test]
async fn e33_many_sessions_and_processes_never_use_a_refresh_token_twice() {
    let (server, place) = (OidcServer::start(3_600).unwrap(), Place::new(&[]));
    let source = store_login(&server, &place.host).await;
    let others: Vec<ExecutorHost> = (0..4).map(|_| other_process(&place)).collect();
    for round in 1..=3 {
        let hosts = others.iter().flat_map(|host| [host; 5]);
        let tokens = join_all(hosts.map(|host| source.load(host))).await;
        for token in tokens {
            assert!(server.accepts(token.unwrap().expose()).unwrap());
        }
        // One refresh for each process, however many sessions it has.
        assert_eq!(server.seen("refreshes").unwrap(), round * 4);
        place.clock.advance(SignedDuration::from_mins(56));
    }
    assert_eq!(server.seen("refused").unwrap(), 0);
}

#[tokio::test]
async fn e33_a_token_that_is_refused_is_renewed_once_and_one_that_expires_in_time() {
    let (server, place) = (OidcServer::start(3_600).unwrap(), Place::new(&[]));
    let source = store_login(&server, &place.host).await;
    let first = source.load(&place.host).await.unwrap();
    place.clock.advance(SignedDuration::from_mins(54));
    assert_eq!(source.load(&place.host).await.unwrap(), first);
    place.clock.advance(SignedDuration::from_mins(2));
    let second = source.load(&place.host).await.unwrap();
    assert_ne!(second, first, "five minutes early");
    let renewed = join_all((0..5).map(|_| source.renew(&second, &place.host))).await;
    assert!(renewed.iter().all(|token| token.is_some() && *token == renewed[0]));
    assert_eq!(server.seen("refreshes").unwrap(), 3);
}

#[tokio::test]
async fn e33_a_login_that_ended_at_the_server_is_forgotten_and_said() {
    let (server, place) = (OidcServer::start(3_600).unwrap(), Place::new(&[]));
    let source = store_login(&server, &place.host).await;
    let folder = place.host.logins_dir();
    let file = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let file =
        file.into_iter().find(|path| path.extension().is_some_and(|it| it == "json")).unwrap();
    let used = fs::read(&file).unwrap();
    source.load(&place.host).await.unwrap();
    // A copy of the token from before, such as from a backup.
    fs::write(&file, used).unwrap();
    let said = source.load(&other_process(&place)).await.unwrap_err();
    assert!(said.contains("no longer valid") && said.contains("providers login home"), "{said}");
    assert_eq!(source.is_set(&place.host.environment, &folder), Some(false));
}

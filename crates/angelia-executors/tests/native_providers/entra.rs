//! E33: tokens of Entra, from a token endpoint and a metadata endpoint on loopback.

use std::{fs, os::unix::fs::PermissionsExt as _};

use angelia_executors::native::{
    provider::Api,
    providers::{EntraSettings, KeySource, KeyState, check_provider},
};
use angelia_testkit::plain_server::{PlainAnswer, PlainServer};
use jiff::SignedDuration;

use crate::place::{Place, provider};

const TOKEN: &str =
    r#"{"token_type":"Bearer","expires_in":3599,"access_token":"the-issued-token"}"#;

/// As the metadata endpoint writes it: numbers are text.
const MACHINE_TOKEN: &str = r#"{"access_token":"the-issued-token","expires_in":"3599",
    "expires_on":"1003599","resource":"https://cognitiveservices.azure.com","token_type":"Bearer"}"#;

const MACHINE_PATH: &str = "GET /metadata/identity/oauth2/token?api-version=2018-02-01&\
                            resource=https%3A%2F%2Fcognitiveservices.azure.com";

fn issuing(path: &'static str, token: &str) -> PlainServer {
    PlainServer::start([(path, PlainAnswer::Json(200, token.to_owned()))])
}

fn place(server: &PlainServer, variables: &[(&str, &str)]) -> Place {
    let server = server.address();
    let ours = [("AZURE_AUTHORITY_HOST", server), ("AZURE_POD_IDENTITY_AUTHORITY_HOST", server)];
    Place::new(&ours.iter().chain(variables).copied().collect::<Vec<_>>())
}

fn entra() -> KeySource {
    KeySource::Entra(EntraSettings::default())
}

#[tokio::test]
async fn e33_a_client_with_a_secret_gets_a_token_and_another_one_before_it_expires() {
    let server = issuing("POST /our-tenant/oauth2/v2.0/token", TOKEN);
    let secret = "s3cret/of+the client";
    let place = place(
        &server,
        &[
            ("AZURE_TENANT_ID", "our-tenant"),
            ("AZURE_CLIENT_ID", "our-client"),
            ("AZURE_CLIENT_SECRET", secret),
        ],
    );
    let source = entra();
    for _ in 0..3 {
        assert_eq!(source.load(&place.host).await.unwrap().expose(), "the-issued-token");
    }
    let [request] = server.requests().try_into().unwrap();
    assert!(request.contains("content-type: application/x-www-form-urlencoded"), "{request}");
    assert!(
        request.ends_with(
            "grant_type=client_credentials&client_id=our-client&\
             scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default&\
             client_secret=s3cret%2Fof%2Bthe+client"
        ),
        "{request}"
    );
    assert!(!place.host.redactor.redact(&format!("x {secret} y")).contains(secret));
    place.clock.advance(SignedDuration::from_mins(54));
    source.load(&place.host).await.unwrap();
    assert_eq!(server.requests().len(), 1);
    place.clock.advance(SignedDuration::from_mins(1));
    source.load(&place.host).await.unwrap();
    assert_eq!(server.requests().len(), 2, "five minutes early");
}

#[tokio::test]
async fn e33_a_workload_presents_its_own_token() {
    let server = issuing("POST /t/oauth2/v2.0/token", TOKEN);
    let place = place(&server, &[]);
    let token_file = place.folder.root().join("workload-token");
    fs::write(&token_file, "the.workload.token\n").unwrap();
    let source = KeySource::Entra(EntraSettings {
        tenant: Some("t".into()),
        client_id: Some("c".into()),
        token_file: Some(token_file),
        scope: "https://ai.azure.com/.default".into(),
        ..EntraSettings::default()
    });
    source.load(&place.host).await.unwrap();
    let [request] = server.requests().try_into().unwrap();
    assert!(request.contains("client_assertion=the.workload.token"), "{request}");
    assert!(request.contains("jwt-bearer"), "{request}");
    assert!(request.contains("scope=https%3A%2F%2Fai.azure.com%2F.default"), "{request}");
}

#[tokio::test]
async fn e33_a_machine_with_an_identity_needs_no_settings() {
    let server = issuing(MACHINE_PATH, MACHINE_TOKEN);
    let place = place(&server, &[]);
    let source = entra();
    assert_eq!(source.load(&place.host).await.unwrap().expose(), "the-issued-token");
    let [request] = server.requests().try_into().unwrap();
    assert!(request.contains("metadata: true"), "{request}");
    // The clock of the test began at 1000000.
    place.clock.advance(SignedDuration::from_mins(56));
    source.load(&place.host).await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn e33_a_service_says_where_its_identity_is() {
    let path = "GET /identity?api-version=2019-08-01&\
                resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=mine";
    let server = issuing(path, MACHINE_TOKEN);
    let endpoint = format!("{}/identity", server.address());
    let variables = [("IDENTITY_ENDPOINT", &*endpoint), ("IDENTITY_HEADER", "the-secret-header")];
    let place = Place::new(&variables);
    let settings = EntraSettings { client_id: Some("mine".into()), ..EntraSettings::default() };
    KeySource::Entra(settings).load(&place.host).await.unwrap();
    let [request] = server.requests().try_into().unwrap();
    assert!(request.contains("x-identity-header: the-secret-header"), "{request}");
}

#[tokio::test]
async fn e33_where_there_is_nothing_else_az_is_asked_and_without_it_all_is_said() {
    let server = PlainServer::start([]);
    let place = place(&server, &[]);
    let said = entra().load(&place.host).await.unwrap_err();
    for part in ["AZURE_CLIENT_SECRET", "no identity: ", "status 404", "no program `az`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let az = place.folder.root().join("az");
    let script = "#!/bin/sh\necho \"$@\" >&2\n\
                  echo '{\"accessToken\":\"the-az-token\",\"expires_on\":1003600}'\n";
    fs::write(&az, script).unwrap();
    fs::set_permissions(&az, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", place.folder.root().display());
    let place =
        Place::new(&[("PATH", &*path), ("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.address())]);
    assert_eq!(entra().load(&place.host).await.unwrap().expose(), "the-az-token");
}

#[tokio::test]
async fn e33_a_wrong_secret_is_told_and_nothing_else_is_tried() {
    let refusal = r#"{"error":"invalid_client","error_description":"AADSTS7000215: wrong secret"}"#;
    let server = PlainServer::start([
        ("POST /t/oauth2/v2.0/token", PlainAnswer::Json(401, refusal.to_owned())),
        (MACHINE_PATH, PlainAnswer::Json(200, MACHINE_TOKEN.to_owned())),
    ]);
    let variables =
        [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c"), ("AZURE_CLIENT_SECRET", "wrong-one")];
    let place = place(&server, &variables);
    let said = entra().load(&place.host).await.unwrap_err();
    assert!(said.contains("AADSTS7000215") && !said.contains("wrong-one"), "{said}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn e33_a_token_is_presented_as_a_bearers_where_keys_have_a_header_of_their_own() {
    let listing = r#"{"data":[{"id":"m"}]}"#.to_owned();
    let server = PlainServer::start([
        (MACHINE_PATH, PlainAnswer::Json(200, MACHINE_TOKEN.to_owned())),
        ("GET /v1/models", PlainAnswer::Json(200, listing)),
    ]);
    let place = place(&server, &[]);
    // Requests of this API carry keys as `x-api-key`.
    let provider = provider(Api::Messages, server.address().to_owned(), vec![entra()]);
    let check = check_provider(&provider, &[], &place.host).await;
    assert!(matches!(check.key, KeyState::Accepted(_)), "{check:?}");
    let requests = server.requests();
    let asked = requests.iter().find(|request| request.starts_with("GET /v1/models")).unwrap();
    assert!(asked.contains("authorization: Bearer the-issued-token"), "{asked}");
    assert!(!asked.contains("x-api-key"), "{asked}");
    assert_eq!(provider.lane(), "entra");
}

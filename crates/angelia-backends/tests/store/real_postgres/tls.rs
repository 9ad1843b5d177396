//! A server that is reached over a network: encrypted, by its name, with a password.

use angelia_backends::{
    owners::OwnerRegistry,
    store::{PostgresAddress, PostgresStore},
};
use angelia_testkit::postgres_server::{PostgresServer, tls_fixture};

use super::database::TestDatabase;

#[test]
fn a_server_proves_its_name_and_asks_for_the_password() {
    let server = PostgresServer::start_with_tls("hunter2").unwrap();
    let database = TestDatabase::on(server.into());
    let port = database.server.port().unwrap();
    let roots = format!("sslmode=verify-full&sslrootcert={}", tls_fixture("ca.pem").display());
    let open = |host: &str, settings: &str, password: Option<&str>| {
        let name = &database.name;
        let address = format!("postgres://angelia@{host}:{port}/{name}?{settings}");
        let address = PostgresAddress::parse(&address, password, None).unwrap();
        let owners = OwnerRegistry::new(database.home().join("owners"));
        let machine = TestDatabase::machine("one");
        PostgresStore::open_for_reading(address, machine, &owners, "run")
    };
    let refused = |host: &str, settings: &str, password: Option<&str>, expected: &str| {
        let error = open(host, settings, password).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("wrong one"), "{error}");
    };
    let _store = open("localhost", &roots, Some("hunter2")).unwrap();
    let encrypted = "SELECT count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE ssl AND application_name = 'angelia'";
    assert_eq!(database.value(encrypted), "t");

    refused("localhost", &roots, Some("wrong one"), "set ANGELIA_STORE_PASSWORD");
    refused("localhost", &roots, None, "password");
    // The certificate is of another name, or of an authority that nobody knows.
    refused("127.0.0.1", &roots, Some("hunter2"), "certificate");
    refused("localhost", "sslmode=verify-full", Some("hunter2"), "certificate");
    // This server does not talk without encryption.
    refused("localhost", "sslmode=disable", Some("hunter2"), "no encryption");
}

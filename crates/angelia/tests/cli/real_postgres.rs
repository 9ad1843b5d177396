//! The program with its record in a real Postgres database: `fleet: {store: …}`.

use std::sync::Arc;

use angelia_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::machine::{Machine, SAYS_AND_HANGS, until};

/// A machine whose record is in a database of its own.
struct Setup {
    machine: Machine,
    server: Arc<PostgresServer>,
    database: String,
}

impl Setup {
    fn new() -> Self {
        let server = PostgresServer::shared().unwrap();
        let database = server.create_database().unwrap();
        let machine = Machine::new();
        let this = Self { machine, server, database };
        this.configure(&this.machine, "desk");
        this
    }

    fn configure(&self, machine: &Machine, name: &str) {
        let address = self.server.address_of(&self.database);
        machine.configure(&format!("fleet: {{store: \"{address}\", machine: {name}}}\n"));
    }

    fn count(&self, table: &str) -> String {
        let sql = format!("SELECT count(*) FROM angelia.{table}");
        self.server.query(&self.database, &sql).unwrap()[0][0].clone().unwrap()
    }
}

#[test]
fn commands_keep_their_record_in_the_database() {
    let setup = Setup::new();
    let machine = &setup.machine;
    let turn = machine.turn(&["-s", "work", "hello"]);
    turn.completed();
    machine.turn(&["-s", "work", "again"]).completed();
    assert_eq!((&*setup.count("sessions"), &*setup.count("turns")), ("1", "2"));
    assert!(!machine.home().join("state.db").exists(), "nothing is in the home");

    let sessions = machine.list("sessions");
    assert_eq!((sessions.len(), &sessions[0]["name"]), (1, &Value::from("work")));
    assert_eq!(machine.export(turn.session()).len(), 2);
    machine.angelia(&["status"]).assert_code(69).assert_stdout("2 turns");
    machine.angelia(&["usage"]).assert_code(0).assert_stdout("TURNS");
    let found = machine.angelia(&["sessions", "search", "again"]);
    found.assert_code(0).assert_stdout("again");
    machine.angelia(&["doctor"]).assert_stdout("as machine `desk`");
    machine.angelia(&["keys", "add", "ci"]).assert_code(0);
    machine.angelia(&["audit"]).assert_code(0).assert_stdout("added `ci`");
    machine.angelia(&["sessions", "delete", turn.session()]).assert_code(0);
    assert_eq!((&*setup.count("sessions"), &*setup.count("events")), ("0", "0"));
}

#[test]
fn a_daemon_serves_from_the_database_and_one_that_was_killed_is_recovered() {
    let setup = Setup::new();
    let machine = &setup.machine;
    let serving = machine.serve();
    machine.turn(&["-s", "work", "hello"]).completed();
    let hanging = machine.start(&["run", "-s", "other", SAYS_AND_HANGS]);
    hanging.wait_for_stdout("said before");
    machine.angelia(&["status"]).assert_code(0).assert_stdout("running");
    assert_eq!(setup.count("owners WHERE dead_at IS NULL"), "1");
    serving.kill();
    drop(hanging);

    // The next daemon closes the turn of the one that was killed, and goes on with the sessions.
    let serving = machine.serve();
    until("the turn is closed", || setup.count("turns WHERE state <> 'finished'") == "0");
    machine.turn(&["-s", "work", "again"]).completed();
    serving.stop();
    assert_eq!(setup.count("owners WHERE dead_at IS NULL"), "0", "it has signed off");
}

#[test]
fn a_second_machine_is_told_who_uses_the_database() {
    let setup = Setup::new();
    let serving = setup.machine.serve();
    let other = Machine::new();
    setup.configure(&other, "laptop");
    let refused = other.angelia(&["run", "hello"]);
    refused.assert_code(70).assert_stderr("machine `desk`");
    // Reading is allowed.
    other.angelia(&["sessions", "list"]).assert_code(0);
    serving.stop();
    other.turn(&["hello"]).completed();
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let mut machine = Machine::new();
    machine.set("ANGELIA_STORE_PASSWORD", "hunter2");
    machine.configure("fleet: {store: \"postgres://angelia@127.0.0.1:1/angelia\"}\n");
    let failed = machine.angelia(&["run", "hello"]);
    failed.assert_code(70).assert_stderr("postgres://angelia@127.0.0.1:1/angelia");
    assert!(!failed.stderr.contains("hunter2"), "{failed:?}");
    machine.angelia(&["doctor"]).assert_stdout("cannot reach");
}

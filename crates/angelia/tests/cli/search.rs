//! Finding and reading what was said.

use rusqlite::Connection;
use serde_json::Value;

use crate::{machine::Machine, tmux::TmuxTerminal};

#[test]
fn what_was_said_is_found_until_it_is_deleted() {
    let machine = Machine::new();
    for through_the_daemon in [false, true] {
        let serving = through_the_daemon.then(|| machine.serve());
        let one = machine.turn(&["the needle 在这里 ዓለም"]);
        let other = machine.turn(&["only hay"]);
        let search = |words: &[&str]| {
            let ran = machine.angelia(&[&["sessions", "search", "--json"], words].concat());
            let lines = ran.assert_code(0).stdout.clone();
            let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            lines.lines().map(parse).map(|one| one["session_id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(search(&["NEEDLE"]), [one.session()]);
        assert_eq!(search(&["这里", "needle"]), [one.session()]);
        assert_eq!(search(&["hay"]), [other.session()]);
        let empty = machine.angelia(&["sessions", "search", "absent"]);
        empty.assert_code(0).assert_stderr("nothing was found");
        assert_eq!(empty.stdout, "");
        let text = machine.angelia(&["sessions", "search", "needle"]);
        text.assert_code(0).assert_stdout(one.session()).assert_stdout("the needle 在这里");

        machine.angelia(&["sessions", "delete", one.session()]).assert_code(0);
        assert_eq!(search(&["needle"]), [""; 0]);
        // The daemon removes the last traces in the background; a command waits for that.
        let database = machine.home().join("state.db");
        crate::machine::until("no trace is left", || count_traces(&database) == 0);
        machine.angelia(&["sessions", "delete", other.session()]).assert_code(0);
        drop(serving);
    }
}

fn count_traces(database: &std::path::Path) -> i64 {
    let database = Connection::open(database).unwrap();
    let sql = "SELECT (SELECT count(*) FROM words_content WHERE instr(c0, 'ዓለም'))
        + (SELECT count(*) FROM words_data WHERE instr(block, CAST('ዓለም' AS BLOB)))";
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_session_is_exported_as_markdown() {
    let machine = Machine::new();
    let turn = machine.turn(&["hello there"]);
    let ran = machine.angelia(&["sessions", "export", "--md", turn.session()]);
    ran.assert_code(0).assert_stdout("## You, ").assert_stdout("hello there");
    ran.assert_stdout("## parrot (completed)").assert_stdout("You said: hello there");
    let json = machine.angelia(&["sessions", "export", "--json", turn.session()]);
    assert_eq!(json.stdout, machine.angelia(&["sessions", "export", turn.session()]).stdout);
    machine.angelia(&["sessions", "export", "--md", "--json", turn.session()]).assert_code(2);
}

#[test]
fn a_long_session_opens_in_a_pager() {
    let machine = Machine::with_shell();
    let turn = machine.turn(&["!words 30"]);
    let session = turn.session();
    let command = format!("PAGER='sed s/^/PAGED:/' $ANGELIA sessions show {session}");
    let paged = TmuxTerminal::open(&machine, 80, &command);
    let text = paged.wait_for_end(0);
    assert!(text.contains("PAGED:── you"), "{text}");
    let piped =
        machine.shell(&format!("PAGER='sed s/^/PAGED:/' $ANGELIA sessions show {session} | cat"));
    piped.assert_code(0).assert_stdout("── you");
    assert!(!piped.stdout.contains("PAGED") && !piped.stdout.contains('\x1b'), "{piped:?}");
}

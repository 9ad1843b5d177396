//! Invalid input: an error that says what to do, and never a panic.

use std::fs;

use crate::machine::Machine;

#[test]
fn binary_garbage_is_not_a_prompt() {
    let machine = Machine::new();
    let garbage: Vec<u8> =
        (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    for arguments in [&["run", "-"][..], &["run"]] {
        let ran = machine.angelia_with_input(arguments, &garbage);
        ran.assert_code(2).assert_stderr("not UTF-8").assert_stderr("file");
    }
    assert!(!machine.home().join("state.db").exists(), "nothing was begun");
    // Control characters are accepted as text.
    let ran = machine.angelia_with_input(&["run", "--json", "-"], b"a\0b\x1b[2Jc\r\n\x07");
    ran.assert_code(0);
    let turn = crate::transcript::Transcript::read(&ran.stdout);
    assert!(turn.text().contains("a\0b\x1b[2Jc"), "{turn:#?}");
}

#[test]
fn an_argument_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let machine = Machine::new();
    let mut command = machine.command(&["run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"not \xff text"));
    let ran = crate::machine::RunningCommand::spawn(command, std::process::Stdio::null()).wait();
    ran.assert_code(2).assert_stderr("UTF-8");
}

#[test]
fn a_line_of_100_megabytes_is_refused_and_a_long_one_is_not() {
    let machine = Machine::new();
    let line = vec![b'x'; 100 * 1024 * 1024];
    let ran = machine.angelia_with_input(&["run", "-"], &line);
    ran.assert_code(2).assert_stderr("64 MiB").assert_stderr("file");
    let ran = machine.angelia_with_input(&["run", "-"], &line[..4 * 1024 * 1024]);
    ran.assert_code(0).assert_stdout("bytes more");
}

#[test]
fn the_daemon_takes_as_much_as_a_command_does() {
    let machine = Machine::new();
    let serving = machine.serve();
    let line = vec![b'x'; 4 * 1024 * 1024];
    machine.angelia_with_input(&["run", "-"], &line).assert_code(0).assert_stdout("bytes more");
    // Within the limit of a prompt, but as JSON beyond the limit of a request.
    let quotes = vec![b'"'; 40 * 1024 * 1024];
    let ran = machine.angelia_with_input(&["run", "-"], &quotes);
    ran.assert_code(1).assert_stderr("64 MiB").assert_stderr("hint: ");
    machine.angelia(&["run", "hello"]).assert_code(0);
    serving.stop().assert_code(0);
}

#[test]
fn no_standard_input_is_no_prompt() {
    let machine = Machine::with_shell();
    for arguments in ["run", "run -"] {
        let ran = machine.shell(&format!("\"$ANGELIA\" {arguments} <&-"));
        ran.assert_code(2).assert_stderr("prompt");
        let ran = machine.shell(&format!("\"$ANGELIA\" {arguments} </dev/null"));
        ran.assert_code(2).assert_stderr("prompt");
    }
    machine.shell("\"$ANGELIA\" run - < .").assert_code(2).assert_stderr("directory");
    machine.shell("\"$ANGELIA\" run hello <&-").assert_code(0).assert_stdout("You said: hello");
}

#[test]
fn a_directory_that_cannot_be_entered_is_named() {
    let machine = Machine::with_shell();
    let file = machine.work().join("file");
    fs::write(&file, "").unwrap();
    for cwd in ["/nonexistent/place", "file", ""] {
        machine.angelia(&["run", "--cwd", cwd, "hi"]).assert_stderr(if cwd.is_empty() {
            ""
        } else {
            cwd
        });
    }
    machine
        .angelia(&["run", "--cwd", "/nonexistent/place", "hi"])
        .assert_code(2)
        .assert_stderr("exists");
    let serving = machine.serve();
    machine
        .angelia(&["run", "--cwd", "/nonexistent/place", "hi"])
        .assert_code(2)
        .assert_stderr("exists");
    serving.stop().assert_code(0);
    let ran = machine.shell("mkdir gone && cd gone && rmdir ../gone && \"$ANGELIA\" run hello");
    ran.assert_code(1).assert_stderr("directory");
}

/// Root may enter every folder, so the test drops that capability first where it can.
#[test]
fn a_directory_without_permission_is_named() {
    let machine = Machine::with_shell();
    let script = "mkdir locked && chmod 0 locked && \"$ANGELIA\" run --cwd locked hello";
    if rustix::process::getuid().is_root() {
        let script = format!(
            "chmod 0777 '{root}' '{root}'/*; cp \"$ANGELIA\" ./angelia; export ANGELIA=./angelia; \
             exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{script}'",
            root = machine.place.root().display()
        );
        machine.shell(&script).assert_code(2).assert_stderr("locked").assert_stderr("enter");
    } else {
        machine.shell(script).assert_code(2).assert_stderr("locked").assert_stderr("enter");
    }
}

#[test]
fn a_configuration_of_garbage_is_refused_by_line() {
    let machine = Machine::new();
    let file = machine.home().join("config.yaml");
    machine.configure("");
    let deep = "[".repeat(100_000);
    let long = "x".repeat(20 * 1024 * 1024);
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,\
                *b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n\
                f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    for garbage in [
        &b"\x00\x01\x02"[..],
        b"\xff\xfe\xff",
        b"profiles: {",
        b"\tlisten: 1",
        b"listen: [1, 2]",
        b"- a\n- list\n",
        b"just words",
        deep.as_bytes(),
        long.as_bytes(),
        bomb.as_bytes(),
    ] {
        fs::write(&file, garbage).unwrap();
        let ran = machine.angelia(&["run", "hi"]);
        ran.assert_code(78).assert_stderr("config.yaml").assert_stderr("config check");
        // Without `--listen`, which would override `listen` in the file; the daemon fails before it
        // opens a port.
        machine.angelia(&["serve"]).assert_code(78);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    machine.angelia(&["run", "hi"]).assert_code(78).assert_stderr("config.yaml");
}

#[test]
fn a_program_that_is_none_is_named() {
    let machine = Machine::new();
    let configure = |binary: &str| {
        machine
            .configure(&format!("profiles: {{default: {{executor: claude, binary: {binary}}}}}"));
    };
    configure("/nonexistent/claude");
    machine
        .angelia(&["run", "hi"])
        .assert_code(69)
        .assert_stderr("/nonexistent/claude")
        .assert_stderr("install");
    configure("/etc/passwd");
    machine
        .angelia(&["run", "hi"])
        .assert_code(69)
        .assert_stderr("/etc/passwd")
        .assert_stderr("chmod");
    configure("/etc");
    machine.angelia(&["run", "hi"]).assert_code(69).assert_stderr("/etc");
    machine.configure("profiles: {default: {executor: claude}}");
    machine
        .angelia(&["run", "hi"])
        .assert_code(69)
        .assert_stderr("PATH")
        .assert_stderr("hint: install");
    let serving = machine.serve();
    machine
        .angelia(&["run", "hi"])
        .assert_code(69)
        .assert_stderr("PATH")
        .assert_stderr("hint: install");
    serving.stop().assert_code(0);
    for turn in machine.list("turns") {
        assert_eq!(turn["status"], "failed");
    }
}

#[test]
fn a_pipe_in_place_of_the_configuration_is_not_waited_for() {
    let machine = Machine::new();
    fs::create_dir_all(machine.home()).unwrap();
    let path = machine.home().join("config.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    for command in [&["run", "hello"][..], &["config", "check"], &["keys", "list"]] {
        machine.angelia(command).assert_code(78).assert_stderr("it is not a regular file");
    }
}

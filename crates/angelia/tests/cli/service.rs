//! `angelia service`: the unit of systemd. A script stands in for `systemctl`, because a test has no
//! user manager; the unit itself is checked by the real `systemd-analyze`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use crate::machine::{ANGELIA, Machine};

/// A machine with a `systemctl` that notes its arguments, and fails for the words in `fails`.
fn machine(fails: &str) -> Machine {
    let mut machine = Machine::with_shell();
    let bin = machine.place.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\ncase \"$*\" in {fails}) echo inactive; exit 3;; esac\n",
        calls(&machine).display()
    );
    fs::write(bin.join("systemctl"), script).unwrap();
    fs::set_permissions(bin.join("systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    machine.set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    machine
}

fn calls(machine: &Machine) -> PathBuf {
    machine.place.root().join("systemctl-calls")
}

fn unit(machine: &Machine) -> PathBuf {
    machine.place.home().join(".config/systemd/user/angelia.service")
}

#[test]
fn it_is_installed_checked_and_removed() {
    let machine = machine("nothing");
    machine.angelia(&["service", "status"]).assert_code(69).assert_stdout("not installed");
    let installed = machine.angelia(&["service", "install"]);
    installed.assert_code(0).assert_stdout(&unit(&machine).display().to_string());
    let text = fs::read_to_string(unit(&machine)).unwrap();
    for line in [
        format!("ExecStart=\"{ANGELIA}\" \"serve\""),
        format!("ExecReload=\"{ANGELIA}\" \"restart\""),
        format!("Environment=\"ANGELIA_HOME={}\"", machine.home().display()),
        "NoNewPrivileges=yes".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
    machine.angelia(&["service", "status"]).assert_code(0).assert_stdout("running: yes");
    machine.angelia(&["service", "uninstall"]).assert_code(0).assert_stdout("removed");
    assert!(!unit(&machine).exists());
    let called = fs::read_to_string(calls(&machine)).unwrap();
    let expected = [
        "--user daemon-reload",
        "--user enable --now angelia.service",
        "--user is-active angelia.service",
        "--user disable --now angelia.service",
        "--user daemon-reload",
    ];
    assert_eq!(called.lines().collect::<Vec<_>>(), expected);
    machine.angelia(&["service", "uninstall"]).assert_code(0).assert_stdout("not installed");
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    let machine = machine("nothing");
    machine.angelia(&["service", "install"]).assert_code(0);
    let mut check = machine.program("systemd-analyze");
    check.args(["verify", "--user"]).arg(unit(&machine));
    check.env("XDG_RUNTIME_DIR", machine.work());
    let checked = match check.output() {
        Ok(checked) => checked,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("not checked: `cargo xtask setup` installs systemd-analyze");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !said.contains("angelia.service"), "{said}");
}

#[test]
fn what_cannot_run_is_not_installed() {
    let stopped = machine("*is-active*");
    stopped.configure("listn: 1\n");
    stopped.angelia(&["service", "install"]).assert_code(78);
    assert!(!unit(&stopped).exists());
    // A daemon that somebody has started would keep the service from starting.
    stopped.configure("");
    let serving = stopped.serve();
    let refused = stopped.angelia(&["service", "install"]);
    refused.assert_code(75).assert_stderr("angelia stop");
    assert!(!unit(&stopped).exists());
    serving.stop().assert_code(0);
    // Without a user manager the file is there, and the person is told what to run.
    let unmanaged = machine("*enable*");
    let failed = unmanaged.angelia(&["service", "install"]);
    failed.assert_code(69).assert_stderr("systemctl --user enable --now angelia.service");
    assert!(unit(&unmanaged).exists());
}

//! `angelia setup hermes`: Hermes' names become links to Angelia, and nobody's program is replaced
//! or hidden.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::machine::{ANGELIA, Machine};

const NAMES: [&str; 4] = ["hermes-busd", "hermes-bus-server", "notify-hermes", "notify-agent"];

fn links(machine: &Machine) -> PathBuf {
    machine.place.home().join(".local/bin")
}

fn put_program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\necho theirs\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_names_are_linked_work_and_go_away_again() {
    let machine = Machine::new();
    machine.angelia(&["setup", "hermes"]).assert_code(0).assert_stdout("not on PATH");
    assert!(!links(&machine).exists(), "without a flag nothing is written");

    let wrote = machine.angelia(&["setup", "hermes", "--write"]);
    wrote.assert_code(0).assert_stdout("notify-hermes →").assert_stderr("is not on PATH");
    for name in NAMES {
        assert_eq!(fs::read_link(links(&machine).join(name)).unwrap(), Path::new(ANGELIA));
    }
    let named =
        machine.program(links(&machine).join("hermes-busd")).arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&named.stdout).contains("restart"), "{named:?}");

    machine.angelia(&["setup", "hermes", "--write"]).assert_code(0).assert_stdout("already");
    let kept = links(&machine).join("other");
    put_program(&kept);
    machine.angelia(&["setup", "hermes", "--undo"]).assert_code(0).assert_stdout("removed");
    assert_eq!(fs::read_dir(links(&machine)).unwrap().count(), 1, "only the other program is left");
    assert!(kept.exists());
}

#[test]
fn an_existing_file_is_never_replaced() {
    let machine = Machine::new();
    let theirs = links(&machine).join("hermes-busd");
    put_program(&theirs);
    let wrote = machine.angelia(&["setup", "hermes", "--write"]);
    wrote.assert_code(1).assert_stderr("left alone").assert_stderr("hermes-busd");
    assert!(fs::read_to_string(&theirs).unwrap().contains("theirs"));
    assert!(links(&machine).join("notify-hermes").exists(), "the free names are linked");
    machine.angelia(&["setup", "hermes", "--undo"]).assert_code(0);
    assert!(theirs.exists());
}

#[test]
fn a_program_elsewhere_on_path_is_not_hidden() {
    let mut machine = Machine::new();
    let bin = machine.place.root().join("venv/bin");
    put_program(&bin.join("notify-hermes"));
    machine.set("PATH", format!("{}:{}", links(&machine).display(), bin.display()));
    let wrote = machine.angelia(&["setup", "hermes", "--write"]);
    wrote.assert_code(1).assert_stderr("venv/bin/notify-hermes");
    assert!(!links(&machine).join("notify-hermes").exists());
    assert!(!wrote.stderr.contains("not on PATH"));
}

#[test]
fn a_link_whose_program_is_gone_is_renewed() {
    let machine = Machine::new();
    fs::create_dir_all(links(&machine)).unwrap();
    let link = links(&machine).join("hermes-busd");
    std::os::unix::fs::symlink("/nowhere/libexec/angelia/hermes/hermes-busd", &link).unwrap();
    machine.angelia(&["setup", "hermes"]).assert_code(0).assert_stdout("leads nowhere");
    machine.angelia(&["setup", "hermes", "--write"]).assert_code(0);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new(ANGELIA));
}

#[test]
fn the_packages_links_are_used_where_a_package_brought_them() {
    let machine = Machine::new();
    let prefix = machine.place.root().join("prefix");
    let program = prefix.join("bin/angelia");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy(ANGELIA, &program).unwrap();
    let run = |arguments: &[&str]| {
        let ran = machine.program(&program).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    run(&["package-files", prefix.to_str().unwrap()]);
    run(&["setup", "hermes", "--write"]);
    let packaged = prefix.join("libexec/angelia/hermes/hermes-busd");
    assert_eq!(fs::read_link(links(&machine).join("hermes-busd")).unwrap(), packaged);
    assert_eq!(packaged.canonicalize().unwrap(), program.canonicalize().unwrap());
}

#[test]
fn packages_have_a_man_page_per_command_and_completions() {
    let machine = Machine::new();
    let prefix = machine.place.root().join("prefix");
    machine.angelia(&["package-files", prefix.to_str().unwrap()]).assert_code(0);
    let read = |path: &str| fs::read_to_string(prefix.join(path)).unwrap();
    assert!(read("share/man/man1/angelia.1").contains("angelia\\-run(1)"));
    assert!(read("share/man/man1/angelia-sessions-list.1").contains("List the sessions"));
    assert!(!prefix.join("share/man/man1/angelia-package-files.1").exists(), "it is hidden");
    assert!(read("share/bash-completion/completions/angelia").contains("approvals"));
    assert!(read("share/zsh/site-functions/_angelia").starts_with("#compdef angelia"));
    assert!(read("share/fish/vendor_completions.d/angelia.fish").contains("complete -c angelia"));
    let help = machine.angelia(&["--help"]);
    help.assert_stdout("setup");
    assert!(!help.stdout.contains("package-files"));
}

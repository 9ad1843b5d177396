//! Validation of `delegate_to` in the configuration.

use crate::machine::Machine;

#[track_caller]
fn assert_config_error(yaml: &str, what: &str) {
    let machine = Machine::new();
    machine.configure(yaml);
    machine.angelia(&["config", "check"]).assert_code(78).assert_stderr(what);
}

#[test]
fn nobody_is_named_who_is_not_there_or_may_do_more() {
    assert_config_error(
        "profiles:\n  default: {delegate_to: [helpr]}\n  helper: {}\n",
        "there is no `helpr`; did you mean `helper`?",
    );
    assert_config_error(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {permissions: edit}\n",
        "config.yaml:2: `profiles.default.delegate_to` names `wide`, which may do more",
    );
    assert_config_error(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {allowed_tools: [Bash]}\n",
        "its allowed_tools have `Bash`",
    );
    assert_config_error(
        "profiles:\n  default: {delegate_to: [wide], cwd: /srv/a}\n  wide: {cwd: /srv/b}\n",
        "it works in /srv/b",
    );
    assert_config_error(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {trust: on}\n",
        "it trusts the project",
    );
    assert_config_error(
        "profiles:\n  default: {delegate_to: [a]}\n  a: {fallback_profile: b}\n  b: {permissions: unattended}\n",
        "its permissions are `unattended`",
    );
    assert_config_error(
        "profiles:\n  default: {mode: model, delegate_to: [a]}\n  a: {}\n",
        "is of no use in model mode",
    );
}

#[test]
fn circles_and_narrower_ones_are_fine() {
    let machine = Machine::new();
    machine.configure(
        "profiles:
  default: {permissions: edit, delegate_to: [a, default, m], cwd: /srv}
  a: {permissions: edit, delegate_to: [default], cwd: /srv/below}
  m: {mode: model}
",
    );
    // The delegation back leads to a profile with a wider directory.
    machine
        .angelia(&["config", "check"])
        .assert_code(78)
        .assert_stderr("it works in /srv, outside");
    machine.configure(
        "profiles:
  default: {permissions: edit, delegate_to: [a, default, m]}
  a: {permissions: ask, delegate_to: [a]}
  m: {mode: model}
executors:
  claude: {delegate_to: [m]}
",
    );
    machine.angelia(&["config", "check"]).assert_code(0);
}

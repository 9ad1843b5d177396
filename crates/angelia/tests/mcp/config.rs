//! Validation of `delegate_to` in the configuration.

use crate::stage::Machine;

#[track_caller]
fn complains(yaml: &str, what: &str) {
    let machine = Machine::new();
    machine.configure(yaml);
    machine.angelia(&["config", "check"]).is(78).complains(what);
}

#[test]
fn nobody_is_named_who_is_not_there_or_may_do_more() {
    complains(
        "profiles:\n  default: {delegate_to: [helpr]}\n  helper: {}\n",
        "there is no `helpr`; did you mean `helper`?",
    );
    complains(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {permissions: edit}\n",
        "config.yaml:2: `profiles.default.delegate_to` names `wide`, which may do more",
    );
    complains(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {allowed_tools: [Bash]}\n",
        "its allowed_tools have `Bash`",
    );
    complains(
        "profiles:\n  default: {delegate_to: [wide], cwd: /srv/a}\n  wide: {cwd: /srv/b}\n",
        "it works in /srv/b",
    );
    complains(
        "profiles:\n  default: {delegate_to: [wide]}\n  wide: {trust: on}\n",
        "it trusts the project",
    );
    complains(
        "profiles:\n  default: {delegate_to: [a]}\n  a: {fallback_profile: b}\n  b: {permissions: unattended}\n",
        "its permissions are `unattended`",
    );
    complains(
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
    machine.angelia(&["config", "check"]).is(78).complains("it works in /srv, outside");
    machine.configure(
        "profiles:
  default: {permissions: edit, delegate_to: [a, default, m]}
  a: {permissions: ask, delegate_to: [a]}
  m: {mode: model}
executors:
  claude: {delegate_to: [m]}
",
    );
    machine.angelia(&["config", "check"]).is(0);
}

//! Tests of `command`, which ACP agents need and no other agent has.

use super::{TestHome, load_error};

#[test]
fn an_acp_agent_needs_a_command_and_only_it() {
    let text = "\
profiles:
  bare: {executor: acp}
  chosen: {executor: claude, command: [gemini, --acp]}
  left: {command: [gemini, --acp]}
  model: {executor: acp, mode: model, command: [gemini, --acp]}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `profiles.bare.executor` needs a `command`: the agent's program and its arguments, such as [gemini, --acp]
      config.yaml:3: `profiles.chosen.command` is only for `executor: acp`; set that, or remove it
      config.yaml:4: `profiles.left.command` is only for `executor: acp`; set that, or remove it
      config.yaml:5: `profiles.model.mode` cannot be `model` for `executor: acp`: nothing in that protocol turns an agent's own tools off; use `mode: agent`
    correct it, then try `angelia config check`
    ");
}

#[test]
fn a_command_is_a_list_that_begins_with_a_program() {
    let text = "\
profiles:
  a: {executor: acp, command: gemini --acp}
  b: {executor: acp, command: []}
  c: {executor: acp, command: [bin/gemini]}
  d: {executor: acp, command: [{}]}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:2: `profiles.a.command` expects a list: a program's name or whole path, then its arguments, such as [gemini, --acp], not `gemini --acp`
      config.yaml:3: `profiles.b.command` is not a list: a program's name or whole path, then its arguments, such as [gemini, --acp]
      config.yaml:4: `profiles.c.command` is not a list: a program's name or whole path, then its arguments, such as [gemini, --acp]
      config.yaml:5: `profiles.d.command[0]` expects text, not a mapping
    correct it, then try `angelia config check`
    ");
}

#[test]
fn it_arrives_also_from_the_defaults_of_its_executor() {
    let text = "\
profiles:
  own: {executor: acp, command: [~/bin/agent, --acp]}
  inherited: {executor: acp}
executors:
  acp: {command: [opencode, acp]}
";
    let place = TestHome::with_file(text);
    let config = place.config();
    place.with_context(|call| {
        let command = |profile: &str| {
            let specs = config.resolve(Some(profile), call).unwrap();
            specs[0].command.join(" ")
        };
        assert_eq!(command("own"), "~/bin/agent --acp");
        assert_eq!(command("inherited"), "opencode acp");
    });
}

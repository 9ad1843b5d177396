//! Tests of the checks of `fallback_profile`.

use super::{TestHome, load_error};

/// With `executor: auto`, each executor's defaults may name another fallback.
#[test]
fn the_fallback_of_every_executor_must_exist() {
    let text = "\
profiles:
  default: {executor: auto}
  spare: {executor: parrot}
executors:
  claude: {fallback_profile: spare}
  codex: {fallback_profile: spar}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:6: `profiles.default.fallback_profile` names no profile: there is no `spar`; did you mean `spare`?
    correct it, then try `angelia config check`
    ");
}

#[test]
fn a_fallback_is_reported_once_for_all_executors() {
    let text = "\
profiles:
  default: {fallback_profile: ghost}
  a: {executor: parrot, fallback_profile: b}
  b: {executor: parrot, fallback_profile: a}
claude_code_bridge:
  fallback_profile: gone
executors:
  claude: {fallback_profile: a}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:3: `profiles.a.fallback_profile` leads back to `a` itself; end the chain somewhere
      config.yaml:4: `profiles.b.fallback_profile` leads back to `b` itself; end the chain somewhere
      config.yaml:6: `profiles.claude_code_bridge.fallback_profile` names no profile: there is no `gone`
      config.yaml:2: `profiles.default.fallback_profile` names no profile: there is no `ghost`
    correct it, then try `angelia config check`
    ");
}

#[test]
fn a_chain_that_ends_is_valid() {
    let text = "\
profiles:
  a: {executor: claude, fallback_profile: b}
  b: {executor: claude, fallback_profile: c}
  c: {executor: parrot}
";
    let config = TestHome::with_file(text).config();
    assert_eq!(config.with_fallbacks("a"), ["a", "b", "c"]);
}

//! Tests of the output of `config show`.

use super::TestHome;

#[test]
fn values_that_may_be_secrets_are_not_shown() {
    let text = "\
mcp_servers:
  web: {type: http, url: 'https://example.org/mcp', headers: {Authorization: Bearer s3cret}}
profiles:
  default:
    env: {API_KEY: s3cret}
    mcp_servers: {local: {command: x, env: {TOKEN: s3cret}}}
";
    let config = TestHome::with_file(text).config();
    let printed = format!("{}{}{config:?}", config.show(), config.show_origin());
    assert!(!printed.contains("s3cret"), "{printed}");
    assert!(printed.contains("profiles.default.env.API_KEY: \"(hidden)\"  # config.yaml:5"));
}

#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let text = "\
listen: '[::1]:0'
claude_code_bridge: {enabled: true, allowed_tools: ['Bash(git *)', 'mcp__a__*']}
profiles:
  'on': {model: '1.0', executor: claude, tools: []}
  b.c-d: {model: 'with # and \"quotes\"', cwd: '/srv/a b'}
executors: {claude: {billing: api_key}}
";
    let place = TestHome::with_file(text);
    let shown = place.config().show();
    place.write(&shown);
    assert_eq!(place.config().show(), shown);
}

#[test]
fn check_names_the_profiles() {
    let config = TestHome::with_file("profiles: {review: {}}\n").config();
    insta::assert_snapshot!(config.check(), @"the configuration is valid; profiles: default, review (`default` where none is named)");
}

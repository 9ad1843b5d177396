//! The defaults are the contract's.

use super::Place;

/// Every key of the contract that does something now, with the contract's value.
const CONTRACT: &str = "\
listen: 127.0.0.1:4376
profiles:
  default:
    executor: auto
    model: null
    mode: agent
    binary: null
    cwd: null
    trust: auto
    system_prompt_path: null
    permissions: ask
    allowed_tools: []
    disallowed_tools: []
    tools: default
    mcp_servers: {}
    env: {}
    env_pass: []
    billing: any
    background_grace: 15m
    exclude_dynamic_system_prompt_sections: true
    warm: 1
executors:
  claude: {}
sessions:
  idle_ttl: 10m
  max_live: 64
  max_queued_turns: 16
  keep: 90d
mcp_servers: {}
";

#[test]
fn without_a_file_the_contract_holds() {
    assert_eq!(Place::new().config().show(), CONTRACT);
}

#[test]
fn an_empty_file_is_valid() {
    for text in ["", "\n", "# only a comment\n", "---\n", "null\n"] {
        let config = Place::with_file(text).config();
        assert_eq!(config.show(), CONTRACT, "{text:?}");
    }
}

#[test]
fn the_contract_itself_is_a_valid_file() {
    let config = Place::with_file(CONTRACT).config();
    assert_eq!(config.show(), CONTRACT);
    assert!(
        config
            .show_origin()
            .contains("sessions.keep: 90d  # config.yaml:28")
    );
}

#[test]
fn a_block_with_nothing_in_it_is_empty() {
    let text = "profiles:\n  default:\nexecutors:\nsessions:\nmcp_servers:\n";
    assert_eq!(Place::with_file(text).config().show(), CONTRACT);
}

#[test]
fn the_initial_file_says_the_defaults() {
    let text = crate::config::initial_file();
    assert_eq!(Place::with_file(&text).config().show(), CONTRACT);
}

#[test]
fn the_initial_file_says_the_defaults_with_every_key_taken_in() {
    let text = crate::config::initial_file();
    let uncommented: Vec<String> = text
        .lines()
        .map(|line| match line.split_once('#') {
            Some((indent, key)) if !key.starts_with(' ') => format!("{indent}{key}"),
            _ => line.to_owned(),
        })
        .collect();
    let config = Place::with_file(&uncommented.join("\n")).config();
    assert_eq!(config.show(), CONTRACT);
    let said = config.show_origin();
    assert!(!said.contains("# default"), "{said}");
}

//! Tests with texts that people and Codex write, and with generated texts.

use proptest::{prelude::*, sample::select};
use serde_json::json;
use toml_edit::Document;

use super::*;

fn servers(json: &serde_json::Value) -> Vec<(Box<str>, angelia_core::model::RawJson)> {
    let all = json.as_object().unwrap().iter();
    all.map(|(name, server)| {
        let raw = serde_json::value::to_raw_value(server).unwrap();
        (name.as_str().into(), raw.into())
    })
    .collect()
}

fn desired_config() -> DesiredConfig {
    DesiredConfig {
        servers: servers(&json!({
            "docs": {"command": "docs", "args": ["-x"], "env": {"A": "line\nline\u{1}"}},
            "far": {"type": "http", "url": "http://127.0.0.1:1/mcp", "timeout": 3},
        })),
        own_server: Some(OwnServerLaunch {
            program: "/opt/angelia".into(),
            arguments: vec!["mcp".to_owned()],
            env: vec![("ANGELIA_HOME".to_owned(), "/h".to_owned())],
        }),
        workspace_writes: true,
        plugins: vec!["notion@openai-curated".to_owned()],
    }
}

fn enable(text: &str) -> ConfigEdit {
    with_angelia_config(Some(text), &desired_config()).unwrap()
}

fn disable(text: &str) -> String {
    without_angelia_config(text).unwrap().unwrap()
}

fn state<'a>(plan: &'a ConfigEdit, name: &str) -> &'a PartState {
    let part = plan.parts.iter().find(|part| part.name == name);
    &part.unwrap().state
}

const USERS: &str = "#:schema https://example.org/schema.json\nmodel = \"m\" # mine\n\n\
    # my servers\n[mcp_servers.own]\ncommand = \"own\"\n\n[features]\nx = true\n";

#[test]
fn everything_is_written_and_marked() {
    let plan = enable(USERS);
    let expected = "#:schema https://example.org/schema.json\nmodel = \"m\" # mine\n\
        default_permissions = \":workspace\" # angelia codex\n\n\
        # my servers\n[mcp_servers.own]\ncommand = \"own\"\n\n[features]\nx = true\n\
        # >>> angelia codex enable: ours down to `<<<`, changes in it are lost; `angelia codex disable` takes it away\n\
        [mcp_servers.angelia] # angelia codex\n\
        command = \"/opt/angelia\"\nargs = [\"mcp\"]\nenv = { ANGELIA_HOME = \"/h\" }\ntool_timeout_sec = 86400\n\
        [mcp_servers.docs] # angelia codex\n\
        command = \"docs\"\nargs = [\"-x\"]\nenv = { A = \"line\\nline\\u0001\" }\n\
        [mcp_servers.far] # angelia codex\nurl = \"http://127.0.0.1:1/mcp\"\n\
        [plugins.\"notion@openai-curated\"] # angelia codex\nenabled = true\n\
        # <<< angelia codex: mcp_servers.angelia mcp_servers.docs mcp_servers.far plugins.\"notion@openai-curated\"\n";
    assert_eq!(plan.text, expected);
    let far = plan.parts.iter().find(|part| part.name.ends_with("far"));
    assert_eq!(far.unwrap().ignored_keys, ["timeout"]);
    assert_eq!(disable(&plan.text), USERS);
    assert_eq!(enable(&plan.text), plan, "once more changes nothing");
}

#[test]
fn what_was_there_comes_back_to_the_byte() {
    for text in [
        "",
        "\n",
        "a = 1",
        "a = 1\n",
        "# only words",
        "#:schema x",
        "\u{feff}a = 1\n",
        "\u{feff}# words\n[t]\n",
        "a = 1\r\n[t]\r\nb = 2\r\n",
        "a = 1\r\n[t]\r\nb = 2",
        "[[t]]\na = \"\"\"\n# >>> angelia codex\n[x] # angelia codex\n\"\"\"\n[[t]]",
        "a.b = { c = 1 }\n   [ t . \"u v\" ]   # c",
        "a = [\n 1, # one\n]",
    ] {
        let plan = enable(text);
        assert_eq!(disable(&plan.text), text, "{plan:#?}");
        assert_eq!(enable(&plan.text).text, plan.text, "{text:?}");
        assert_eq!(plan.text.contains("\r\n"), text.contains("\r\n"), "{text:?}");
        assert!(
            plan.parts.iter().all(|part| part.state == PartState::Written),
            "{text:?} {plan:#?}"
        );
    }
    let new = with_angelia_config(None, &desired_config()).unwrap().text;
    assert_eq!(without_angelia_config(&new).unwrap(), None, "no file was there");
    let kept = format!("{new}mine = 1\n");
    assert_eq!(disable(&kept), "mine = 1\n");
}

#[test]
fn what_is_edited_meanwhile_stays() {
    let text = enable("a = 1").text;
    assert_eq!(disable(&format!("{text}[mine]\n")), "a = 1\n[mine]\n");
    assert_eq!(disable(&format!("# first\n{text}")), "# first\na = 1");
    let inside = text.replace("[mcp_servers.far]", "# mine\n[mine]\nx = 1\n\n[mcp_servers.far]");
    assert_eq!(disable(&inside), "a = 1\n# mine\n[mine]\nx = 1\n\n");
    let own = text.replace("\":workspace\" #", "\":read-only\" #");
    assert_eq!(disable(&own), "a = 1\ndefault_permissions = \":read-only\" # angelia codex\n");
    // A subtable of one of our tables would be meaningless without it.
    let below = format!("{text}[mcp_servers.docs.tools.x]\napproval_mode = \"approve\"\n");
    assert_eq!(disable(&below), "a = 1");
    let halved = text.replace("# <<< ", "# ");
    assert!(disable(&halved).starts_with("a = 1\n# angelia codex:"));
}

/// The text is in the state in which `codex mcp add` and `codex features enable` leave it.
#[test]
fn what_the_program_has_rewritten_is_still_ours() {
    let text = "model = \"m\"\ndefault_permissions = \":workspace\" # angelia codex\n\n\
        [mcp_servers.docs]\ncommand = \"docs\"\n\n[mcp_servers.docs.env]\nA = \"1\"\n\n\
        [mcp_servers.other]\ncommand = \"ls\"\n\n[features]\nx = true\n\
        # <<< angelia codex: mcp_servers.docs\n";
    let left =
        "model = \"m\"\n\n\n\n[mcp_servers.other]\ncommand = \"ls\"\n\n[features]\nx = true\n";
    assert_eq!(disable(text), left);
}

#[test]
fn the_users_own_word_wins() {
    let text = "sandbox_mode = \"read-only\"\nmcp_servers.docs.command = \"mine\"\n\
        [plugins.\"notion@openai-curated\"]\nenabled = false\n";
    let plan = enable(text);
    for name in ["default_permissions", "mcp_servers.docs", "plugins.\"notion@openai-curated\""] {
        assert!(matches!(state(&plan, name), PartState::Kept(_)), "{plan:#?}");
    }
    assert_eq!(*state(&plan, "mcp_servers.angelia"), PartState::Written);
    assert_eq!(disable(&plan.text), text);
}

#[test]
fn one_part_that_cannot_be_written_does_not_hinder_the_rest() {
    let mut wish = desired_config();
    wish.servers.extend(servers(&json!({
        "bad": {"command": "x", "args": 1}, "angelia": {"command": "x"},
    })));
    let plan = with_angelia_config(Some("mcp_servers = {}\n"), &wish).unwrap();
    let failed =
        |name: &str| assert!(matches!(state(&plan, name), PartState::Failed(_)), "{plan:#?}");
    for name in ["mcp_servers.docs", "mcp_servers.far", "mcp_servers.bad"] {
        failed(name);
    }
    let written = "plugins.\"notion@openai-curated\"";
    assert_eq!(*state(&plan, written), PartState::Written);
    assert_eq!(disable(&plan.text), "mcp_servers = {}\n");
    let nothing = with_angelia_config(Some("a = 1"), &DesiredConfig::default()).unwrap();
    assert_eq!(nothing.text, "a = 1");
}

#[test]
fn a_broken_text_is_named_by_its_line() {
    let broken = with_angelia_config(Some("a = 1\nb = = 2\n"), &desired_config()).unwrap_err();
    assert_eq!((broken.line, broken.column > 1), (2, true), "{broken:?}");
    assert!(!broken.message.is_empty());
    assert!(without_angelia_config("[a\n").is_err());
}

/// A line after our block belongs to our table; without the table it would be a duplicate key of
/// another one.
#[test]
fn a_text_that_would_be_broken_without_our_part_is_left_alone() {
    let text = "a = 1\n[mcp_servers.docs]\n# <<< angelia codex: mcp_servers.docs\na = 2\n";
    for refused in [
        without_angelia_config(text).unwrap_err(),
        with_angelia_config(Some(text), &desired_config()).unwrap_err(),
    ] {
        assert_eq!(refused.line, 3, "{refused:?}");
        assert!(refused.message.contains("duplicate key"), "{refused:?}");
    }
    let moved = "a = 1\nb = 2\n[mcp_servers.docs]\n# <<< angelia codex: mcp_servers.docs\n";
    assert_eq!(without_angelia_config(moved).unwrap().unwrap(), "a = 1\nb = 2\n");
}

/// A text of a few lines that people or Codex might write, and some that they would not.
fn text() -> impl Strategy<Value = String> {
    let line = select(vec![
        "a = 1",
        "b.c = \"x\" # c",
        "default_permissions = \":read-only\"",
        "sandbox_mode = \"read-only\"",
        "mcp_servers.docs.command = \"x\"",
        "mcp_servers = {}",
        "d = [",
        "  1, # one",
        "]",
        "s = \"\"\"",
        "\"\"\"",
        "l = '''",
        "'''",
        "# words",
        "#:schema x",
        "",
        "  ",
        "[t]",
        "[[u]]",
        "[mcp_servers]",
        "[mcp_servers.docs]",
        "[mcp_servers.own]",
        "[mcp_servers.docs.env]",
        "[plugins.\"notion@openai-curated\"]",
        "command = \"x\"",
        "x = 2",
        "y = 3",
    ]);
    let odd = select(vec![
        "# >>> angelia codex enable",
        "# >>> angelia codex [open line]",
        "# <<< angelia codex: mcp_servers.docs",
        "# <<< angelia codex",
        "[mcp_servers.old] # angelia codex",
        "default_permissions = \":workspace\" # angelia codex",
    ]);
    let lines = proptest::collection::vec(prop_oneof![9 => line, 1 => odd], 0..12);
    (lines, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(lines, crlf, open, bom)| {
        let newline = if crlf { "\r\n" } else { "\n" };
        let mut text = lines.join(newline);
        if !open && !text.is_empty() {
            text.push_str(newline);
        }
        if bom {
            text.insert(0, '\u{feff}');
        }
        text
    })
}

fn valid() -> impl Strategy<Value = String> {
    text().prop_filter("it must be TOML", |text| Document::parse(text.as_str()).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 10_000_000, max_local_rejects: 10_000_000, ..ProptestConfig::default() })]

    /// Enabling and disabling adds and removes our settings and nothing else.
    #[test]
    fn enabling_and_disabling(text in valid(), workspace in any::<bool>(), own in any::<bool>()) {
        let mut wish = desired_config();
        wish.workspace_writes = workspace;
        if !own {
            wish.own_server = None;
        }
        // Lines that an earlier run left in the text are not the user's.
        let base = match without_angelia_config(&text) {
            Ok(base) => base.unwrap_or_default(),
            Err(broken) => {
                prop_assert!(broken.message.contains("Angelia's part"), "{broken:?}");
                return Ok(());
            }
        };
        prop_assert_eq!(without_angelia_config(&base).unwrap().unwrap_or_default(), base.as_str());
        let plan = with_angelia_config(Some(&base), &wish).unwrap();
        let read = Document::parse(plan.text.as_str());
        prop_assert!(read.is_ok(), "{}", plan.text);
        prop_assert_eq!(without_angelia_config(&plan.text).unwrap(), Some(base.clone()));
        prop_assert_eq!(&with_angelia_config(Some(&plan.text), &wish).unwrap(), &plan);
        prop_assert_eq!(&with_angelia_config(Some(&text), &wish).unwrap(), &plan);
        // Every line of the user's is still there, in order.
        let mut rest = plan.text.as_str();
        for line in base.trim_start_matches('\u{feff}').lines() {
            let at = rest.find(line);
            prop_assert!(at.is_some(), "{line:?} of {base:?} in {}", plan.text);
            rest = &rest[at.unwrap() + line.len()..];
        }
        // A part that is reported as written can be read.
        let read = read.unwrap();
        for part in plan.parts.iter().filter(|part| part.state == PartState::Written) {
            let keys = toml_edit::Key::parse(&part.name).unwrap();
            let mut item = Some(read.as_item());
            for key in &keys {
                item = item.and_then(|item| item.get(key.get()));
            }
            prop_assert!(item.is_some(), "{} in {}", part.name, plan.text);
        }
    }

    #[test]
    fn any_bytes_are_survived(text in ".{0,60}|[a#<>\\[\\]\"'=\n\r .]{0,40}") {
        let _any = without_angelia_config(&text);
        let _any = with_angelia_config(Some(&text), &desired_config());
    }
}

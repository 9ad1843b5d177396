//! Tests of resolving a profile and a call into a session specification.

use std::path::Path;

use angelia_core::model::{Billing, Mode, PermissionLevel, SessionSpec, SystemPrompt, ToolSet};

use super::{ResolveContext, TestHome};

/// The parts of a call that a test changes.
#[derive(Clone, Copy)]
struct ContextOverrides<'a> {
    named_cwd: Option<&'a Path>,
    from_nowhere: bool,
    at_terminal: bool,
}

const NO_OVERRIDES: ContextOverrides<'_> =
    ContextOverrides { named_cwd: None, from_nowhere: false, at_terminal: false };

fn resolve_first(place: &TestHome, profile: &str, special: ContextOverrides<'_>) -> SessionSpec {
    try_resolve_first(place, profile, special).unwrap()
}

fn try_resolve_first(
    place: &TestHome,
    profile: &str,
    special: ContextOverrides<'_>,
) -> Result<SessionSpec, String> {
    let config = place.config();
    place.with_context(|call| {
        let call = ResolveContext {
            named_cwd: special.named_cwd,
            caller_cwd: call.caller_cwd.filter(|_| !special.from_nowhere),
            at_terminal: special.at_terminal,
            ..*call
        };
        let specs = config.resolve(Some(profile), &call);
        specs.map(|mut specs| specs.remove(0)).map_err(|error| error.to_string())
    })
}

#[test]
fn auto_has_a_specification_for_each_candidate() {
    let place = TestHome::new();
    let config = place.config();
    place.with_context(|call| {
        let specs = config.resolve(None, call).unwrap();
        let executors: Vec<&str> = specs.iter().map(|spec| &*spec.executor).collect();
        assert_eq!(executors, ["claude", "codex", "parrot"]);
    });
}

#[test]
fn every_key_arrives() {
    let text = "\
mcp_servers: {all: {command: a}, docs: {command: everywhere}}
profiles:
  p:
    executor: claude
    model: opus
    binary: ~/bin/claude
    trust: on
    permissions: unattended
    allowed_tools: [Read]
    disallowed_tools: ['Bash(rm *)']
    tools: all
    mcp_servers: {docs: {command: here, args: [1, true, x], env: {K: v}}}
    env: {A: b}
    env_pass: [CI, 'MY_*']
    billing: subscription
    exclude_dynamic_system_prompt_sections: no
    warm: 0
";
    let place = TestHome::with_file(text);
    let spec = resolve_first(&place, "p", NO_OVERRIDES);
    assert_eq!((&*spec.profile, &*spec.executor), ("p", "claude"));
    assert_eq!(spec.mode, Mode::Agent);
    assert_eq!(spec.model.as_deref(), Some("opus"));
    assert_eq!(spec.binary.as_deref(), Some(place.path("bin/claude").as_path()));
    assert!(spec.trust && spec.resume && !spec.stable_prompt);
    assert_eq!(spec.system, SystemPrompt::Default);
    assert_eq!(spec.permissions.level, PermissionLevel::Unattended);
    assert_eq!(spec.tools, ToolSet::All);
    let servers: Vec<_> = spec.mcp_servers.iter().map(|(k, v)| (&**k, v.get())).collect();
    let here = r#"{"command":"here","args":[1,true,"x"],"env":{"K":"v"}}"#;
    assert_eq!(servers, [("all", r#"{"command":"a"}"#), ("docs", here)]);
    assert_eq!(spec.env["A"].as_ref(), "b");
    assert_eq!(spec.env_pass, ["CI".into(), "MY_*".into()]);
    assert_eq!(spec.billing, Billing::Subscription);
    assert_eq!(spec.warm, 0);
}

#[test]
fn the_directory_is_the_named_one_then_the_profiles_then_the_callers() {
    let place = TestHome::new();
    for name in ["named", "own"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place.write("profiles: {p: {cwd: ~/own}, q: {}}\n");
    let named = place.path("named");
    let root = place.folder.path().canonicalize().unwrap();
    let spec =
        resolve_first(&place, "p", ContextOverrides { named_cwd: Some(&named), ..NO_OVERRIDES });
    assert_eq!(spec.cwd, root.join("named"));
    assert_eq!(resolve_first(&place, "p", NO_OVERRIDES).cwd, root.join("own"));
    assert_eq!(resolve_first(&place, "q", NO_OVERRIDES).cwd, root);
    let said =
        try_resolve_first(&place, "q", ContextOverrides { from_nowhere: true, ..NO_OVERRIDES })
            .unwrap_err();
    assert_eq!(said, "profile `q` names no directory to work in; name one, or set its `cwd`");
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let place = TestHome::with_file("profiles: {p: {cwd: /nowhere/at/all}}\n");
    let said = try_resolve_first(&place, "p", NO_OVERRIDES).unwrap_err();
    insta::assert_snapshot!(said, @"cannot work in /nowhere/at/all: No such file or directory (os error 2); name a directory that exists and that you can enter");
}

#[test]
fn trust_is_on_by_itself_only_at_a_terminal() {
    let place = TestHome::with_file("profiles: {a: {}, on: {trust: on}, off: {trust: off}}\n");
    for (profile, at_terminal, expected) in
        [("a", true, true), ("a", false, false), ("on", false, true), ("off", true, false)]
    {
        let spec = resolve_first(&place, profile, ContextOverrides { at_terminal, ..NO_OVERRIDES });
        assert_eq!(spec.trust, expected, "{profile} {at_terminal}");
    }
}

#[test]
fn model_mode_has_an_empty_folder_no_tools_and_its_own_prompt() {
    let place = TestHome::new();
    std::fs::write(place.path("prompt.md"), "You answer.").unwrap();
    place.write(
        "\
mcp_servers: {docs: {command: x}}
profiles:
  m: {executor: claude, mode: model, trust: on, tools: all, system_prompt_path: ~/prompt.md}
  bare: {executor: claude, mode: model}
",
    );
    let spec = resolve_first(
        &place,
        "m",
        ContextOverrides { from_nowhere: true, at_terminal: true, ..NO_OVERRIDES },
    );
    assert_eq!(spec.cwd, place.home().work_dir().join("m"));
    assert_eq!(std::fs::read_dir(&spec.cwd).unwrap().count(), 0);
    assert_eq!(spec.tools, ToolSet::None);
    assert!(spec.mcp_servers.is_empty() && !spec.trust);
    assert_eq!(spec.system, SystemPrompt::Replace("You answer.".into()));
    assert_eq!(
        resolve_first(&place, "bare", NO_OVERRIDES).system,
        SystemPrompt::Replace("".into())
    );
    let said = try_resolve_first(
        &place,
        "m",
        ContextOverrides { named_cwd: Some(Path::new("/tmp")), ..NO_OVERRIDES },
    )
    .unwrap_err();
    insta::assert_snapshot!(said, @"profile `m` is in model mode and works in an empty folder; leave the directory out");
}

#[test]
fn a_system_prompt_that_cannot_be_read_is_named() {
    let place = TestHome::with_file("profiles: {p: {system_prompt_path: /nowhere/prompt.md}}\n");
    let said = try_resolve_first(&place, "p", NO_OVERRIDES).unwrap_err();
    insta::assert_snapshot!(said, @"cannot read the system prompt /nowhere/prompt.md: No such file or directory (os error 2); correct `system_prompt_path` of profile `p`");
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let place = TestHome::with_file("profiles: {review: {}}\n");
    let said = try_resolve_first(&place, "reviw", NO_OVERRIDES).unwrap_err();
    insta::assert_snapshot!(said, @"there is no profile `reviw`; did you mean `review`? known: default, review");
}

#[test]
fn without_a_home_a_path_below_it_is_refused() {
    let place = TestHome::with_file("profiles: {p: {binary: ~/claude}}\n");
    let nothing = super::Environment::default();
    let config = place.config();
    let said = place.with_context(|call| {
        let call = ResolveContext { environment: &nothing, ..*call };
        config.resolve(Some("p"), &call).unwrap_err().to_string()
    });
    insta::assert_snapshot!(said, @"`binary` of profile `p` starts with ~/ and HOME is not set; set it, or write the whole path");
}

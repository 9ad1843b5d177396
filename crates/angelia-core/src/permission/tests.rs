//! Tests of the decision, with paths that need no file system.

use std::path::{Path, PathBuf};

use super::{AccessCheck, AccessPlan, Authority};
use crate::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, GrantRule, PermissionLevel,
        Permissions, SessionId, ToolAccess, ToolClass,
    },
    ports::KnownPlaces,
};

const CWD: &str = "/home/me/project";
pub(super) const SESSION: SessionId = SessionId::from_uuid(uuid::Uuid::from_u128(7));

fn places() -> KnownPlaces {
    KnownPlaces {
        user_home: "/home/me".into(),
        angelia_home: "/home/me/.angelia".into(),
        agent_files: vec![".agent", ".agent.json"],
    }
}

pub(super) fn rules(level: PermissionLevel, allowed: &[&str], disallowed: &[&str]) -> Permissions {
    let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    Permissions { level, allowed: parse(allowed), disallowed: parse(disallowed) }
}

fn request(tool: &str, class: ToolClass, access: ToolAccess) -> ApprovalRequest {
    ApprovalRequest {
        key: "k".into(),
        stage: ApprovalStage::Request,
        access,
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: tool.into(),
        class,
        subject: None,
        title: "t".into(),
        detail: "d".into(),
        input: serde_json::value::to_raw_value(&()).unwrap().into(),
    }
}

pub(super) fn writes(paths: &[&str]) -> ApprovalRequest {
    let writes = paths.iter().map(PathBuf::from).collect();
    request("Write", ToolClass::Edit, ToolAccess { writes, ..ToolAccess::default() })
}

pub(super) fn reads(path: &str) -> ApprovalRequest {
    let access = ToolAccess { reads: vec![path.into()], ..ToolAccess::default() };
    request("Read", ToolClass::Read, access)
}

pub(super) fn bash(script: &str) -> ApprovalRequest {
    runs(CommandAccess::shell(script))
}

fn runs(command: CommandAccess) -> ApprovalRequest {
    let access = ToolAccess { command: Some(command), ..ToolAccess::default() };
    request("Bash", ToolClass::Execute, access)
}

/// Resolves `..` and one symbolic link: `link` in the session's directory leads to `/outside`.
fn resolve(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                real.pop();
            }
            other => real.push(other),
        }
        if real == Path::new(CWD).join("link") || real == Path::new(CWD).join("ok/link") {
            real = "/outside".into();
        }
    }
    real
}

fn check_with(
    permissions: &Permissions,
    request: &ApprovalRequest,
    grants: &[GrantRule],
) -> AccessCheck {
    let places = places();
    let plan = AccessPlan::new(request, Path::new(CWD), &places);
    let real = plan.paths().iter().map(|path| resolve(path)).collect();
    let authority =
        Authority { permissions, session: SESSION, profile: "default", places: &places };
    authority.check(&plan.resolved(real), grants)
}

pub(super) fn check(permissions: &Permissions, request: &ApprovalRequest) -> AccessCheck {
    check_with(permissions, request, &[])
}

const ASK: AccessCheck = AccessCheck::Ask { protected: None };

pub(super) fn is_protected(check: &AccessCheck) -> bool {
    matches!(check, AccessCheck::Ask { protected: Some(_) })
}

#[test]
fn levels_decide_by_class_and_place() {
    use PermissionLevel::{Ask, Edit, Unattended};
    let cases = [
        (Ask, writes(&["a.txt"]), ASK),
        (Ask, bash("ls"), ASK),
        (Edit, writes(&["src/a.txt"]), AccessCheck::Allow),
        (Edit, writes(&["/home/me/project/a.txt"]), AccessCheck::Allow),
        (Edit, writes(&["../other/a.txt"]), ASK),
        (Edit, writes(&["/home/me/project-other/a.txt"]), ASK),
        (Edit, writes(&["link/a.txt"]), ASK),
        (Edit, writes(&["a.txt", "link/a.txt"]), ASK),
        (Edit, bash("ls"), ASK),
        (Edit, reads("a.txt"), ASK),
        (Unattended, bash("rm -r x"), AccessCheck::Allow),
        (Unattended, writes(&["/outside/x"]), AccessCheck::Allow),
    ];
    for (level, request, expected) in cases {
        let got = check(&rules(level, &[], &[]), &request);
        assert_eq!(got, expected, "{level:?} {:?}", request.access);
    }
    let mut objected = writes(&["a.txt"]);
    objected.access.vendor_objection = Some("sensitive file".into());
    assert_eq!(check(&rules(Edit, &[], &[]), &objected), ASK);
    assert_eq!(check(&rules(Unattended, &[], &[]), &objected), AccessCheck::Allow);
}

const PROTECTED: &[&str] = &[
    ".git/hooks/pre-commit",
    "sub/.git/config",
    ".GIT/config",
    ".git./config",
    ".agent/settings.json",
    "sub/.agent.json",
    ".mcp.json",
    "sub/.mcp.json",
    ".bashrc",
    "/home/me/.bashrc",
    "../.zshrc",
    ".vscode/tasks.json",
    ".idea/x",
    ".husky/pre-commit",
    ".cargo/config.toml",
    ".devcontainer/devcontainer.json",
    ".envrc",
    ".npmrc",
    ".gitconfig",
    ".gitmodules",
    "/home/me/.ssh/authorized_keys",
    "/home/me/.aws/credentials",
    "/home/me/.config/git/config",
    "/home/me/.config/systemd/user/x.service",
    "/home/me/.angelia/config.yaml",
    "/home/me/.angelia/skills/x",
    "/home/me/.angelia/sessions/x",
    "/etc/passwd",
    "/proc/self/cwd/.git/config",
    "/home/me/.gnupg/x",
    "/home/me/.kube/config",
];

#[test]
fn protected_paths_need_a_person_at_every_level() {
    for path in PROTECTED {
        for level in [PermissionLevel::Edit, PermissionLevel::Unattended] {
            for allowed in [&[][..], &["Edit"], &["Write"], &["*"], &["Edit(*)"], &["Bash(*)"]] {
                let rules = rules(level, allowed, &[]);
                let absolute = Path::new(CWD).join(path);
                let path = absolute.to_str().unwrap();
                assert!(is_protected(&check(&rules, &writes(&[path]))), "{path} {allowed:?}");
                for script in [
                    format!("echo x > {path}"),
                    format!("echo x >>'{path}'"),
                    format!("cp x {path}"),
                    format!("dd if=x of={path}"),
                    format!("sh -c 'tee {path} <x'"),
                    format!("true && env A=1 mv x \"{path}\""),
                ] {
                    let got = check(&rules, &bash(&script));
                    assert!(is_protected(&got), "{script} {allowed:?}: {got:?}");
                }
            }
        }
    }
    let rules = rules(PermissionLevel::Unattended, &[], &[]);
    for script in [
        "cd .git && echo x > hooks/pre-commit",
        "echo x > \"$PWD/.git/hooks/pre-commit\"",
        "echo x > ~/.bashrc",
        "ln -s /x ~/.ssh/config",
        "cat ~/.angelia/token",
        "head -c 9 /home/me/.angelia/state.db-wal",
        "base64 < ~/.ssh/id_ed25519",
        "$x; sh -c 'env base64 ~/.ssh/id_ed25519'",
        "curl -F a=@x http://x; cat ../.aws/credentials",
    ] {
        assert!(is_protected(&check(&rules, &bash(script))), "{script}");
    }
    for script in [
        "git add .vscode/x && git commit -m 'about .bashrc'",
        "cat .git/HEAD",
        "ls -la .agent",
        "echo .bashrc",
        "make >/dev/null 2>&1",
        "cargo test 2>&1 | tee out.log",
        "cat ~/.ssh/config",
        "grep -rn x .vscode",
    ] {
        assert_eq!(check(&rules, &bash(script)), AccessCheck::Allow, "{script}");
    }
}

#[test]
fn a_pattern_that_names_a_protected_path_lifts_its_protection() {
    let level = PermissionLevel::Unattended;
    let cases = [
        (&["Edit(.vscode/**)"][..], ".vscode/tasks.json", true),
        (&["Write(.vscode/*)"], ".vscode/tasks.json", true),
        (&["Edit(.vscode/**)"], ".idea/x", false),
        (&["Edit(.vscode/**)"], "sub/.vscode/x", false),
        (&["Edit(**/.vscode/**)"], "sub/.vscode/x", true),
        (&["Edit(~/.bashrc)"], "/home/me/.bashrc", true),
        (&["Edit(/home/me/**)"], "/home/me/.bashrc", false),
        (&["Edit(~/.angelia/skills/*)"], "/home/me/.angelia/skills/x", false),
        (&["Edit(/home/me/.angelia/skills/*)"], "/home/me/.angelia/skills/x", true),
        (&["Edit(/home/me/.angelia/skills/*)"], "/home/me/.angelia/token", false),
    ];
    for (allowed, path, lifted) in cases {
        let got = check(&rules(level, allowed, &[]), &writes(&[path]));
        assert_eq!(!is_protected(&got), lifted, "{allowed:?} {path}: {got:?}");
    }
    let named = rules(level, &["Bash(cp x .git/hooks/pre-commit)"], &[]);
    assert_eq!(check(&named, &bash("cp x .git/hooks/pre-commit")), AccessCheck::Allow);
}

#[test]
fn path_patterns_do_not_follow_links_out() {
    let rules = rules(PermissionLevel::Ask, &["Write(ok/*)", "Write(/home/me/project/abs/*)"], &[]);
    for path in ["ok/a", "ok/sub/a", "./ok/../ok/a", "abs/a", "/home/me/project/abs/a"] {
        assert_eq!(check(&rules, &writes(&[path])), AccessCheck::Allow, "{path}");
    }
    for path in ["ok/link/a", "link/a", "ok/../a", "../ok/a", "/ok/a", "okay/a"] {
        assert_eq!(check(&rules, &writes(&[path])), ASK, "{path}");
    }
    assert_eq!(check(&rules, &writes(&["ok/a", "b"])), ASK, "every path must be covered");
}

#[test]
fn command_patterns_cover_every_part_of_a_command() {
    let rules = rules(
        PermissionLevel::Ask,
        &["Bash(git *)", "Bash(make:*)", "Bash(head *)", "Bash(a && b > c)"],
        &[],
    );
    for script in [
        "git status",
        "make test",
        "git log | head -5",
        "git status && git diff 2>&1",
        "git log >/dev/null",
        "LC_ALL=C git log",
        "git commit -F - <<'E'\ntext\nE",
        "a && b > c",
        "git log --format=%H -n 3",
        "git switch -c branch",
    ] {
        assert_eq!(check(&rules, &bash(script)), AccessCheck::Allow, "{script}");
    }
    for script in [
        "git status; rm -r .",
        "git status && rm x",
        "git log | sh",
        "git log > ~/.profile2",
        "git $(rm x)",
        "git `rm x`",
        "git status\nrm x",
        "git log < x",
        "git log & rm x",
        "PATH=/evil git status",
        "LD_PRELOAD=x git log",
        "GIT_SSH_COMMAND=x git fetch",
        "export PATH=/evil; git status",
        "PATH=/evil; git status",
        "/evil/git status",
        "git -c alias.x='!rm y' x",
        "git -calias.x='!rm' x",
        "git log --output=x",
        "git log --outp=x",
        "git fetch --upload-pack='rm x' y",
        "git --exec-path=/evil x",
        "git --config-env=a.b=C x",
        "git config alias.x '!rm'",
        "git rebase --exec 'rm x'",
        "git grep -Ovim x",
        "git -C /evil status",
        "git archive -o x HEAD",
        "git $x",
        "git log \"$x\"",
        "make -f evil",
        "make SHELL=/evil",
        "alias git=rm\ngit status",
        "git() { rm x; }; git status",
        "eval git status",
        "git \"",
        "",
    ] {
        assert_eq!(check(&rules, &bash(script)), ASK, "{script}");
    }
    let mut changed = CommandAccess::argv(["git", "status"]);
    assert_eq!(check(&rules, &runs(changed.clone())), AccessCheck::Allow);
    changed.env.push(("PATH".into(), "/evil".into()));
    assert_eq!(check(&rules, &runs(changed)), ASK);
    let option = self::rules(PermissionLevel::Ask, &["Bash(git -c color.ui=never *)"], &[]);
    assert_eq!(check(&option, &bash("git -c color.ui=never log")), AccessCheck::Allow);
    assert_eq!(check(&option, &bash("git -c color.ui=never log --output=x")), ASK);
}

#[test]
fn deny_rules_see_through_every_spelling() {
    let rules = rules(PermissionLevel::Unattended, &["Bash", "*"], &["Bash(rm *)", "WebFetch"]);
    let denied = |request: &ApprovalRequest| matches!(check(&rules, request), AccessCheck::Deny(_));
    for script in super::shell::SPELLINGS {
        assert!(denied(&bash(script)), "{script}");
    }
    for script in ["ls", "echo rm x", "git rm x", "ls | grep rm"] {
        assert!(!denied(&bash(script)), "{script}");
    }
    for argv in [&["rm", "x"][..], &["/bin/rm"], &["env", "rm", "x"], &["bash", "-lc", "rm x"]] {
        assert!(denied(&runs(CommandAccess::argv(argv.iter().copied()))), "{argv:?}");
    }
    assert!(!denied(&runs(CommandAccess::argv(["echo", "rm x; $(rm)"]))));
    assert!(denied(&request("WebFetch", ToolClass::Other, ToolAccess::default())));
    let why = check(&rules, &bash("$(echo rm) x"));
    let AccessCheck::Deny(why) = why else { panic!("{why:?}") };
    assert!(why.contains("the name of a command is not literal") && why.contains("`Bash(rm *)`"));
}

#[test]
fn deny_rules_count_variables_that_programs_run_and_names_in_any_case() {
    let rules = rules(PermissionLevel::Unattended, &[], &["Bash(rm *)", "Bash(Rscript *)"]);
    let denied = |request: &ApprovalRequest| matches!(check(&rules, request), AccessCheck::Deny(_));
    for (name, value, is_denied) in [
        ("PAGER", "rm x", true),
        ("PAGER", "less -R", false),
        ("BASH_ENV", "s", true),
        ("A", "rm x", false),
    ] {
        let mut command = CommandAccess::argv(["git", "log"]);
        command.env.push((name.into(), value.into()));
        assert_eq!(denied(&runs(command)), is_denied, "{name}={value}");
    }
    for script in ["RM x", "/usr/bin/Rscript a", "rscript a", "git -c core.pager=RSCRIPT log"] {
        assert!(denied(&bash(script)), "{script}");
    }
}

#[test]
fn patterns_do_not_cover_options_that_run_commands() {
    let allowed = ["tar *", "rsync *", "sort *", "scp -S ssh *", "npx *"];
    let allowed = allowed.map(|subject| format!("Bash({subject})"));
    let rules = rules(PermissionLevel::Ask, &allowed.each_ref().map(|rule| &**rule), &[]);
    for script in ["tar xf a", "rsync -av a b", "sort -u a", "scp -S ssh a h:"] {
        assert_eq!(check(&rules, &bash(script)), AccessCheck::Allow, "{script}");
    }
    for script in [
        "tar xf a --to-com=x",
        "tar cfI a x .",
        "tar xf \"$x\"",
        "npx -yc x",
        "rsync -ave x a b",
        "sort --compress-program x",
        "scp -S ssh -o ProxyCommand=x a h:",
    ] {
        assert_eq!(check(&rules, &bash(script)), ASK, "{script}");
    }
}

#[test]
fn deny_rules_with_arguments_count_what_is_not_known() {
    let rules = rules(PermissionLevel::Unattended, &[], &["Bash(git push*)", "Edit(secret/*)"]);
    let denied = |request: &ApprovalRequest| matches!(check(&rules, request), AccessCheck::Deny(_));
    for script in ["git push", "git push origin", "git $x", "git p*", "cd x && git 'push'"] {
        assert!(denied(&bash(script)), "{script}");
    }
    assert!(!denied(&bash("git pull")));
    assert!(denied(&writes(&["secret/x"])) && denied(&writes(&["a", "./secret/../secret/x"])));
    assert!(!denied(&writes(&["a"])));
}

#[test]
fn rules_about_commands_hold_whatever_the_agent_calls_its_shell() {
    for tool in ["Bash", "bash", "shell", "terminal"] {
        let call = |script: &str| {
            let access =
                ToolAccess { command: Some(CommandAccess::shell(script)), ..ToolAccess::default() };
            request(tool, ToolClass::Execute, access)
        };
        for denied in ["Bash(rm *)", "Bash"] {
            let rules = rules(PermissionLevel::Unattended, &[], &[denied]);
            for script in ["rm x", "env rm x", "sh -c 'rm x'"] {
                let check = check(&rules, &call(script));
                assert!(
                    matches!(check, AccessCheck::Deny(_)),
                    "{denied} {tool} {script}: {check:?}"
                );
            }
        }
        let rules = rules(PermissionLevel::Ask, &["Bash(git *)"], &["Bash(git push*)"]);
        assert_eq!(check(&rules, &call("git status")), AccessCheck::Allow, "{tool}");
        assert_eq!(check(&rules, &call("git status; make")), ASK, "{tool}");
        assert!(matches!(check(&rules, &call("git push")), AccessCheck::Deny(_)), "{tool}");
    }
    // A name alone is about the tool of this name, as each agent writes it.
    let path = ToolAccess { writes: vec![format!("{CWD}/a").into()], ..ToolAccess::default() };
    let denied = rules(PermissionLevel::Unattended, &[], &["Write", "mcp__docs__x"]);
    for (tool, is_denied) in [("write", true), ("edit", false), ("mcp__Docs__x", false)] {
        let check = check(&denied, &request(tool, ToolClass::Edit, path.clone()));
        assert_eq!(matches!(check, AccessCheck::Deny(_)), is_denied, "{tool}");
    }
}

#[test]
fn a_report_is_stopped_only_by_rules_and_protected_paths() {
    let rules = rules(PermissionLevel::Ask, &[], &["Bash(rm *)"]);
    let report = |mut request: ApprovalRequest| {
        request.stage = ApprovalStage::Report;
        check(&rules, &request)
    };
    assert_eq!(report(bash("ls")), AccessCheck::Proceed);
    assert_eq!(report(writes(&["a"])), AccessCheck::Proceed);
    assert!(matches!(report(bash("rm x")), AccessCheck::Deny(_)));
    assert!(is_protected(&report(reads("/home/me/.angelia/token"))));
    assert!(is_protected(&report(writes(&[".git/config"]))));
}

#[test]
fn a_call_that_needs_a_person_is_allowed_by_no_level_and_no_pattern() {
    let mut call = bash("git status");
    call.access.must_ask = Some("there is no sandbox".into());
    for level in [PermissionLevel::Ask, PermissionLevel::Edit, PermissionLevel::Unattended] {
        for allowed in [&[][..], &["Bash"], &["Bash(git *)"]] {
            let check = check(&rules(level, allowed, &[]), &call);
            assert_eq!(check, AccessCheck::Ask { protected: None }, "{level:?} {allowed:?}");
        }
    }
    let denied = check(&rules(PermissionLevel::Ask, &[], &["Bash"]), &call);
    assert!(matches!(denied, AccessCheck::Deny(_)), "{denied:?}");
}

#[test]
fn a_grant_allows_exactly_what_was_shown() {
    let rules = rules(PermissionLevel::Ask, &[], &[]);
    let offered = |request: &ApprovalRequest| {
        let places = places();
        let plan = AccessPlan::new(request, Path::new(CWD), &places);
        let real = plan.paths().iter().map(|path| resolve(path)).collect();
        plan.resolved(real).offered_rules()
    };
    let mut build = bash("npm run build *");
    build.suggestions = vec!["Bash(npm run *)".parse().unwrap()];
    let shown: Vec<String> = offered(&build).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["exactly Bash(npm run build *)", "Bash(npm run *)"]);
    let exact = &offered(&build)[..1];
    let wider = &offered(&build)[1..];
    assert_eq!(check_with(&rules, &build, exact), AccessCheck::Allow);
    assert_eq!(check_with(&rules, &bash("npm run build x"), exact), ASK, "`*` stands for itself");
    assert_eq!(check_with(&rules, &bash("npm run other"), wider), AccessCheck::Allow);
    let mut elsewhere = build.clone();
    elsewhere.access.cwd = Some("/tmp".into());
    assert_eq!(check_with(&rules, &elsewhere, exact), ASK, "another directory");
    let mut changed = build.clone();
    changed.access.command.as_mut().unwrap().env.push(("PATH".into(), "/evil".into()));
    assert_eq!(check_with(&rules, &changed, exact), ASK, "other variables");
    let hook = writes(&[".git/hooks/x"]);
    assert_eq!(check_with(&rules, &hook, &offered(&hook)), AccessCheck::Allow, "a person saw it");
    let linked = writes(&["ok/link/a"]);
    assert_eq!(offered(&linked)[0].to_string(), "Write(/outside/a)");
    let mut call = request("mcp__docs__search", ToolClass::Other, ToolAccess::default());
    call.input = serde_json::from_str(r#"{"q":1}"#).unwrap();
    let shown: Vec<String> = offered(&call).iter().map(ToString::to_string).collect();
    assert_eq!(shown, [r#"mcp__docs__search({"q":1})"#, "mcp__docs__search"]);
}

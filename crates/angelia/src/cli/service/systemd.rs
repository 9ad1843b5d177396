//! The systemd user unit.

use super::{ServicePlan, SupervisorCall};

/// The path of the unit, below the user's configuration folder.
pub(super) const FILE: &str = "systemd/user/angelia.service";

const UNIT: &str = "angelia.service";

/// The unit contained in the packages.
const PACKAGED: &str = include_str!("../../../../../packaging/angelia.service");
const PACKAGED_PROGRAM: &str = "\"@BINDIR@/angelia\"";

/// Returns the packaged unit with this program, this home and the current `PATH`.
pub(super) fn unit(plan: &ServicePlan) -> String {
    let begin = PACKAGED.find("[Unit]").unwrap_or(0);
    let serve = format!("ExecStart={PACKAGED_PROGRAM} serve");
    let restart = format!("ExecReload={PACKAGED_PROGRAM} restart");
    let environment = format!(
        "{restart}\nEnvironment={}\nEnvironment={}",
        quoted(&format!("ANGELIA_HOME={}", plan.home.display())),
        quoted(&format!("PATH={}", plan.path)),
    );
    let unit = PACKAGED[begin..]
        .replace(&restart, &environment)
        .replace(&serve, &format!("ExecStart={}", quoted_command(&plan.serve_command())))
        .replace(&restart, &format!("ExecReload={}", quoted_command(&plan.command("restart"))));
    format!(
        "# Written by `angelia service install`; `angelia service uninstall` removes it.\n{unit}"
    )
}

pub(super) fn commands(call: SupervisorCall) -> Vec<Vec<String>> {
    let systemctl = |words: &[&str]| {
        ["systemctl", "--user"].iter().chain(words).map(|word| (*word).to_owned()).collect()
    };
    match call {
        SupervisorCall::Enable => {
            vec![systemctl(&["daemon-reload"]), systemctl(&["enable", "--now", UNIT])]
        }
        SupervisorCall::Disable => vec![systemctl(&["disable", "--now", UNIT])],
        SupervisorCall::Reload => vec![systemctl(&["daemon-reload"])],
        SupervisorCall::Check => vec![systemctl(&["is-active", UNIT])],
    }
}

fn quoted_command(words: &[String]) -> String {
    // `$` begins a variable only in commands.
    let words: Vec<_> = words.iter().map(|word| quoted(&word.replace('$', "$$"))).collect();
    words.join(" ")
}

/// Quotes a word: `%` begins a specifier, and otherwise the rules of C apply.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{word}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_quoted() {
        let plan = ServicePlan {
            program: "/opt/my programs/ange\"lia".into(),
            home: "/home/100%/$me\\".into(),
            config: Some("/home/$me/config.yaml".into()),
            path: "/usr/bin:/bin".into(),
        };
        let unit = unit(&plan);
        let serve =
            r#"ExecStart="/opt/my programs/ange\"lia" "serve" "--config" "/home/$$me/config.yaml""#;
        assert!(unit.contains(serve), "{unit}");
        assert!(unit.contains(r#"Environment="ANGELIA_HOME=/home/100%%/$me\\""#), "{unit}");
        assert!(unit.contains(r#"Environment="PATH=/usr/bin:/bin""#), "{unit}");
        assert!(unit.contains(r#"" "restart" "--config""#) && !unit.contains("@BINDIR@"), "{unit}");
        assert!(unit.contains("NoNewPrivileges=yes"), "{unit}");
    }
}

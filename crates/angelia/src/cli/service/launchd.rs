//! The launchd agent. Written from the documentation: a property list parser accepts it, but it has
//! never run on macOS.

use std::path::Path;

use super::{ServicePlan, SupervisorCall};

/// The property list, below the user's home.
pub(super) const FILE: &str = "Library/LaunchAgents/org.angelia.daemon.plist";

const LABEL: &str = "org.angelia.daemon";

pub(super) fn plist(plan: &ServicePlan) -> String {
    let words = plan.serve_command();
    let words: Vec<_> = words.iter().map(|word| escaped(word)).collect();
    let serve = format!("        <string>{}</string>", words.join("</string>\n        <string>"));
    let home = escaped(&plan.home.display().to_string());
    let path = escaped(&plan.path);
    format!(
        "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- Written by `angelia service install`; untested on macOS. -->
<plist version=\"1.0\">
<dict>
    <key>Label</key>
    <string>{LABEL}</string>
    <key>ProgramArguments</key>
    <array>
{serve}
    </array>
    <key>EnvironmentVariables</key>
    <dict>
        <key>ANGELIA_HOME</key>
        <string>{home}</string>
        <key>PATH</key>
        <string>{path}</string>
    </dict>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>ExitTimeOut</key>
    <integer>120</integer>
    <key>ProcessType</key>
    <string>Interactive</string>
</dict>
</plist>
"
    )
}

pub(super) fn commands(call: SupervisorCall, file: &Path) -> Vec<Vec<String>> {
    let file = file.display().to_string();
    let launchctl =
        |words: &[&str]| ["launchctl"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    match call {
        SupervisorCall::Enable => vec![launchctl(&["load", "-w", &file])],
        SupervisorCall::Disable => vec![launchctl(&["unload", "-w", &file])],
        SupervisorCall::Reload => Vec::new(),
        SupervisorCall::Check => vec![launchctl(&["list", LABEL])],
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use angelia_executors::process::system_tool::run_tool;
    use angelia_testkit::programs::workspace_root;
    use serde_json::{Value, json};

    use super::*;

    /// Reads a property list with Python's parser, which follows Apple's format.
    fn parse(plist: &str) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("org.angelia.daemon.plist");
        std::fs::write(&file, plist).unwrap();
        let python = workspace_root().join("target/python/clients/bin/python");
        assert!(python.is_file(), "`cargo xtask setup` installs {}", python.display());
        let script = "import json, plistlib, sys\n\
            with open(sys.argv[1], 'rb') as file: print(json.dumps(plistlib.load(file)))";
        let arguments = ["-I", "-c", script, file.to_str().unwrap()].map(str::to_owned);
        let ran = run_tool(python.to_str().unwrap(), &arguments, []).unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    #[test]
    fn real_parser_reads_what_was_meant() {
        let plan = ServicePlan {
            program: "/Applications/A & B/angelia".into(),
            home: "/srv/<me> \"and\" 'you' ]]> ü 世".into(),
            config: Some("/srv/&amp;/config.yaml".into()),
            path: "/usr/bin:/opt/a&b".into(),
        };
        let expected = json!({
            "Label": LABEL,
            "ProgramArguments":
                ["/Applications/A & B/angelia", "serve", "--config", "/srv/&amp;/config.yaml"],
            "EnvironmentVariables": {
                "ANGELIA_HOME": "/srv/<me> \"and\" 'you' ]]> ü 世",
                "PATH": "/usr/bin:/opt/a&b",
            },
            "RunAtLoad": true,
            "KeepAlive": {"SuccessfulExit": false},
            "ExitTimeOut": 120,
            "ProcessType": "Interactive",
        });
        assert_eq!(parse(&plist(&plan)), expected);
    }

    #[test]
    fn odd_characters_are_escaped() {
        let plan = ServicePlan {
            program: "/Applications/A & B/angelia".into(),
            home: "/srv/<me>".into(),
            config: None,
            path: "/usr/bin".into(),
        };
        let plist = plist(&plan);
        assert!(plist.contains("<string>/Applications/A &amp; B/angelia</string>"), "{plist}");
        assert!(plist.contains("<string>/srv/&lt;me&gt;</string>"), "{plist}");
    }
}

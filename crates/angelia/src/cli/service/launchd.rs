//! The agent of launchd. Written from its documentation; untested on a real macOS.

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
    use super::*;

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

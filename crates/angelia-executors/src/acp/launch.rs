//! Turns a session specification into an ACP agent's command line, and refuses settings that ACP
//! agents cannot honour. Pure except for the search for the program.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use angelia_core::model::{
    Billing, Failure, FailureKind, LaunchFingerprint, Mode, SessionSpec, SystemPrompt, ToolSet,
};

use crate::host::ExecutorHost;

/// Refuses settings that we cannot enforce through ACP.
pub(super) fn check_spec(spec: &SessionSpec) -> Result<(), Failure> {
    let refuse = |what: &str, hint: &str| {
        Err(Failure::new(FailureKind::Invalid, what).with_hint(hint.to_owned()))
    };
    if spec.mode == Mode::Model {
        return refuse(
            "an ACP agent has no model mode: nothing in the protocol turns the agent's own tools off",
            "set `mode: agent`, or choose another `executor` for this profile",
        );
    }
    if matches!(spec.tools, ToolSet::None | ToolSet::List(_)) {
        return refuse(
            "the tools of an ACP agent cannot be chosen: the protocol has no such setting",
            "set `tools: default`, and use `disallowed_tools` for what must not run",
        );
    }
    if let SystemPrompt::Replace(_) = spec.system {
        return refuse(
            "the system prompt of an ACP agent cannot be replaced",
            "use `system_prompt_path` in agent mode, which adds to it",
        );
    }
    if !spec.caller_tools.is_empty() {
        return refuse(
            "an ACP agent cannot call the caller's tools",
            "leave `tools` out of the request, or choose another model",
        );
    }
    if spec.output_schema.is_some() {
        return refuse(
            "an ACP agent does not support an output schema",
            "ask for JSON in the prompt, or choose another model",
        );
    }
    check_billing(spec.billing)
}

/// Accepts only `billing: any`, because ACP agents do not report which account pays.
fn check_billing(billing: Billing) -> Result<(), Failure> {
    match billing {
        Billing::Any => Ok(()),
        Billing::Subscription | Billing::ApiKey => {
            let wanted = billing.as_str();
            let message = format!(
                "this profile wants billing `{wanted}`, but ACP agents do not report who pays"
            );
            Err(Failure::new(FailureKind::Auth, message).with_hint("set `billing: any`"))
        }
    }
}

/// The agent's command line, with the program resolved to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcpAgentCommand {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
}

pub(super) fn find_command(
    host: &ExecutorHost,
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<AcpAgentCommand, Failure> {
    let Some((name, args)) = spec.command.split_first() else {
        let message = format!("profile `{}` has no `command` for its ACP agent", spec.profile);
        return Err(Failure::new(FailureKind::Invalid, message)
            .with_hint("set `command`, for example `command: [gemini, --acp]`"));
    };
    let named = spec.binary.clone().unwrap_or_else(|| expand_home(host, name));
    let Some(program) = host.find_program(&named, environment) else {
        let message = format!("the ACP agent `{}` is not installed", named.display());
        return Err(Failure::new(FailureKind::Unavailable, message)
            .with_hint("install it, or fix `command` in the profile; a path must be absolute"));
    };
    Ok(AcpAgentCommand { program, args: args.iter().map(|arg| OsString::from(&**arg)).collect() })
}

fn expand_home(host: &ExecutorHost, name: &str) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(below) => host.user_home.join(below),
        None => Path::new(name).to_owned(),
    }
}

/// Returns the key of the warm pool: sessions with equal fingerprints can share an agent.
pub(super) fn pool_key(spec: &SessionSpec) -> LaunchFingerprint {
    LaunchFingerprint::of(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_refused_with_a_reason() {
        let spec = || SessionSpec::new("acp", "/");
        assert!(check_spec(&spec()).is_ok());
        let changes: [fn(&mut SessionSpec); 5] = [
            |spec| spec.mode = Mode::Model,
            |spec| spec.tools = ToolSet::None,
            |spec| spec.tools = ToolSet::List(vec!["Read".into()]),
            |spec| spec.system = SystemPrompt::Replace("x".into()),
            |spec| spec.billing = Billing::Subscription,
        ];
        for change in changes {
            let mut spec = spec();
            change(&mut spec);
            let failure = check_spec(&spec).unwrap_err();
            assert!(failure.hint.is_some(), "{failure}");
        }
    }
}

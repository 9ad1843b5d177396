//! Checks that every profile for an ACP agent has a command line, and that no other profile has
//! one. Also refuses settings that no ACP agent can be made to follow.

use super::{
    load::Config,
    problem::Problem,
    types::{ExecutorName, Mode},
};

const COMMAND_MISSING: &str =
    "needs a `command`: the agent's program and its arguments, such as [gemini, --acp]";
const COMMAND_NOT_ALLOWED: &str = "is only for `executor: acp`; set that, or remove it";
const NO_MODEL_MODE: &str = "cannot be `model` for `executor: acp`: nothing in that protocol turns an \
                             agent's own tools off; use `mode: agent`";

impl Config {
    pub(super) fn check_commands(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            for (executor, profile) in &entry.candidates {
                let (key, what) = match (executor, &profile.command) {
                    (ExecutorName::Acp, None) => ("executor", COMMAND_MISSING),
                    (ExecutorName::Acp, Some(_)) if profile.mode == Mode::Model => {
                        ("mode", NO_MODEL_MODE)
                    }
                    (ExecutorName::Acp, Some(_)) | (_, None) => continue,
                    (_, Some(_)) => ("command", COMMAND_NOT_ALLOWED),
                };
                let path = format!("profiles.{name}.{key}");
                problems.push(Problem::new(self.key_origin(name, *executor, key), &path, what));
                break;
            }
        }
        problems
    }
}

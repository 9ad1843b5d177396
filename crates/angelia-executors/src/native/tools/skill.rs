//! `skill`: loads the instructions of a skill. The prompt has only names and descriptions.

use std::{fmt::Write as _, fs, path::PathBuf, sync::Arc};

use angelia_core::ports::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    excerpt::MAX_BYTES,
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
};
use crate::native::skills::{Skill, front_matter::read_skill};

pub const NAME: &str = "skill";

/// Larger files are not instructions.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

#[derive(Debug)]
pub struct SkillTool {
    skills: Arc<[Skill]>,
}

impl SkillTool {
    pub fn new(skills: Vec<Skill>) -> Self {
        Self { skills: skills.into() }
    }

    fn find(&self, name: &str) -> Option<&Skill> {
        let mut skills = self.skills.iter();
        skills.clone().find(|skill| skill.name == name).or_else(|| {
            skills
                .find(|skill| skill.name.eq_ignore_ascii_case(name.trim().trim_start_matches('/')))
        })
    }
}

#[derive(Deserialize)]
struct SkillArguments {
    name: String,
}

#[derive(Debug)]
struct SkillCall {
    name: String,
    file: PathBuf,
    plan: CallPlan,
}

impl Tool for SkillTool {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Load the instructions of a skill."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: SkillArguments = parse_arguments(arguments)?;
        let Some(Skill { name, file, .. }) = self.find(&wanted.name) else {
            let names: Vec<&str> = self.skills.iter().map(|skill| &*skill.name).collect();
            let known = names.join(", ");
            return Err(CallError::new(format!(
                "there is no skill `{}`; there are: {known}",
                wanted.name
            )));
        };
        // Nobody is asked, because the owner has chosen the folders, and the prompt lists what is
        // in them.
        let plan = CallPlan::reads(format!("skill {name}"), Vec::new());
        Ok(Box::new(SkillCall { name: name.clone(), file: file.clone(), plan }))
    }
}

impl PreparedCall for SkillCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.load())
    }
}

impl SkillCall {
    fn load(&self) -> Result<CallOutput, CallError> {
        let Self { name, file, .. } = self;
        let unreadable = |error: &dyn std::fmt::Display| {
            CallError::new(format!("the skill `{name}` cannot be read: {error}; go on without it"))
        };
        let size = fs::metadata(file).map_err(|error| unreadable(&error))?.len();
        if size > MAX_FILE_BYTES {
            return Err(unreadable(&format!("{} has {size} bytes", file.display())));
        }
        let bytes = fs::read(file).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8_lossy(&bytes);
        let body = read_skill(&text).body.trim();
        let folder = file.parent().unwrap_or(file).display();
        let mut shown = format!("Skill `{name}`; its files are in {folder}\n\n");
        let end = body.floor_char_boundary(MAX_BYTES.min(body.len()));
        shown.push_str(&body[..end]);
        if end < body.len() {
            let file = file.display();
            let _infallible = write!(shown, "\n(cut at {end} bytes; the rest is in {file})");
        }
        Ok(CallOutput::text(shown))
    }
}

//! The tools of a session, by name.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{CallerTool, Plan, Question, RawJson},
    permission::PrivateFiles,
};

use super::{
    apply_patch::ApplyPatchTool,
    ask_user,
    bash::BashTool,
    edit::EditTool,
    glob::GlobTool,
    grep::GrepTool,
    job::JobTool,
    jobs::Jobs,
    output_folder::OutputFolder,
    read::ReadTool,
    shell::Shell,
    todo,
    tool::{CallError, PreparedCall, Tool, raw_json},
    workspace::Workspace,
    write::WriteTool,
};

/// The tools with which a model changes files, depending on how it was trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditStyle {
    /// `edit` and `write`.
    #[default]
    Replace,
    /// `apply_patch`.
    Patch,
}

/// The services that the tools of a session share.
#[derive(Clone, Debug)]
pub struct ToolkitSetup {
    pub workspace: Arc<Workspace>,
    pub private: Arc<PrivateFiles>,
    pub shell: Arc<Shell>,
    pub output: Arc<OutputFolder>,
    pub edit_style: EditStyle,
}

#[derive(Debug)]
pub struct Toolkit {
    tools: Vec<Arc<dyn Tool>>,
    jobs: Arc<Jobs>,
}

/// A prepared call, as the loop handles it.
#[derive(Debug)]
pub enum PreparedTool {
    Call(Box<dyn PreparedCall>),
    /// Becomes an event; the model gets [`todo::ANSWER`].
    Plan(Plan),
    /// Becomes an approval; the model gets [`ask_user::answer_text`].
    Question(Question),
}

impl Toolkit {
    pub fn new(setup: &ToolkitSetup) -> Self {
        let workspace = || Arc::clone(&setup.workspace);
        let private = || Arc::clone(&setup.private);
        let output = || Arc::clone(&setup.output);
        let jobs = Arc::new(Jobs::new(&setup.shell.host.tasks, output()));
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(ReadTool::new(workspace()))];
        match setup.edit_style {
            EditStyle::Replace => {
                tools.push(Arc::new(EditTool::new(workspace())));
                tools.push(Arc::new(WriteTool::new(workspace())));
            }
            EditStyle::Patch => tools.push(Arc::new(ApplyPatchTool::new(workspace()))),
        }
        tools.push(Arc::new(GrepTool::new(workspace(), private())));
        tools.push(Arc::new(GlobTool::new(workspace(), private())));
        let shell = Arc::clone(&setup.shell);
        let must_ask = shell.sandbox.must_ask.clone();
        tools.push(Arc::new(BashTool::new(shell, output(), Arc::clone(&jobs))));
        tools.push(Arc::new(JobTool::new(Arc::clone(&jobs), must_ask)));
        Self { tools, jobs }
    }

    /// Adds a tool that only some sessions have.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.tools.push(tool);
    }

    /// Returns the tools as every request of the session describes them, always in the same order.
    pub fn definitions(&self) -> Vec<CallerTool> {
        let of_loop = [
            (todo::NAME, todo::DESCRIPTION, todo::SCHEMA),
            (ask_user::NAME, ask_user::DESCRIPTION, ask_user::SCHEMA),
        ];
        let of_loop = of_loop.map(|(name, description, schema)| CallerTool {
            name: name.into(),
            description: description.into(),
            input_schema: raw_json(schema),
        });
        self.tools.iter().map(|tool| tool.definition()).chain(of_loop).collect()
    }

    /// Prepares a call of the tool with exactly this name.
    pub async fn prepare(&self, name: &str, arguments: RawJson) -> Result<PreparedTool, CallError> {
        match name {
            todo::NAME => return todo::parse_plan(&arguments).map(PreparedTool::Plan),
            ask_user::NAME => {
                return ask_user::parse_question(&arguments).map(PreparedTool::Question);
            }
            _ => {}
        }
        let tool = self.tools.iter().find(|tool| tool.name() == name).map(Arc::clone);
        let tool = tool.ok_or_else(|| CallError::new(format!("there is no tool `{name}`")))?;
        // Resolving paths may block on a slow file system.
        let prepared = tokio::task::spawn_blocking(move || tool.prepare(&arguments)).await;
        let prepared = prepared
            .unwrap_or_else(|error| Err(CallError::new(format!("the tool failed: {error}"))));
        prepared.map(PreparedTool::Call)
    }

    /// Ends all running commands and jobs.
    pub async fn close(&self, grace: Duration) {
        self.jobs.close(grace).await;
    }
}

//! Opens the tools of a session: its directory, its sandbox, its knowledge, and its MCP servers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{EventKind, Failure, FailureKind, SessionSpec},
    permission::{CHAT_FILES, PrivateFiles},
    ports::{KnownPlaces, OpenRequest, RecordedTurn},
};

use super::{
    agent::{SessionTools, has_own_tools},
    executor::{NativeExecutor, real_cwd, real_or_stated},
    knowledge::{Knowledge, KnowledgePlaces},
    mcp::{McpServers, ServerPlace},
    memory::NoteStore,
    prompt_notes::PromptNotes,
    sandbox::{SandboxPlaces, SandboxSettings, plan_sandbox},
    session_model::SessionModel,
    session_prefix::SessionPrefix,
    tools::{
        EditStyle, OutputFolder, Shell, Toolkit, ToolkitSetup, Workspace,
        delegate::{DelegateTool, DelegatedCost},
    },
};
use crate::process::confinement::landlock_support;

/// The subfolder of a session for outputs that are too long for the model.
const OUTPUT: &str = "output";

/// The tools of a session, and the notes for its prompt.
pub(super) struct OpenedTools {
    /// The session's directory; a real path if the session has tools of our own.
    pub(super) cwd: PathBuf,
    pub(super) notes: PromptNotes,
    /// The event that records the notes; `None` if the record already has them.
    pub(super) notes_event: Option<EventKind>,
    pub(super) tools: SessionTools,
}

impl NativeExecutor {
    /// Opens the tools of a session. `turns` are its recorded turns. `reviewed` is the prefix of
    /// the session that it reviews, whose tools it describes.
    pub(super) async fn open_tools(
        &self,
        opening: &OpenRequest<'_>,
        model: &SessionModel,
        turns: &[RecordedTurn],
        reviewed: Option<&SessionPrefix>,
    ) -> Result<OpenedTools, Failure> {
        let spec = opening.spec;
        let takes_tools = model.takes_tools;
        let mut knowledge = Knowledge::default();
        let delegated_cost = DelegatedCost::default();
        let (cwd, toolkit) = if takes_tools && has_own_tools(spec) {
            let cwd = real_cwd(&spec.cwd)?;
            let mut toolkit = self.toolkit(opening, &cwd, model)?;
            let places = self.knowledge_places(spec, &cwd, model);
            knowledge = Knowledge::gather(opening, &places, turns);
            knowledge.add_tools(&mut toolkit);
            let (slot, cost) = (&self.host.delegation, delegated_cost.clone());
            if let Some(tool) = DelegateTool::new(slot, opening.session, spec, cost) {
                toolkit.add(Arc::new(tool));
            }
            (cwd, Some(toolkit))
        } else {
            (real_or_stated(&spec.cwd), None)
        };
        let tools = if let Some(prefix) = reviewed {
            SessionTools::new(spec, toolkit, None).described_as(prefix)
        } else if takes_tools {
            let servers = McpServers::start(ServerPlace {
                host: self.host.clone(),
                session: opening.session,
                spec: spec.clone(),
                cwd: cwd.clone(),
                output: Arc::new(OutputFolder::new(
                    self.session_folder(opening.session).join(OUTPUT),
                )),
            });
            SessionTools::new(spec, toolkit, servers.await).with_delegated_cost(delegated_cost)
        } else {
            SessionTools::default()
        };
        let Knowledge { notes, is_recorded, memory, .. } = knowledge;
        let notes_event = notes.event().filter(|_| !is_recorded);
        Ok(OpenedTools { cwd, notes, notes_event, tools: tools.with_memory(memory) })
    }

    pub(super) fn toolkit(
        &self,
        opening: &OpenRequest<'_>,
        cwd: &Path,
        model: &SessionModel,
    ) -> Result<Toolkit, Failure> {
        let (host, spec) = (&self.host, opening.spec);
        let invalid = |text: String| Failure::new(FailureKind::Invalid, text);
        let angelia_home = self.angelia_home();
        let user_home = real_or_stated(&host.home_of(spec));
        let own = self.session_folder(opening.session);
        let output = own.join(OUTPUT);
        let settings = SandboxSettings {
            mode: spec.native.sandbox,
            read: spec.native.sandbox_read.clone(),
            write: spec.native.sandbox_write.clone(),
            network: spec.native.network,
        };
        let places = SandboxPlaces {
            cwd,
            user_home: &user_home,
            angelia_home: &angelia_home,
            temporary: &[real_or_stated(&std::env::temp_dir())],
            own_temporary: &own.join("tmp"),
            own_files: &[output.clone(), own.join("inbox")],
            chat_files: &own.join(CHAT_FILES),
        };
        let sandbox = plan_sandbox(&settings, &places, landlock_support())
            .map_err(|error| invalid(error.to_string()))?;
        let workspace = Workspace::new(cwd, &user_home)
            .map_err(|error| invalid(format!("{} cannot be used: {error}", cwd.display())))?
            .with_memory(NoteStore::root_in(&angelia_home));
        let places = KnownPlaces { user_home, angelia_home, agent_files: crate::agent_files() };
        let private = PrivateFiles {
            session: opening.session,
            profile: Arc::clone(&spec.profile),
            cwd: cwd.to_owned(),
            places,
        };
        let shell = Shell {
            host: host.clone(),
            session: opening.session,
            spec: spec.clone(),
            cwd: cwd.to_owned(),
            sandbox,
        };
        Ok(Toolkit::new(&ToolkitSetup {
            workspace: Arc::new(workspace),
            private: Arc::new(private),
            shell: Arc::new(shell),
            output: Arc::new(OutputFolder::new(output)),
            edit_style: edit_style(&model.issuer.model),
        }))
    }

    pub(super) fn knowledge_places(
        &self,
        spec: &SessionSpec,
        cwd: &Path,
        model: &SessionModel,
    ) -> KnowledgePlaces {
        KnowledgePlaces {
            angelia_home: self.angelia_home(),
            user_home: real_or_stated(&self.host.home_of(spec)),
            cwd: cwd.to_owned(),
            window: model.limits.context.unwrap_or_default(),
            redactor: self.host.redactor.clone(),
        }
    }
}

/// Returns how a model edits files: some models were trained to write patches.
fn edit_style(model: &str) -> EditStyle {
    let name = model.rsplit('/').next().unwrap_or(model);
    if name.starts_with("gpt-") || name.contains("codex") {
        EditStyle::Patch
    } else {
        EditStyle::Replace
    }
}
